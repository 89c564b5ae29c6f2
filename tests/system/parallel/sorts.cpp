// SPDX-License-Identifier: Apache-2.0
// parallel_sort and parallel_stable_sort.
#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cases.hpp"

namespace {

constexpr std::size_t kLengths[] = {0, 1, 2, 3, 24, 25, 97, 2048, 2049, 4097, 20011, 100003};

struct Item {
  std::uint32_t key, number;
  friend bool operator==(const Item&, const Item&) = default;
};
bool by_key(const Item& a, const Item& b) { return a.key < b.key; }

void in_order() {
  for (const std::size_t length : kLengths)
    for (const std::uint64_t keys : {1, 2, 300, 1 << 30}) {
      Numbers numbers(length);
      std::vector<Item> items(length);
      for (std::size_t i = 0; i < length; ++i)
        items[i] = {static_cast<std::uint32_t>(numbers() % keys), static_cast<std::uint32_t>(i)};
      std::vector<Item> expected = items;
      std::sort(expected.begin(), expected.end(),
                [](const Item& a, const Item& b) { return a.key != b.key ? a.key < b.key : a.number < b.number; });
      std::vector<Item> stable = items;
      ayatori::parallel_stable_sort(stable.begin(), stable.end(), by_key);
      CHECK(stable == expected);
      std::deque<Item> any(items.begin(), items.end());
      ayatori::parallel_sort(any.begin(), any.end(), by_key);
      CHECK(std::is_sorted(any.begin(), any.end(), by_key));
      std::sort(any.begin(), any.end(), [](const Item& a, const Item& b) { return a.number < b.number; });
      CHECK(std::equal(any.begin(), any.end(), items.begin(), items.end()));
      ayatori::parallel_stable_sort(stable.begin(), stable.end(), by_key);  // sorted before
      CHECK(stable == expected);
      std::vector<std::uint32_t> backwards(length);
      for (std::size_t i = 0; i < length; ++i) backwards[i] = static_cast<std::uint32_t>(length - i);
      ayatori::parallel_sort(backwards.begin(), backwards.end());
      for (std::size_t i = 0; i < length; ++i) CHECK(backwards[i] == i + 1);
      ayatori::parallel_sort(backwards.data(), backwards.data() + length, std::greater<>());
      for (std::size_t i = 0; i < length; ++i) CHECK(backwards[i] == length - i);
    }
}

// Moves only, counts itself, knows whether it holds a value.
class Tracked {
 public:
  static inline std::atomic<long> alive{0};  // each process's own: the sum of all counts
  explicit Tracked(std::uint64_t value) : value_(std::make_unique<std::uint64_t>(value)) { ++alive; }
  Tracked(Tracked&& other) noexcept : value_(std::move(other.value_)) { ++alive; }
  Tracked& operator=(Tracked&&) noexcept = default;
  ~Tracked() { --alive; }
  bool has_value() const { return value_ != nullptr; }
  std::uint64_t value() const { return *value_; }
  friend bool operator<(const Tracked& a, const Tracked& b) { return a.value() < b.value(); }

