// SPDX-License-Identifier: Apache-2.0
// The kernel's threads. Its mutexes are not handed over: who unlocks may lock again, so there is no hand-off to measure.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "peers/peer.hpp"

namespace {

void empty_threads(int count) {
  for (int i = 0; i < count; ++i) {
    std::thread thread([] {});
    thread.join();
  }
}

// Two threads, which with one worker have one CPU, so that the other one is who runs next.
void yields(int count) {
  const auto half = [count] {
    for (int i = 0; i < count / 2; ++i) std::this_thread::yield();
  };
  std::thread other(half);
  half();
  other.join();
}

// There is another thread: without one the C library locks without atomic instructions.
void locks(int count) {
  std::mutex mutex;
  std::condition_variable condition;
  bool done = false;
  std::thread other([&] {
    std::unique_lock lock(mutex);
    condition.wait(lock, [&done] { return done; });
  });
  std::mutex free;
  for (int i = 0; i < count; ++i) {
    free.lock();
    free.unlock();
  }
  {
    const std::lock_guard lock(mutex);
    done = true;
  }
  condition.notify_one();
  other.join();
}

void round_trips(int count) {
  std::mutex mutex;
  std::condition_variable condition;
  bool there = false;
  const auto side = [&](bool mine) {
    for (int i = 0; i < count; ++i) {
      std::unique_lock lock(mutex);
      condition.wait(lock, [&] { return there == mine; });
      there = !mine;
      condition.notify_one();
    }
  };
  std::thread other([&] { side(true); });
  side(false);
  other.join();
}

}  // namespace

std::vector<peers::Operation> peers::operations() {
  return {{kEmpty, empty_threads, 5'000},
          {kYield, yields, 100'000},
          {kFreeMutex, locks, 2'000'000},
          {kRoundTrip, round_trips, 5'000}};
}
