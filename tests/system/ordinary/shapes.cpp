// SPDX-License-Identifier: Apache-2.0
// What the interface has of the standard's shapes beyond what other cases use.
#include <ayatori/ayatori.hpp>
#include <cstdint>
#include <sstream>
#include <unordered_set>
#include <vector>

#include "suite.hpp"

using suite::elsewhere;
using suite::kMigrations;

namespace {

ayatori::global<int> number;
ayatori::global<ayatori::atomic<int>> shared_number;
ayatori::global<std::string> text;

// Adds on every process at once.
template <class F>
void everywhere(F f) {
  std::vector<ayatori::thread> threads;
  for (int p = 0; p < ayatori::process_count(); ++p)
    threads.emplace_back(ayatori::on(p), [f] {
      for (int i = 0; i < kMigrations; ++i) f();
    });
  for (ayatori::thread& t : threads) t.join();
}

}  // namespace

CASE(atomics_have_all_operators_of_their_type) {
  ayatori::atomic<int> bits{0b1100};
  CHECK((bits |= 0b0011) == 0b1111 && (bits &= 0b0110) == 0b0110 && (bits ^= 0b1111) == 0b1001);
  CHECK(elsewhere([&] { return bits.load(); }) == 0b1001);
  CHECK(bits.is_lock_free() == ayatori::atomic<int>::is_always_lock_free);
  ayatori::atomic<std::uint8_t> small{250};
  CHECK((small += 10) == 4 && (small |= 1) == 5 && --small == 4 && small++ == 4 && (small -= 6) == 255);

  const auto array = std::make_unique<long[]>(8);
  ayatori::atomic<long*> at{array.get()};
  CHECK(++at == &array[1] && at++ == &array[1] && (at += 4) == &array[6] && at-- == &array[6] && --at == &array[4]);
  CHECK((at -= 3) == &array[1] && at.fetch_sub(1) == &array[1] && at.fetch_add(2) == &array[0] && at == &array[2]);

  ayatori::atomic<double> sum{0.5};
  ayatori::atomic<float> single{1.0F};
  CHECK((sum += 0.25) == 0.75 && (sum -= 0.5) == 0.25 && sum.fetch_add(1) == 0.25 && sum.fetch_sub(1.25) == 1.25);
  everywhere([&] {
    sum.fetch_add(0.5, std::memory_order_relaxed);
    single -= 1;
  });
  CHECK(sum == 0.5 * kMigrations * ayatori::process_count());
  CHECK(single == 1 - static_cast<float>(kMigrations * ayatori::process_count()));
}

CASE(thread_ids_are_printed_and_hashed) {
  ayatori::thread a([] {}), b([] {});
  const ayatori::thread::id first = a.get_id(), second = b.get_id();
  swap(a, b);
  CHECK(a.get_id() == second && b.get_id() == first);
  const std::unordered_set<ayatori::thread::id> ids{first, second, first};
  CHECK(ids.size() == 2 && ids.contains(first));
  std::ostringstream one, none;
  one << first;
  none << ayatori::thread::id();
  CHECK_NOTE(one.str() == std::to_string(first.number()) && none.str() == "no thread", one.str() + " " + none.str());
  a.join();
  b.join();
  const int workers = ayatori::process_count() * ayatori::worker_count();
  CHECK(ayatori::thread::hardware_concurrency() == static_cast<unsigned>(workers));
}

CASE(ranges_have_ends_of_different_types) {
  std::vector<int> v(1000);
  const std::size_t half = 500;
  const short grain = 16;
  ayatori::parallel_for(0, v.size(), [&](std::size_t i) { ++v[i]; });
  ayatori::parallel_for(0L, v.size(), 64, [&](auto i) { ++v[i]; });
  ayatori::parallel_for(half, 1000, grain, [&](auto i) { ++v[i]; });
  ayatori::parallel_for(5, 5U, 0, [&](auto i) { ++v[i]; });
  CHECK(v[0] == 2 && v[499] == 2 && v[500] == 3 && v[999] == 3);
  const auto sum = ayatori::parallel_reduce(
      0L, v.size(), 64, 0L, [&](auto i) { return static_cast<long>(v[i]); }, [](long a, long b) { return a + b; });
  CHECK(sum == 2500);
  int negative = 0;
  // Longer than the greatest int.
  const long ends = ayatori::parallel_reduce(
      -1'500'000'000, 1'500'000'000, 300'000'000, 0L,
      [](int i) { return long{i == 0 || i == -1'500'000'000 || i == 1'499'999'999}; },
      [](long a, long b) { return a + b; });
  CHECK(ends == 3);
  ayatori::parallel_for(-3, 0L, -1, [&](long i) { negative += static_cast<int>(i); });  // grain 1
  CHECK(negative == -6 || ayatori::process_count() * ayatori::worker_count() > 1);
}

CASE(globals_are_assigned_as_the_variable_is) {
  number = 5;
  shared_number = 6;
  text = "assigned to a string that is long enough for the heap";
  elsewhere([] {
    CHECK(number == 5 && shared_number->load() == 6 && text->ends_with("the heap"));
    number = 7;
    text = *text + "!";
  });
  CHECK(number == 7 && text->ends_with("heap!"));
}
