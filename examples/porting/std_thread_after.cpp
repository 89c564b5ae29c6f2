// SPDX-License-Identifier: Apache-2.0
// std_thread_before.cpp on Ayatori: main moves into ayatori::run, std:: becomes ayatori:: for threads and locks.
// [all]
#include <ayatori/ayatori.hpp>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <vector>

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto) {
    constexpr std::size_t kThreads = 4;
    std::vector<long> numbers(1'000'000, 1);
    ayatori::mutex mutex;
    long sum = 0;

    std::vector<ayatori::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        long mine = 0;
        const std::size_t size = numbers.size() / kThreads;  // neighbours together: a page goes to one process
        for (std::size_t i = t * size; i < (t + 1) * size; ++i) mine += numbers[i];
        std::lock_guard lock(mutex);
        sum += mine;
      });
    for (ayatori::thread& thread : threads) thread.join();

    std::printf("%ld\ncheck: %s\n", sum, sum == 1'000'000 ? "ok" : "FAILED");
    return sum == 1'000'000 ? 0 : 1;
  });
}
// [/all]
