// SPDX-License-Identifier: Apache-2.0
// What threads cost that nobody steals, on one worker, beside a locked instruction, which says what the machine is; and what
// two of them cost each other where a second worker has nothing to do but take them.
#include <ayatori/ayatori.h>

#include <mutex>
#include <utility>

#include "cases.hpp"

namespace cases {
namespace {

constexpr int kRounds = 5;

// Nanoseconds each of `count` that f(count) does.
template <class F>
double ns_each(int count, F&& f) {
  const std::int64_t start = now_ns();
  f(count);
  return static_cast<double>(now_ns() - start) / count;
}

void locked(int count) {
  static std::uint64_t word;
  for (int i = 0; i < count; ++i) {
    std::uint64_t one = 1;
    asm volatile("lock xaddq %0, %1" : "+r"(one), "+m"(word) : : "memory");
  }
}

void empty_threads(int count) {
  for (int i = 0; i < count; ++i) {
    ayatori::thread t([] {});
    t.join();
  }
}

// Two threads that yield to each other.
void yields(int count) {
  const auto half = [count] {
    for (int i = 0; i < count / 2; ++i) ayatori::this_thread::yield();
  };
  ayatori::thread other(half);
  half();
  other.join();
}

void locks(int count) {
  ayatori::mutex mutex;
  for (int i = 0; i < count; ++i) {
    mutex.lock();
    mutex.unlock();
  }
}

// As ayatori_mutex_init() makes them.
void c_locks(int count) {
  ayatori_mutex_t mutex;
  ayatori_mutex_init(&mutex, nullptr);
  for (int i = 0; i < count; ++i) {
    ayatori_mutex_lock(&mutex);
    ayatori_mutex_unlock(&mutex);
  }
  ayatori_mutex_destroy(&mutex);
}

// Each finds the mutex locked, and gets it from the other, which unlocks it and finds it locked.
void hand_offs(int count) {
  ayatori::mutex mutex;
  const auto half = [count, &mutex] {
    for (int i = 0; i < count / 2; ++i) const std::lock_guard lock(mutex);
  };
  mutex.lock();
  ayatori::thread other(half);  // begins, and waits
  mutex.unlock();
  half();
  other.join();
}

void round_trips(int count) {
  ayatori::mutex mutex;
  ayatori::condition_variable condition;
  bool there = false;
  const auto side = [&](bool mine) {
    for (int i = 0; i < count; ++i) {
      std::unique_lock lock(mutex);
      condition.wait(lock, [&] { return there == mine; });
      there = !mine;
      condition.notify_one();
    }
  };
  ayatori::thread other([&] { side(true); });
  side(false);
  other.join();
}

// As round_trips(), but each holds the mutex until it waits for the condition, and so waits for it every time.
void held_round_trips(int count) {
  ayatori::mutex mutex;
  ayatori::condition_variable condition;
  bool there = false;
  const auto side = [&](bool mine) {
    std::unique_lock lock(mutex);
    for (int i = 0; i < count; ++i) {
      condition.wait(lock, [&] { return there == mine; });
      there = !mine;
      condition.notify_one();
    }
  };
  ayatori::thread other([&] { side(true); });
  side(false);
  other.join();
}

struct Operation {
  const char* name;
  void (*run)(int count);
  int count;
};

template <std::size_t N>
void measure(const Options& o, const Operation (&operations)[N]) {
  std::vector<Samples> samples(N, room(kRounds));
  for (int round = 0; round < (o.quick ? 1 : kRounds); ++round)
    for (std::size_t i = 0; i < N; ++i)
      samples[i].push_back(ns_each(o.quick ? 1000 : operations[i].count, operations[i].run));
  for (std::size_t i = 0; i < N; ++i) report(operations[i].name, "ns", samples[i]);
}

}  // namespace

void threads(const Options& o) {
  constexpr Operation kOperations[] = {
      {"a locked instruction (lock xadd)", locked, 10'000'000},
      {"fork + join of an empty thread", empty_threads, 2'000'000},
      {"yield to another thread", yields, 2'000'000},
      {"lock + unlock of a free mutex", locks, 2'000'000},
      {"lock + unlock of a free process-private C mutex", c_locks, 2'000'000},
      {"hand-off of a mutex", hand_offs, 500'000},
      {"condition variable, there and back", round_trips, 200'000},
      {"condition variable, waited for each time", held_round_trips, 200'000},
  };
  measure(o, kOperations);
}

void threads_of_two(const Options& o) {
  constexpr Operation kOperations[] = {
      {"yield to another thread", yields, 2'000'000},
      {"a mutex that two want", hand_offs, 500'000},
      {"condition variable, there and back", round_trips, 200'000},
      {"condition variable, waited for each time", held_round_trips, 200'000},
  };
  measure(o, kOperations);
}

}  // namespace cases
