// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "peers/peer.hpp"

std::int64_t peers::fib(std::int64_t n) {
  if (n < 2) return n;
  std::int64_t first = 0;
  std::thread thread([&first, n] { first = fib(n - 1); });
  const std::int64_t second = fib(n - 2);
  thread.join();
  return first + second;
}
