// SPDX-License-Identifier: Apache-2.0
// What belongs to a process or an OS thread: signal handlers, errno, pinned threads, OS threads of the program, globals.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "suite.hpp"

using suite::elsewhere;
using suite::kMigrations;
using suite::migrate;

namespace {

struct Seen {
  volatile sig_atomic_t count = 0;
  volatile const char* text = nullptr;
  volatile int sum = 0;
};
Seen seen;  // of each process

void on_signal(int) {
  seen.count = seen.count + 1;
  int sum = 0;
  if (seen.text)
    for (int i = 0; i < 9000; i += 100) sum += seen.text[i];  // memory of the space, perhaps of another process
  seen.sum = sum;
}

void install(int signal, int flags) {
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = flags;
  CHECK(sigaction(signal, &action, nullptr) == 0);
}

ayatori::global<std::vector<int>> shared_vector;
ayatori::global<ayatori::mutex> shared_mutex;
int plain_global = 5;

}  // namespace

CASE(program_signal_handlers_on_threads) {
  for (int p = 0; p < ayatori::process_count(); ++p)
    ayatori::thread(ayatori::on(p), [] {
      ayatori::pinned here;
      install(SIGUSR1, 0);
      install(SIGUSR2, SA_NODEFER);
    }).join();
  for (int i = 0; i < kMigrations; ++i) {
    std::string text(9001, 'a');
    elsewhere([&] { text.assign(9001, static_cast<char>('a' + i % 26)); });
    migrate();
    ayatori::pinned here;
    const int before = seen.count;
    seen.text = text.data();
    CHECK(raise(i % 2 == 0 ? SIGUSR1 : SIGUSR2) == 0);
    seen.text = nullptr;
    CHECK(seen.count == before + 1 && seen.sum == 90 * ('a' + i % 26));
  }
}

// Signals arrive at every place of threads whose stacks end at the edge of a page.
CASE(signals_on_the_edges_of_stacks) {
  struct Go {
    static int down(int depth, std::size_t room) {
      auto* p = static_cast<char*>(__builtin_alloca(room));
      std::memset(p, depth, room);
      ayatori::pinned here;
      raise(SIGURG);
      return depth == 0 ? p[room - 1] : down(depth - 1, room) + (p[0] == depth);
    }
  };
  for (int p = 0; p < ayatori::process_count(); ++p)
    ayatori::thread(ayatori::on(p), [] {
      ayatori::pinned here;
      install(SIGURG, SA_NODEFER);
    }).join();
  for (int i = 0; i < kMigrations; ++i)
    CHECK(elsewhere([&] { return Go::down(20, 4096 - 300 + static_cast<std::size_t>(i) * 7); }) == 20);
}

CASE(errno_belongs_to_the_thread) {
  for (int i = 1; i <= kMigrations; ++i) {
    errno = i;
    migrate();
    // A migration calls nothing that sets errno but what runs on other threads in between.
    const int after = errno;
    CHECK_NOTE(after == i, std::to_string(after));
    ayatori::thread other([] { errno = -5; });
    ayatori::this_thread::yield();
    other.join();
  }
}

CASE(pinned_threads_stay) {
  for (int i = 0; i < kMigrations; ++i) {
    migrate();
    ayatori::pinned outer;
    const int here = ayatori::process_id();
    const pid_t pid = getpid();
    ayatori::thread child([] {
      for (int k = 0; k < 3; ++k) ayatori::this_thread::yield();
    });
    {
      ayatori::pinned inner;
      ayatori::this_thread::yield();
    }
    ayatori::this_thread::sleep_for(std::chrono::microseconds(i));
    child.join();
    CHECK(ayatori::process_id() == here && getpid() == pid);
  }
}

CASE(os_threads_use_the_space) {
  for (int i = 0; i < kMigrations / 5; ++i) {
    std::vector<int> v;
    ayatori::mutex mutex;
    long count = 0;
    std::unique_ptr<std::string> text;
    elsewhere([&] {
      v.assign(5000, i);
      text = std::make_unique<std::string>(1000, 't');
    });
    migrate();
    ayatori::pinned here;
    long sum = 0;
    std::thread worker([&] {
      for (const int x : v) sum += x;  // faults on an OS thread of the program
      for (int& x : v) ++x;
      text.reset();  // a delete there of what a user-level thread made
      for (int k = 0; k < 50; ++k) {
        std::lock_guard lock(mutex);
        ++count;
      }
    });
    ayatori::thread other([&] {
      for (int k = 0; k < 50; ++k) {
        std::lock_guard lock(mutex);
        ++count;
      }
    });
    other.join();
    worker.join();
    CHECK(sum == 5000L * i && count == 100);
    CHECK(elsewhere([&] { return v[4999] == i + 1 && !text; }));
  }
}

