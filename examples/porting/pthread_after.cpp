// SPDX-License-Identifier: Apache-2.0
// pthread_before.cpp on Ayatori: the globals that threads share become one ayatori::global.
// [all]
#include <ayatori/ayatori.hpp>
#include <cstdio>
#include <deque>
#include <mutex>

struct Shared {
  std::deque<int> queue;
  bool closed = false;
  ayatori::mutex mutex;
  ayatori::condition_variable filled;
};
static ayatori::global<Shared> shared;  // a plain global would be one object in each process

static void consume(long* result) {
  long sum = 0;
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->filled.wait(lock, [] { return !shared->queue.empty() || shared->closed; });
    if (shared->queue.empty()) break;
    sum += shared->queue.front();
    shared->queue.pop_front();
  }
  *result = sum;
}

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto) {
    long sum = 0;
    ayatori::thread consumer(ayatori::on(ayatori::process_count() - 1), consume, &sum);
    for (int i = 1; i <= 1000; ++i) {
      std::lock_guard lock(shared->mutex);
      shared->queue.push_back(i);
      shared->filled.notify_one();
    }
    {
      std::lock_guard lock(shared->mutex);
      shared->closed = true;
      shared->filled.notify_one();
    }
    consumer.join();
    std::printf("%ld\ncheck: %s\n", sum, sum == 500'500 ? "ok" : "FAILED");
    return sum == 500'500 ? 0 : 1;
  });
}
// [/all]
