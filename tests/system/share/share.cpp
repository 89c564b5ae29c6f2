// SPDX-License-Identifier: Apache-2.0
// Work that is dealt out by weights: each process begins its part without a steal, borders lie where the weights say, all is done once,
// and what leaves a part reaches the caller.
//
// The last line is `check: ok` or `check: FAILED`. What never ends is for the test's time limit.
#include <ayatori/ayatori.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace here = ayatori::this_thread;
using ayatori::share;

struct Checks {  // on the first thread's stack, which moves with it
  ayatori::atomic<int> wrong{0};
  void operator()(bool right, const char* what, double value) {
    if (right) return;
    std::printf("WRONG: %s (%g)\n", what, value);
    wrong.fetch_add(1);
  }
};

std::uint64_t steals_of_all() {
  std::uint64_t all = 0;
  for (int p = 0; p < ayatori::process_count(); ++p)
    ayatori::thread(ayatori::on(p), [&all] { all += ayatori::snapshot().steals_remote; }).join();
  return all;
}

void divide_the_line(Checks& check) {
  const int n = ayatori::process_count();
  const share all = share::all();
  check(all.begin() == 0 && all.end() == n, "the whole line", all.end());
  check(all.is_one() == (n == 1), "whether the line is one process's", n);
  check(share::here().is_one() && share::here().process() == ayatori::process_id(), "the caller's share", 0);
  check(share::of(n - 1).process() == n - 1, "a process's share", n - 1);
  const auto [low, high] = all.divide(1, n - 1);
  check(low.process() == 0 && low.is_one(), "the first process's share", low.end());
  if (n > 1) check(high.process() == 1 && std::abs(high.begin() - 1) < 0.6, "what is left of it", high.begin());
  const auto [none, everything] = all.divide(0, 5);
  check(none.process() == 0 && everything.end() >= n - 0.5, "a share of nothing", none.end());
  const auto [a, b] = all.divide(0, 0);
  check(n == 1 || a.begin() < b.end(), "a share of two nothings", a.end());
  // However it is divided, there is a process for every part, and in the end one that has it whole.
  std::vector<share> parts{all};
  for (int depth = 0; depth < 12; ++depth) {
    std::vector<share> next;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto [x, y] = parts[i].divide(1 + static_cast<double>(i % 3), 2);
      next.push_back(x);
      next.push_back(y);
    }
    parts = std::move(next);
    for (const share& part : parts)
      check(part.process() >= 0 && part.process() < n, "the process of a part", part.process());
  }
  for (const share& part : parts) check(part.is_one(), "a part of thousands", part.end() - part.begin());
}

// Everybody's part goes there by itself: nothing is left to steal while all compute.
void begin_without_steals(Checks& check) {
  constexpr int kRounds = 20;
  const int n = ayatori::process_count();
  const ayatori::pinned stay;
  const std::uint64_t before = steals_of_all();
  int elsewhere = 0;
  for (int r = 0; r < kRounds; ++r) {
    ayatori::atomic<int> begun{0};
    std::vector<int> at(static_cast<std::size_t>(n), -1);
    ayatori::parallel_for(share::all(), 0, n, 1, [&](int i) {
      const ayatori::pinned stay_there;
      at[static_cast<std::size_t>(i)] = ayatori::process_id();
      begun.fetch_add(1);
      while (ayatori::worker_count() == 1 && begun.load() < n) {  // each on a worker of its own, as none is left
      }
    });
    for (int i = 0; i < n; ++i) elsewhere += at[static_cast<std::size_t>(i)] != i;
  }
  // Of more processes than CPUs some come too late, and others take their part.
  if (ayatori::worker_count() != 1 || n > 2) return;
  const auto steals = static_cast<double>(steals_of_all() - before);
  check(steals <= kRounds * (n - 1) / 4.0, "parts that were stolen", steals);
  check(elsewhere <= kRounds * n / 4, "parts that ran elsewhere", elsewhere);
}

