// SPDX-License-Identifier: Apache-2.0
// Algorithms of the library whose callbacks fork and migrate; large frames; values that live in registers.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "suite.hpp"

using suite::elsewhere;
using suite::kMigrations;
using suite::migrate;

namespace {

std::vector<int> shuffled(int n) {
  std::vector<int> v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  std::shuffle(v.begin(), v.end(), std::mt19937(7));
  return v;
}

[[gnu::noinline]] double keeps_registers(double a, double b, long c, long d) {
  double x = std::sqrt(a), y = std::exp(b), z = a * b;
  long p = c * 3, q = d * 5, r = c ^ d;
  migrate();
  return x + y * 2 + z + static_cast<double>(p + q * 7 + r);
}

[[gnu::noinline]] bool large_frame(int i) {
  volatile unsigned char room[400 * 1024];
  for (std::size_t k = 0; k < sizeof room; k += 4096)
    room[k] = static_cast<unsigned char>(k / 4096 + static_cast<std::size_t>(i));
  migrate();
  bool right = true;
  for (std::size_t k = 0; k < sizeof room; k += 4096)
    right &= room[k] == static_cast<unsigned char>(k / 4096 + static_cast<std::size_t>(i));
  return right;
}

long deep(int depth) {
  if (depth == 0) {
    migrate();
    return 0;
  }
  volatile char room[200];
  room[0] = static_cast<char>(depth);
  return deep(depth - 1) + (room[0] == static_cast<char>(depth));
}

}  // namespace

CASE(sort_with_a_comparison_that_forks) {
  std::vector<int> v = shuffled(300);
  int calls = 0;
  std::sort(v.begin(), v.end(), [&](int a, int b) {
    bool less = false;
    ayatori::thread([&] { less = a < b; }).join();
    if (++calls % 20 == 0) migrate();
    return less;
  });
  CHECK(std::is_sorted(v.begin(), v.end()) && v[299] == 299);
  CHECK(calls >= 20 * kMigrations);
}

CASE(stable_sort_and_transform_on_the_move) {
  for (int i = 0; i < kMigrations / 10; ++i) {
    std::vector<int> v = shuffled(500);
    int calls = 0;
    std::stable_sort(v.begin(), v.end(), [&](int a, int b) {  // has a temporary buffer
      if (++calls % 400 == 0) migrate();
      return a / 10 < b / 10;
    });
    CHECK(std::is_sorted(v.begin(), v.end(), [](int a, int b) { return a / 10 < b / 10; }));
    std::vector<std::string> text(v.size());
    std::transform(v.begin(), v.end(), text.begin(), [&](int x) {
      if (x % 100 == 0) migrate();
      return std::to_string(x) + " is a number with a text behind it";
    });
    CHECK(text.back().find(" is a number") != std::string::npos);
    CHECK(std::accumulate(v.begin(), v.end(), 0L, [](long s, int x) {
            if (x == 250) migrate();
            return s + x;
          }) == 499L * 500 / 2);
  }
}

CASE(values_in_registers_migrate) {
  for (int i = 0; i < kMigrations; ++i) {
    const double a = i + 0.5, b = i / 100.0;
    const long c = 1000003L * i, d = i - 7;
    const double want = std::sqrt(a) + std::exp(b) * 2 + a * b + static_cast<double>(c * 3 + d * 5 * 7 + (c ^ d));
    CHECK(keeps_registers(a, b, c, d) == want);
  }
}

CASE(large_frames_migrate) {
  for (int i = 0; i < kMigrations; ++i) CHECK(large_frame(i));
}

CASE(deep_recursion_migrates) {
  for (int i = 0; i < kMigrations; ++i) CHECK(deep(1000) == 1000);
}

CASE(reduce_keeps_the_order) {
  for (int i = 0; i < kMigrations / 10; ++i) {
    const std::string s = ayatori::parallel_reduce(
        0, 60, 1, std::string(),
        [](int k) {
          if (k % 20 == 0) migrate();
          return std::to_string(k) + ",";
        },
        [](std::string a, std::string b) { return a + b; });
    std::string want;
    for (int k = 0; k < 60; ++k) want += std::to_string(k) + ",";
    CHECK(s == want);
  }
}

CASE(mutexes_in_the_middle_of_migrations) {
  ayatori::mutex mutex;
  std::vector<int> v;
  std::vector<ayatori::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kMigrations / 4; ++i) {
        std::lock_guard lock(mutex);
        v.push_back(t);
        migrate();  // the lock is held here and released elsewhere
        v.push_back(t);
      }
    });
  for (auto& t : threads) t.join();
  CHECK(v.size() == 2 * kMigrations);
  for (std::size_t i = 0; i + 1 < v.size(); i += 2) CHECK(v[i] == v[i + 1]);
}
