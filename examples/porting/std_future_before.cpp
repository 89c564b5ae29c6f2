// SPDX-License-Identifier: Apache-2.0
// Ported by std_future_after.cpp: a promise, a task, a thread that may be stopped.
// [all]
#include <cstddef>
#include <cstdio>
#include <functional>
#include <future>
#include <stop_token>
#include <thread>
#include <vector>

static long sum(const std::vector<long>& numbers, std::size_t first, std::size_t last) {
  long s = 0;
  for (std::size_t i = first; i < last; ++i) s += numbers[i];
  return s;
}

int main() {
  const std::vector<long> numbers(1'000'000, 1);
  std::promise<long> total;
  std::shared_future<long> result = total.get_future().share();
  std::jthread waiter([result](std::stop_token token) {
    if (!token.stop_requested()) std::printf("total %ld\n", result.get());
  });
  auto half = std::async(std::launch::async, sum, std::cref(numbers), 0, numbers.size() / 2);
  const long other = sum(numbers, numbers.size() / 2, numbers.size());
  total.set_value(half.get() + other);
  waiter.join();
  std::printf("check: %s\n", result.get() == 1'000'000 ? "ok" : "FAILED");
  return result.get() == 1'000'000 ? 0 : 1;
}
// [/all]
