// SPDX-License-Identifier: Apache-2.0
// condition_variable_any, with and without stop tokens; notify_all_at_thread_exit.
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "cases.hpp"

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using ayatori::condition_variable_any;

condition_variable_any static_condition;
ayatori::shared_mutex static_mutex;

// A token goes round all threads.
template <class Mutex>
void rounds(condition_variable_any& condition, Mutex& mutex) {
  constexpr int kRounds = 20;
  int turn = 0;
  unsigned processes = 0;
  everywhere([&](int n) {
    const unsigned began = here();
    for (int i = 0; i < kRounds; ++i) {
      std::unique_lock lock(mutex);
      condition.wait(lock, [&] { return turn % all_threads() == n; });
      ++turn;
      processes |= began;
      condition.notify_all();
    }
  });
  CHECK(turn == kRounds * all_threads());
  CHECK(processes == everybody());
}

void single_wakeups() {
  condition_variable_any condition;
  ayatori::mutex mutex;
  int units = 0, taken = 0;
  ayatori::thread giver(ayatori::on(last()), [&] {
    for (int i = 0; i < 30 * all_threads(); ++i) {
      {
        const std::lock_guard lock(mutex);
        ++units;
      }
      condition.notify_one();
      if (i % 7 == 0) ayatori::this_thread::yield();
    }
  });
  everywhere([&](int) {
    for (int i = 0; i < 30; ++i) {
      std::unique_lock lock(mutex);
      while (units == 0) condition.wait(lock);
      --units;
      ++taken;
    }
  });
  giver.join();
  CHECK(units == 0 && taken == 30 * all_threads());
}

void times() {
  condition_variable_any condition;
  ayatori::shared_mutex mutex;
  std::shared_lock lock(mutex);
  const auto before = Clock::now();
  CHECK(condition.wait_for(lock, 10ms) == std::cv_status::timeout && Clock::now() - before >= 10ms);
  CHECK(condition.wait_until(lock, Clock::now() + 10ms) == std::cv_status::timeout && Clock::now() - before >= 20ms);
  CHECK(condition.wait_until(lock, std::chrono::system_clock::now() - 1h) == std::cv_status::timeout);
  CHECK(!condition.wait_for(lock, 10ms, [] { return false; }));
  CHECK(condition.wait_until(lock, Clock::now() - 1h, [] { return true; }));
  CHECK(lock.owns_lock());
  bool ready = false;
  ayatori::thread sets(ayatori::on(last()), [&] {
    {
      const std::unique_lock writes(mutex);
      ready = true;
    }
    condition.notify_all();
  });
  CHECK(condition.wait_for(lock, 1h, [&] { return ready; }));
  lock.unlock();
  sets.join();
}

template <class Mutex>
void stopped(condition_variable_any& condition, Mutex& mutex) {
  for (int round = 0; round < 10; ++round) {
    ayatori::stop_source source;
    int waits = 0, woken = 0;
    unsigned processes = 0;
    ayatori::thread asks(ayatori::on(round % ayatori::process_count()), [&] {
      for (;;) {
        const std::lock_guard lock(mutex);
        if (waits == all_threads()) break;
        ayatori::this_thread::yield();
      }
      source.request_stop();
    });
    everywhere([&](int n) {
      const unsigned began = here();
      const ayatori::stop_token token = source.get_token();
      std::unique_lock lock(mutex);
      ++waits;
      processes |= began;
      bool result = true;
      if (n % 3 == 0)
        result = condition.wait(lock, token, [] { return false; });
      else if (n % 3 == 1)
        result = condition.wait_for(lock, token, 1h, [] { return false; });
      else
        result = condition.wait_until(lock, token, Clock::now() + 1h, [] { return false; });
      CHECK(!result && lock.owns_lock() && token.stop_requested());
      ++woken;
    });
    asks.join();
    CHECK(woken == all_threads() && processes == everybody());
    std::unique_lock lock(mutex);
    CHECK(condition.wait(lock, source.get_token(), [] { return true; }));  // it was asked before
    CHECK(!condition.wait(lock, source.get_token(), [] { return false; }));
    const ayatori::stop_source never;
    CHECK(!condition.wait_for(lock, never.get_token(), 5ms, [] { return false; }));
    CHECK(condition.wait(lock, never.get_token(), [] { return true; }));
  }
}

// It may go as soon as all that wait are notified.
void short_lives() {
  for (int round = 0; round < 50; ++round) {
    auto condition = std::make_unique<condition_variable_any>();
    ayatori::mutex mutex;
    bool go = false;
    int waits = 0;
    ayatori::thread ends(ayatori::on(last()), [&] {
      std::unique_lock lock(mutex);
      while (waits != all_threads()) {
        lock.unlock();
        ayatori::this_thread::yield();
        lock.lock();
      }
      go = true;
      condition->notify_all();
      lock.unlock();
      condition.reset();
    });
    everywhere([&](int) {
      std::unique_lock lock(mutex);
      ++waits;
      if (!go) condition->wait(lock);
    });
    ends.join();
    CHECK(!condition);
  }
}

struct SetsAtEnd {
  int* at = nullptr;
  ~SetsAtEnd() {
    if (at) *at = 7;
  }
};
ayatori::local<SetsAtEnd> at_end;

void at_exits() {
  for (int round = 0; round < 10; ++round) {
    ayatori::mutex mutex;
    ayatori::condition_variable condition;
    bool ready = false;
    int value = 0;
    ayatori::thread([&] {
      std::unique_lock lock(mutex);
      ayatori::thread thread(ayatori::on(last()), [&] {
        at_end->at = &value;
        std::unique_lock inner(mutex);
        ready = true;
        ayatori::notify_all_at_thread_exit(condition, std::move(inner));
      });
      condition.wait(lock, [&] { return ready; });
      CHECK(value == 7);  // its local is gone
      lock.unlock();
      thread.join();
    }).join();
  }
}

}  // namespace

void conditions() {
  condition_variable_any condition;
  ayatori::mutex plain;
  ayatori::recursive_mutex recursive;
  ayatori::shared_mutex shared;
  rounds(condition, plain);
  rounds(condition, recursive);
  rounds(condition, shared);
  rounds(static_condition, static_mutex);
  single_wakeups();
  times();
  stopped(condition, plain);
  stopped(condition, shared);
  stopped(static_condition, static_mutex);
  short_lives();
  at_exits();
}