 private:
  std::unique_ptr<std::uint64_t> value_;
};

long all_alive() {
  long sum = 0;
  for (int p = 0; p < ayatori::process_count(); ++p)
    ayatori::thread(ayatori::on(p), [&sum] {
      const ayatori::pinned stay;
      sum += Tracked::alive;
    }).join();
  return sum;
}

std::vector<Tracked> tracked(std::size_t length) {
  std::vector<Tracked> v;
  v.reserve(length);
  Numbers numbers(7);
  for (std::size_t i = 0; i < length; ++i) v.emplace_back(numbers() % length);
  return v;
}

template <bool kStable>
void sort(auto first, auto last, auto less) {
  if constexpr (kStable)
    ayatori::parallel_stable_sort(first, last, less);
  else
    ayatori::parallel_sort(first, last, less);
}

template <bool kStable>
void move_only() {
  constexpr std::size_t kLength = 10007;
  SHARED(2, [] {
    std::vector<Tracked> v = tracked(kLength);
    std::vector<unsigned> where(kLength, 0);
    sort<kStable>(v.begin(), v.end(), [&](const Tracked& a, const Tracked& b) {
      if (a.value() % 16 == 0) {
        spin(1);
        // One thread at a time compares with an element, but not with one value: bytes of a word, one a process, which
        // threads of that process store at once.
        unsigned char& here = reinterpret_cast<unsigned char*>(&where[a.value()])[ayatori::process_id()];
        std::atomic_ref(here).store(1, std::memory_order_relaxed);  // the join orders it
      }
      return a < b;
    });
    CHECK(std::is_sorted(v.begin(), v.end()));
    CHECK(all_alive() == static_cast<long>(kLength));
    unsigned processes = 0;
    for (const unsigned& w : where)
      for (int p = 0; p < ayatori::process_count(); ++p)
        if (reinterpret_cast<const unsigned char*>(&w)[p] != 0) processes |= 1u << p;
    return processes;
  });
  CHECK(all_alive() == 0);
}

// Comparisons that throw: at once, in a leaf, in some merge.
template <bool kStable>
void throwing() {
  constexpr std::size_t kLength = 10007;
  struct Mistake {};
  std::vector<std::uint64_t> values;
  for (const Tracked& t : tracked(kLength)) values.push_back(t.value());
  std::sort(values.begin(), values.end());
  int thrown = 0;
  for (std::uint64_t distance = 1; distance < kLength; distance *= 3)
    for (std::uint64_t every : {1, 7, 500}) {
      {
        std::vector<Tracked> v = tracked(kLength);
        try {
          // Those far from each other meet in leaves, neighbours in the last merges, too.
          sort<kStable>(v.begin(), v.end(), [&](const Tracked& a, const Tracked& b) {
            const std::uint64_t x = a.value(), y = b.value();
            if ((x > y ? x - y : y - x) == distance && std::min(x, y) % every == 0) throw Mistake();
            return x < y;
          });
        } catch (const Mistake&) {
          ++thrown;
        }
        CHECK(v.size() == kLength && all_alive() == static_cast<long>(kLength));
        if (kStable) {
          std::vector<std::uint64_t> after;
          for (const Tracked& t : v) {
            CHECK(t.has_value());
            if (t.has_value()) after.push_back(t.value());
          }
          std::sort(after.begin(), after.end());
          CHECK(after == values);
        }
      }
      CHECK(all_alive() == 0);
    }
  CHECK(thrown > 10);
}

struct MayThrow {  // moving it may throw, says its type
  std::string text;
  explicit MayThrow(std::string t) : text(std::move(t)) {}
  MayThrow(const MayThrow&) = default;
  MayThrow(MayThrow&& o) noexcept(false) : text(std::move(o.text)) {}
  MayThrow& operator=(MayThrow&& o) noexcept(false) {
    text = std::move(o.text);
    return *this;
  }
  ~MayThrow() = default;
};

}  // namespace

void sorts() {
  in_order();
  SHARED(2, [] {
    std::vector<std::uint64_t> v(20011);
    Numbers numbers(1);
    for (auto& x : v) x = numbers();
    auto expected = v;
    std::sort(expected.begin(), expected.end());
    unsigned char processes[64] = {};
    ayatori::parallel_sort(v.begin(), v.end(), [&](std::uint64_t a, std::uint64_t b) {
      // Workers of one process store it at once; the join orders it.
      std::atomic_ref(processes[ayatori::process_id()]).store(1, std::memory_order_relaxed);
      return a < b;
    });
    CHECK(v == expected);
    unsigned mask = 0;
    for (int p = 0; p < ayatori::process_count(); ++p) mask |= processes[p] != 0 ? 1u << p : 0;
    return mask;
  });
  move_only<false>();
  move_only<true>();
  throwing<false>();
  throwing<true>();
  std::vector<MayThrow> strings;
  for (int i = 0; i < 5000; ++i) strings.emplace_back(std::to_string(i * 7919 % 5000));
  ayatori::parallel_sort(strings.begin(), strings.end(), [](auto& a, auto& b) { return a.text < b.text; });
  CHECK(std::is_sorted(strings.begin(), strings.end(), [](auto& a, auto& b) { return a.text < b.text; }));
}