// Memory of the space that this process has not touched, handed to the kernel by an OS thread of the program.
CASE(os_threads_hand_the_space_to_the_kernel) {
  for (int i = 0; i < kMigrations / 5; ++i) {
    const std::string text(30'000 + static_cast<std::size_t>(i), static_cast<char>('a' + i));
    std::string from, by_read, by_stdio;
    elsewhere([&] {
      from = text;
      by_read.resize(text.size());
      by_stdio.resize(text.size());
    });
    ayatori::pinned here;
    bool right = false;
    std::thread worker([&] {
      std::FILE* file = std::tmpfile();
      const std::size_t half = from.size() / 2;
      right = file && std::fwrite(from.data(), 1, half, file) == half && std::fflush(file) == 0 &&
              write(fileno(file), from.data() + half, from.size() - half) == static_cast<ssize_t>(from.size() - half) &&
              pread(fileno(file), by_read.data(), by_read.size(), 0) == static_cast<ssize_t>(by_read.size());
      if (!file) return;
      std::rewind(file);
      right = right && std::fread(by_stdio.data(), 1, by_stdio.size(), file) == by_stdio.size();
      std::fclose(file);
    });
    worker.join();
    CHECK(right);
    CHECK(elsewhere([&] { return by_read == text && by_stdio == text; }));
  }
}

CASE(globals_of_the_job_and_of_the_process) {
  shared_vector->clear();
  for (int i = 0; i < kMigrations; ++i) {
    std::lock_guard lock(*shared_mutex);
    shared_vector->push_back(i);
    migrate();
  }
  CHECK(shared_vector->size() == kMigrations && shared_vector->back() == kMigrations - 1);
  CHECK(ayatori::in_space(&*shared_vector) && !ayatori::in_space(&plain_global) && plain_global == 5);
}

CASE(deadlines_that_never_come) {
  struct Shared {
    ayatori::mutex mutex;
    ayatori::condition_variable condition;
    bool over = false;
    ayatori::atomic<int> woke{0}, waiting{0};
  };
  // Outlives the case: sleepers that never wake go on sleeping.
  auto* s = new Shared;
  ayatori::thread([s] { ayatori::this_thread::sleep_for(std::chrono::nanoseconds::max()), ++s->woke; }).detach();
  ayatori::thread([s] { ayatori::this_thread::sleep_for(std::chrono::hours::max()), ++s->woke; }).detach();
  ayatori::thread([s] {
    ayatori::this_thread::sleep_until(std::chrono::steady_clock::time_point::max()), ++s->woke;
  }).detach();
  const auto waiter = [s](auto wait) {
    return ayatori::thread([s, wait] {
      std::unique_lock lock(s->mutex);
      ++s->waiting;
      if (!wait(lock, [s] { return s->over; })) ++s->woke;
    });
  };
  ayatori::thread waiters[] = {
      waiter([s](auto& lock, auto over) { return s->condition.wait_for(lock, std::chrono::nanoseconds::max(), over); }),
      waiter([s](auto& lock, auto over) { return s->condition.wait_for(lock, std::chrono::hours::max(), over); }),
      waiter([s](auto& lock, auto over) {
        return s->condition.wait_until(lock, std::chrono::steady_clock::time_point::max(), over);
      }),
      waiter([s](auto& lock, auto over) {
        return s->condition.wait_until(lock, std::chrono::system_clock::time_point::max(), over);
      })};
  while (s->waiting.load() < 4) ayatori::this_thread::yield();
  ayatori::this_thread::sleep_for(std::chrono::milliseconds(20));
  {
    const std::lock_guard lock(s->mutex);
    s->over = true;
  }
  s->condition.notify_all();
  for (auto& t : waiters) t.join();
  CHECK(s->woke.load() == 0);
}

CASE(sleeping_and_timed_waits) {
  ayatori::mutex mutex;
  ayatori::condition_variable condition;
  bool ready = false;
  std::unique_lock lock(mutex);
  CHECK(!condition.wait_for(lock, std::chrono::milliseconds(5), [&] { return ready; }));
  ayatori::thread setter([&] {
    ayatori::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::lock_guard inner(mutex);
    ready = true;
    condition.notify_all();
  });
  CHECK(condition.wait_for(lock, std::chrono::seconds(20), [&] { return ready; }));
  lock.unlock();
  setter.join();
}

// Threads on all processes write, arrive, go on with something of their own, and wait: then all see what all had written,
// and what the completion wrote.
CASE(barriers_with_split_arrivals) {
  constexpr int kThreads = 5, kRounds = 60;
  int cells[kThreads] = {}, completed = 0;
  // The first thread arrives for two.
  ayatori::basic_barrier barrier(kThreads + 1, [&]() noexcept { ++completed; });
  std::vector<ayatori::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back(ayatori::on(t % ayatori::process_count()), [&, t] {
      for (int round = 1; round <= kRounds; ++round) {
        cells[t] = round;
        auto token = barrier.arrive(t == 0 ? 2 : 1);
        if ((round + t) % 3 == 0) migrate();
        if ((round + t) % 3 == 1) ayatori::this_thread::yield();
        barrier.wait(std::move(token));
        int right = 0;
        for (const int cell : cells) right += cell == round;
        CHECK(right == kThreads);
        CHECK(completed == 2 * round - 1);
        auto again = barrier.arrive(t == 0 ? 2 : 1);  // all have read
        barrier.wait(std::move(again));
      }
    });
  for (auto& t : threads) t.join();
}
