// SPDX-License-Identifier: Apache-2.0
#include "peers/peer.hpp"

std::int64_t peers::fib(std::int64_t n) {
  if (n < 2) return n;
  std::int64_t first = 0;
#pragma omp task shared(first) firstprivate(n)
  first = fib(n - 1);
  const std::int64_t second = fib(n - 2);
#pragma omp taskwait
  return first + second;
}
