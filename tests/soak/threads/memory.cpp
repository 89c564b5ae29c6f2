// SPDX-License-Identifier: Apache-2.0
// Kinds about memory: cilksort, locals, heap, strings.
#include <ayatori/ayatori.h>
#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory_resource>
#include <unordered_map>

#include "soak.hpp"

namespace soak {
namespace {

// ---------------------------------------------------------------------------------------------------- cilksort

using Word = std::uint32_t;

void merge(const Word* a, std::size_t na, const Word* b, std::size_t nb, Word* to) {
  if (na < nb) {
    std::swap(a, b);
    std::swap(na, nb);
  }
  if (na + nb <= 512) {
    std::merge(a, a + na, b, b + nb, to);
    return;
  }
  const std::size_t middle = na / 2;
  const auto other = static_cast<std::size_t>(std::lower_bound(b, b + nb, a[middle]) - b);
  ayatori::thread t([=] { merge(a, middle, b, other, to); });
  merge(a + middle, na - middle, b + other, nb - other, to + middle + other);
  t.join();
}

// Sorts data; spare is as long.
void sort(Word* data, Word* spare, std::size_t n) {
  if (n <= 512) {
    std::sort(data, data + n);
    return;
  }
  const std::size_t q = n / 4, h = 2 * q;
  ayatori::parallel_invoke([=] { sort(data, spare, q); }, [=] { sort(data + q, spare + q, q); },
                           [=] { sort(data + h, spare + h, q); },
                           [=] { sort(data + h + q, spare + h + q, n - h - q); });
  ayatori::parallel_invoke([=] { merge(data, q, data + q, q, spare); },
                           [=] { merge(data + h, q, data + h + q, n - h - q, spare + h); });
  merge(spare, h, spare + h, n - h, data);
}

void cilksort(const Run& run) {
  Random random(run.seed);
  const std::size_t n = static_cast<std::size_t>(run.scaled(150000)) + random.below(1000);
  auto* data = static_cast<Word*>(ayatori::allocate(n * sizeof(Word)));
  auto* spare = static_cast<Word*>(ayatori::allocate(n * sizeof(Word), 64));
  const u64 distinct = random.one_in(3) ? 100 : 1u << 31;  // many equal ones too
  std::vector<Word> want(n);
  for (std::size_t i = 0; i < n; ++i) want[i] = data[i] = static_cast<Word>(random.below(distinct));
  std::sort(want.begin(), want.end());
  sort(data, spare, n);
  expect(std::memcmp(data, want.data(), n * sizeof(Word)), 0, "a sorted array", n);
  ayatori::deallocate(spare);
  ayatori::deallocate(data);
}

// ---------------------------------------------------------------------------------------------------- locals

// Children, wherever they are taken or placed, write bytes of their parents' and grandparents' frames, in words that others
// write as well.
void locals_below(u64 seed, int depth, Byte* grandparents) {
  Byte mine[24] = {};
  u64 words[6] = {};
  double fraction = 0;
  {
    Crew crew;
    for (int i = 0; i < 6; ++i) {
      const u64 r = mix(seed, static_cast<u64>(i));
      crew.start(r, [&, r, i] {
        sometimes_yield(r >> 4);
        mine[4 * i + 1] = static_cast<Byte>(r);
        if (depth > 0) locals_below(r, depth - 1, mine + 4 * i + 2);  // it writes two bytes there
        words[i] = r;
        if (i == 3) fraction = static_cast<double>(r % 1000) / 8;
      });
      mine[4 * i] = static_cast<Byte>(r >> 8);  // while children write its neighbours
    }
  }
  for (int i = 0; i < 6; ++i) {
    const u64 r = mix(seed, static_cast<u64>(i));
    expect(mine[4 * i], static_cast<Byte>(r >> 8), "a parent's byte between children's", r);
    expect(mine[4 * i + 1], static_cast<Byte>(r), "a child's byte in its parent's frame", r);
    expect(words[i], r, "a child's word in its parent's frame", r);
    if (depth > 0) {
      expect(mine[4 * i + 2], static_cast<Byte>(r >> 16), "a grandchild's byte", r);
      expect(mine[4 * i + 3], static_cast<Byte>(r >> 24), "a grandchild's last byte", r);
    }
  }
  expect(fraction == static_cast<double>(mix(seed, 3) % 1000) / 8, true, "a child's double in its parent's frame",
         seed);
  if (grandparents) {
    grandparents[0] = static_cast<Byte>(seed >> 16);
    grandparents[1] = static_cast<Byte>(seed >> 24);
  }
}

void locals(const Run& run) {
  for (int r = 0; r < run.scaled(4); ++r) locals_below(mix(run.seed, static_cast<u64>(r)), 2, nullptr);
}

// ---------------------------------------------------------------------------------------------------- heap

struct Parcel {
  Byte* bytes = nullptr;
  std::size_t size = 0;
  u64 stamp = 0;
  int how = 0;
};

Parcel allocate(Random& random) {
  Parcel p;
  p.size = random.one_in(12) ? 1 + random.below(300000) : 1 + random.below(random.one_in(3) ? 5000 : 100);
  p.how = random.range(0, 4);
  p.stamp = random.next();
  switch (p.how) {
    case 0: p.bytes = new Byte[p.size]; break;
    case 1: p.bytes = static_cast<Byte*>(ayatori::allocate(p.size)); break;
    case 2: p.bytes = static_cast<Byte*>(ayatori_malloc(p.size)); break;
    case 3: p.bytes = static_cast<Byte*>(ayatori_aligned_alloc(256, (p.size + 255) / 256 * 256)); break;
    default: p.bytes = static_cast<Byte*>(ayatori_calloc(p.size, 1));
  }
  if (p.bytes == nullptr) {
    expect(0, 1, "an allocation", p.size);
    return Parcel();
  }
  expect(ayatori::in_space(p.bytes), true, "whether memory lies in the space", p.size);
  if (p.how == 3) expect(reinterpret_cast<std::uintptr_t>(p.bytes) % 256, 0, "an alignment", p.size);
  if (p.how == 4) {
    std::size_t set = 0;
    for (std::size_t i = 0; i < p.size; ++i) set += p.bytes[i] != 0;
    expect(set, 0, "bytes of calloc that are not 0", p.size);
  }
  for (std::size_t i = 0; i < p.size; ++i) p.bytes[i] = static_cast<Byte>(p.stamp + i);
  return p;
}

void check_and_free(Random& random, Parcel p) {
  if (p.bytes == nullptr) return;
  std::size_t bad = 0;
  for (std::size_t i = 0; i < p.size; ++i) bad += p.bytes[i] != static_cast<Byte>(p.stamp + i);
  expect(bad, 0, "wrong bytes of a parcel", p.stamp);
  switch (p.how) {
    case 0: delete[] p.bytes; break;
    case 1: ayatori::deallocate(p.bytes); break;
    default:
      if (p.how == 2 && random.one_in(2)) {  // another process may resize it
        const std::size_t size = 1 + random.below(8000);
        auto* again = static_cast<Byte*>(ayatori_realloc(p.bytes, size));
        bad = again == nullptr;
        for (std::size_t i = 0; again != nullptr && i < std::min(size, p.size); ++i)
          bad += again[i] != static_cast<Byte>(p.stamp + i);
        expect(bad, 0, "wrong bytes after realloc", p.stamp);
        p.bytes = again;
      }
      ayatori_free(p.bytes);
  }
}

// Threads leave parcels in slots, and check and free those that others left there.
void heap(const Run& run) {
  constexpr std::size_t kSlots = 24;
  struct Slot {
    ayatori::mutex mutex;
    Parcel parcel;
  };
  std::vector<Slot> slots(kSlots);
  {
    Crew crew;
    for (int t = 0; t < 8; ++t)
      crew.start_on(anywhere(static_cast<u64>(t)), [&, t] {
        Random random(mix(run.seed, static_cast<u64>(t)));
        for (int i = 0; i < run.scaled(150); ++i) {
          Parcel mine = allocate(random);
          Slot& slot = slots[random.below(kSlots)];
          {
            const std::lock_guard lock(slot.mutex);
            std::swap(mine, slot.parcel);
          }
          check_and_free(random, mine);
        }
      });
  }
  Random random(run.seed);
  for (Slot& slot : slots) check_and_free(random, slot.parcel);
}

// ---------------------------------------------------------------------------------------------------- strings

using Words = std::map<std::string, std::vector<std::string>>;
struct Cargo {
  Words words;
  std::list<std::unique_ptr<std::string>> list;
  std::deque<int> deque;
  std::unordered_map<u64, std::string> table;
  std::function<u64(u64)> function;
  std::shared_ptr<std::string> shared;  // one owner at a time
  std::pmr::vector<std::pmr::string> pmr{ayatori::space_resource()};
  u64 hops = 0, sum = 0;
};

std::string word(u64 r) { return std::string(r % 60, 'a') + std::to_string(r); }

// What one thread does to it, before it hands it on. Returns what it adds to the sum.
u64 handle(Cargo& cargo, u64 r) {
  const std::string key = "key " + std::to_string(r % 13);
  cargo.words[key].push_back(word(r));
  if (r % 5 == 0) cargo.words.erase("key " + std::to_string(r / 7 % 13));
  cargo.list.push_back(std::make_unique<std::string>(word(r >> 3)));
  if (cargo.list.size() > 9) cargo.list.pop_front();
  for (u64 i = 0; i < r % 40; ++i) cargo.deque.push_back(static_cast<int>(i));
  while (cargo.deque.size() > 200) cargo.deque.pop_front();
  cargo.table[r % 101] = word(r >> 5);
  const u64 before = cargo.function ? cargo.function(r) : r;
  std::string captured = word(r >> 7);
  cargo.function = [captured, before](u64 x) { return before % 1000 + captured.size() + x % 77; };
  auto copy = cargo.shared;
  cargo.shared = std::make_shared<std::string>(copy ? copy->substr(0, 20) + word(r) : word(r));
  cargo.pmr.emplace_back(word(r >> 9));
  if (cargo.pmr.size() > 20) cargo.pmr.erase(cargo.pmr.begin());
  u64 sum = before + cargo.shared->size() + cargo.deque.size();
  for (const auto& [name, list] : cargo.words)
    for (const std::string& s : list) sum += s.size() + static_cast<Byte>(s.back());
  for (const auto& s : cargo.list) sum += s->size();
  for (const auto& [number, s] : cargo.table) sum += number * s.size();
  for (const auto& s : cargo.pmr) sum += s.size() * 3;
  ++cargo.hops;
  cargo.sum = cargo.sum * 31 + sum;
  return sum;
}

void strings(const Run& run) {
  const int hops = run.scaled(120), ships = 3;
  std::vector<u64> sums(ships);
  {
    Crew crew;
    for (int s = 0; s < ships; ++s)
      crew.start(mix(run.seed, static_cast<u64>(s)), [&, s] {
        const u64 seed = mix(run.seed, 100 + static_cast<u64>(s));
        auto cargo = std::make_unique<Cargo>();
        for (int h = 0; h < hops; ++h) {
          const u64 r = mix(seed, static_cast<u64>(h));
          if (r % 3 == 0) {  // moved through a thread elsewhere and back
            std::unique_ptr<Cargo> back;
            ayatori::thread(ayatori::on(anywhere(r >> 8)), [&back, r, mine = std::move(cargo)]() mutable {
              handle(*mine, r);
              back = std::move(mine);
            }).join();
            cargo = std::move(back);
          } else {
            start(r >> 16, [&cargo, r] { handle(*cargo, r); }).join();
          }
        }
        sums[static_cast<std::size_t>(s)] = cargo->sum;
        expect(cargo->hops, static_cast<u64>(hops), "the hops of a cargo", seed);
        // the whole of it is copied and destroyed by somebody else
        start(seed, [copy = std::make_unique<Words>(cargo->words), &cargo] {
          expect(*copy == cargo->words, true, "a copy of a map", copy->size());
        }).join();
      });
  }
  for (int s = 0; s < ships; ++s) {
    const u64 seed = mix(run.seed, 100 + static_cast<u64>(s));
    Cargo model;
    for (int h = 0; h < hops; ++h) handle(model, mix(seed, static_cast<u64>(h)));
    expect(sums[static_cast<std::size_t>(s)], model.sum, "the sum of a cargo", seed);
  }
}

constexpr Kind kKinds[] = {{"cilksort", cilksort}, {"locals", locals}, {"heap", heap}, {"strings", strings}};
}  // namespace

std::span<const Kind> memory_kinds() { return kKinds; }
}  // namespace soak
