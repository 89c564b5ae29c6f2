// SPDX-License-Identifier: Apache-2.0
// Threads that are ready, by turns: those that yield take turns, keep nobody else from running, are more than a worker's ring
// has room for, keep what is theirs, and are taken over by other workers and processes unless they are pinned.
//
// The last line is `check: ok` or `check: FAILED`. What never ends is for the test's time limit.
#include <algorithm>
#include <ayatori/ayatori.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace here = ayatori::this_thread;

struct Checks {  // on the first thread's stack, which moves with it
  int wrong = 0;
  void operator()(bool right, const char* what, long value) {
    if (right) return;
    std::printf("WRONG: %s (%ld)\n", what, value);
    ++wrong;
  }
};

// On one worker the order is known: first in, first out, whichever way a turn takes.
void take_turns(Checks& check) {
  constexpr int kThreads = 10, kRounds = 100;
  ayatori::atomic<int> ready{0}, next{0};
  std::vector<int> order(std::size_t{kThreads} * kRounds, -1);
  std::vector<ayatori::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      ready.fetch_add(1);
      while (ready.load() <= kThreads) here::yield();
      for (int r = 0; r < kRounds; ++r) {
        order[static_cast<std::size_t>(next.fetch_add(1))] = t;
        here::yield();
      }
    });
  ready.fetch_add(1);
  for (ayatori::thread& t : threads) t.join();
  for (int t = 0; t < kThreads; ++t)
    check(std::count(order.begin(), order.end(), t) == kRounds, "a thread's rounds", t);
  if (ayatori::worker_count() * ayatori::process_count() != 1) return;
  for (int r = 1; r < kRounds; ++r)
    check(std::equal(order.begin(), order.begin() + kThreads, order.begin() + std::ptrdiff_t{r} * kThreads),
          "a round in another order", r);
}

// Every worker has threads that do nothing but yield: whoever begins, sleeps, or is woken from elsewhere comes to run.
void starve_nobody() {
  enum { kBegan = 1, kSlept = 2, kWokenByThread = 4, kWokenFromOutside = 8, kAll = 15 };
  ayatori::atomic<int> seen{0}, spinning{0}, gone{0};
  ayatori::mutex mutex;
  ayatori::condition_variable condition;
  int turn = 0;
  const auto wait_for = [&](int what) {
    std::unique_lock lock(mutex);
    condition.wait(lock, [&] { return turn >= what; });
  };
  const auto wake = [&](int what) {
    {
      const std::lock_guard lock(mutex);
      turn = std::max(turn, what);
    }
    condition.notify_all();
  };
  const int spinners = 2 * ayatori::worker_count() * ayatori::process_count();
  std::vector<ayatori::thread> threads;
  threads.emplace_back([&] {
    wait_for(1);
    seen.fetch_or(kWokenByThread);
  });
  threads.emplace_back([&] {
    wait_for(2);
    seen.fetch_or(kWokenFromOutside);
  });
  for (int i = 0; i < spinners; ++i)
    threads.emplace_back(ayatori::on(i % ayatori::process_count()), [&] {
      spinning.fetch_add(1);
      while (seen.load() != kAll) here::yield();
    });
  while (spinning.load() != spinners) here::yield();
  threads.emplace_back(ayatori::on(0), [&] { seen.fetch_or(kBegan); });
  threads.emplace_back([&] {
    here::sleep_for(std::chrono::milliseconds(5));
    seen.fetch_or(kSlept);
    wake(1);
    ayatori::pinned stay;
    std::thread([&] {
      wake(2);
      gone.store(1);
    }).detach();
    while (gone.load() == 0) here::yield();  // not joined, which would stop the worker, and who holds the mutex with it
  });
  for (ayatori::thread& t : threads) t.join();
}

// More threads than a ring has room for.
void overflow(Checks& check) {
  constexpr int kThreads = 1000, kRounds = 20;
  ayatori::atomic<long> sum{0};
  ayatori::atomic<int> begun{0};
  std::vector<ayatori::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      begun.fetch_add(1);
      while (begun.load() < kThreads) here::yield();
      for (int r = 0; r < kRounds; ++r) {
        sum.fetch_add(t);
        here::yield();
      }
    });
  for (ayatori::thread& t : threads) t.join();
  check(sum.load() == long{kRounds} * kThreads * (kThreads - 1) / 2, "what all threads added up", sum.load());
}

// Exceptions being handled, errno, registers and the stack of each.
void keep_what_is_theirs(Checks& check) {
  constexpr int kThreads = 8, kRounds = 200;
  ayatori::atomic<int> wrong{0};
  std::vector<ayatori::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int r = 0; r < kRounds; ++r) {
        const std::string text = "thread " + std::to_string(t) + " round " + std::to_string(r);
        double value = t;
        errno = 1000 + t;
        if (t % 2 == 0) {
          here::yield();
        } else {
          try {
            throw std::runtime_error(text);
          } catch (const std::exception& e) {
            errno = 1000 + t;
            here::yield();
            const int after = errno;
            wrong.fetch_add(after != 1000 + t || e.what() != text || !std::current_exception());
          }
        }
        value += 0.5;
        wrong.fetch_add(value != t + 0.5 || std::current_exception() != nullptr || std::uncaught_exceptions() != 0);
        errno = 2000 + t;
        here::yield();
        const int after = errno;
        wrong.fetch_add(after != 2000 + t);
      }
    });
  for (ayatori::thread& t : threads) t.join();
  check(wrong.load() == 0, "what was not the thread's own", wrong.load());
}

// Threads that begin on one worker and yield until one of them was taken over, beside pinned ones.
void taken_over(Checks& check) {
  if (ayatori::worker_count() * ayatori::process_count() == 1) return;
  const bool across = ayatori::process_count() > 1;
  ayatori::atomic<int> moved{0}, strayed{0};
  std::vector<ayatori::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, across, pinned = t % 2 == 0] {
      const auto place = [across] { return across ? ayatori::process_id() : ayatori::worker_id(); };
      if (pinned) {
        ayatori::pinned stay;
        const int process = ayatori::process_id();
        while (moved.load() == 0) {
          here::yield();
          strayed.fetch_add(ayatori::process_id() != process);
        }
        return;
      }
      const int first = place();
      while (moved.load() == 0) {
        here::yield();
        if (place() != first) moved.store(1);
      }
    });
  for (ayatori::thread& t : threads) t.join();
  check(strayed.load() == 0, "a pinned thread on another process", strayed.load());
}

// A worker computes until a thread has run that is ready behind others at this very worker; the other workers have threads of their
// own, which yield.
void leave_nobody_behind() {
  if (ayatori::worker_count() * ayatori::process_count() == 1) return;
  ayatori::atomic<int> over{0};
  std::vector<ayatori::thread> threads;
  for (int t = 0; t < 8 * ayatori::worker_count() * ayatori::process_count(); ++t)
    threads.emplace_back([&] {
      while (over.load() == 0) here::yield();
    });
  threads.emplace_back([&] {
    here::yield();  // to its parent
    over.store(1);
  });
  volatile long work = 0;
  do work = work + 1;
  while (work % 16384 != 0 || over.load(std::memory_order_relaxed) == 0);
  for (ayatori::thread& t : threads) t.join();
}

int turns(std::span<char*>) {
  Checks check;
  take_turns(check);
  starve_nobody();
  overflow(check);
  keep_what_is_theirs(check);
  taken_over(check);
  for (int i = 0; i < 20; ++i) leave_nobody_behind();
  std::printf("check: %s\n", check.wrong == 0 ? "ok" : "FAILED");
  return check.wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return ayatori::run(argc, argv, turns); }
