// SPDX-License-Identifier: Apache-2.0
// Ported by std_thread_after.cpp: threads, a mutex, a shared sum.
// [all]
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

int main() {
  constexpr std::size_t kThreads = 4;
  std::vector<long> numbers(1'000'000, 1);
  std::mutex mutex;
  long sum = 0;

  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      long mine = 0;
      for (std::size_t i = t; i < numbers.size(); i += kThreads) mine += numbers[i];
      std::lock_guard lock(mutex);
      sum += mine;
    });
  for (std::thread& thread : threads) thread.join();

  std::printf("%ld\ncheck: %s\n", sum, sum == 1'000'000 ? "ok" : "FAILED");
  return sum == 1'000'000 ? 0 : 1;
}
// [/all]