// A run of iterations for each process, whose borders the work decides.
void split_at_borders(Checks& check) {
  constexpr int kLength = 1000;
  const int n = ayatori::process_count();
  const auto borders = [&](auto&& loop) {
    const auto by = std::make_unique<std::uint64_t[]>(kLength);
    std::vector<int> done(kLength, 0);
    loop([&](int i) {
      by[static_cast<std::size_t>(i)] = here::get_id().number();
      ++done[static_cast<std::size_t>(i)];
    });
    std::vector<int> found;
    for (int i = 0; i < kLength; ++i) {
      check(done[static_cast<std::size_t>(i)] == 1, "how often an iteration was done", i);
      if (i > 0 && by[static_cast<std::size_t>(i)] != by[static_cast<std::size_t>(i) - 1]) found.push_back(i);
    }
    return found;
  };
  const auto even = borders([&](auto f) { ayatori::parallel_for(share::all(), 0, kLength, kLength, f); });
  const auto squares = borders([&](auto f) {
    ayatori::parallel_for(share::all(), 0, kLength, kLength, [](int i) { return double(i) * i; }, f);
  });
  check(static_cast<int>(even.size()) == n - 1 && static_cast<int>(squares.size()) == n - 1, "borders",
        static_cast<double>(even.size()));
  if (check.wrong.load() != 0) return;
  for (int p = 1; p < n; ++p) {
    const auto at = static_cast<std::size_t>(p - 1);
    check(std::abs(even[at] - kLength * p / n) <= 2, "a border of even work", even[at]);
    check(std::abs(squares[at] - kLength * std::sqrt(double(p) / n)) <= 2, "a border of uneven work", squares[at]);
  }
  const auto nothing =
      borders([&](auto f) { ayatori::parallel_for(share::all(), 0, kLength, 10, [](int) { return 7.0; }, f); });
  check(!nothing.empty(), "parts of work that weighs nothing", 0);
  int none = 0;
  ayatori::parallel_for(share::all(), 5, 5, 1, [&](int) { ++none; });
  check(none == 0, "iterations of no range", none);
}

long count(share mine, long first, long last) {
  if (last - first <= 16) return last - first;
  const long middle = first + (last - first) / 3;
  long a = 0, b = 0;
  ayatori::parallel_invoke(
      mine, static_cast<double>(middle - first), [&](share s) { a = count(s, first, middle); },
      static_cast<double>(last - middle), [&](share s) { b = count(s, middle, last); });
  return a + b;
}

void divide_and_conquer(Checks& check) {
  for (int r = 0; r < 20; ++r) {
    const long found = count(share::all(), 0, 20'000);
    check(found == 20'000, "leaves of a divided tree", static_cast<double>(found));
    const long at_last = count(share::of(ayatori::process_count() - 1), 0, 1'000);
    check(at_last == 1'000, "leaves of one process", static_cast<double>(at_last));
  }
}

void throw_to_the_caller(Checks& check) {
  for (const int thrower : {0, 1, 2}) {
    std::string caught;
    bool other = false;
    try {
      ayatori::parallel_invoke(
          share::all(), 1,
          [&](share) {
            if (thrower != 1) throw std::runtime_error("first");
            other = true;
          },
          1,
          [&](share) {
            if (thrower != 0) throw std::runtime_error("second");
            other = true;
          });
    } catch (const std::runtime_error& e) {
      caught = e.what();
    }
    check(caught == (thrower == 1 ? "second" : "first"), "the exception that reached the caller", thrower);
    check(other == (thrower != 2), "whether the other part ran", thrower);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto) {
    Checks check;
    divide_the_line(check);
    begin_without_steals(check);
    split_at_borders(check);
    divide_and_conquer(check);
    throw_to_the_caller(check);
    std::printf("check: %s\n", check.wrong.load() == 0 ? "ok" : "FAILED");
    return check.wrong.load() == 0 ? 0 : 1;
  });
}
