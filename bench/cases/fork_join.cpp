// SPDX-License-Identifier: Apache-2.0
// Fork and join of a thread that nobody steals: fib without a cut-off, time over number of forks; and the same by calls,
// to see what of it is fib.
#include "cases.hpp"

namespace cases {
namespace {

std::int64_t forked(std::int64_t n) {
  if (n < 2) return n;
  std::int64_t first = 0;
  ayatori::thread t([&first, n] { first = forked(n - 1); });
  const std::int64_t second = forked(n - 2);
  t.join();
  return first + second;
}

// Not inlined into itself, or a "call" would be several.
[[gnu::noinline]] std::int64_t called(std::int64_t n) {
  if (n < 2) return n;
  std::int64_t first = called(n - 1);
  asm volatile("" : "+m"(first));
  return first + called(n - 2);
}

template <class F>
double ns_per_fork(std::int64_t n, F&& fib) {
  const std::int64_t start = now_ns();
  std::int64_t result = fib(n);
  asm volatile("" : "+r"(result));
  const auto time = static_cast<double>(now_ns() - start);
  // Calls with n >= 2 fork once: fib(n + 1) - 1 of them.
  std::int64_t a = 0, b = 1;
  for (std::int64_t i = 0; i < n; ++i) a = std::exchange(b, a + b);
  return time / static_cast<double>(b - 1);
}

}  // namespace

void fork_join(const Options& o) {
  const std::int64_t n = o.quick ? 22 : 35;
  ns_per_fork(n - 5, forked);  // the first stacks
  const int rounds = 3;
  Samples forks = room(rounds), calls = room(rounds);
  for (int i = 0; i < rounds; ++i) {
    forks.push_back(ns_per_fork(n, forked));
    calls.push_back(ns_per_fork(n, called));
  }
  report("fork + join", "ns", forks);
  report("the same by calls", "ns", calls);
}

}  // namespace cases
