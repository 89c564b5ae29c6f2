// SPDX-License-Identifier: Apache-2.0
// Synchronisation objects in static data: each process constructs its own bytes, the object is one for all.
#include <sys/wait.h>
#include <unistd.h>

#include <ayatori/ayatori.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "suite.hpp"

using suite::elsewhere;
using suite::kMigrations;
using suite::migrate;

namespace {

// Earlier than the library's own initialiser, and in the program's turn.
__attribute__((init_priority(101))) ayatori::mutex early;
ayatori::mutex plain;
ayatori::condition_variable changed;
ayatori::barrier meeting(3);
struct Holder {
  static inline ayatori::mutex member;
};
ayatori::global<long> count;

ayatori::mutex& local() {
  static ayatori::mutex mutex;
  return mutex;
}

// On every process: each changes the count under the lock, and goes elsewhere while it holds it.
void exclude(ayatori::mutex& (*of)()) {
  *count = 0;
  const int processes = ayatori::process_count();
  std::vector<ayatori::thread> threads;
  for (int p = 0; p < 2 * processes; ++p)
    threads.emplace_back(ayatori::on(p % processes), [of] {
      for (int i = 0; i < kMigrations; ++i) {
        of().lock();
        const long before = *count;
        if (i % 20 == 0) migrate();
        *count = before + 1;
        of().unlock();
      }
    });
  for (ayatori::thread& t : threads) t.join();
  CHECK(*count == 2L * processes * kMigrations);
}

}  // namespace

CASE(mutexes_in_static_data_exclude_other_processes) {
  exclude([]() -> ayatori::mutex& { return plain; });
  exclude([]() -> ayatori::mutex& { return early; });
  exclude([]() -> ayatori::mutex& { return Holder::member; });
  exclude([]() -> ayatori::mutex& { return local(); });
}

CASE(a_condition_variable_in_static_data_wakes_other_processes) {
  *count = 0;
  ayatori::thread other(ayatori::on(ayatori::process_count() - 1), [] {
    for (int i = 1; i < kMigrations; i += 2) {
      std::unique_lock lock(plain);
      changed.wait(lock, [i] { return *count == i; });
      *count = i + 1;
      changed.notify_all();
    }
  });
  for (int i = 0; i < kMigrations; i += 2) {
    std::unique_lock lock(plain);
    changed.wait(lock, [i] { return *count == i; });
    *count = i + 1;
    changed.notify_all();
  }
  other.join();
  CHECK(*count == kMigrations);
}

CASE(a_barrier_in_static_data_is_of_threads_of_all_processes) {
  const auto arrived = std::make_unique<int[]>(3);
  std::vector<ayatori::thread> threads;
  for (int k = 0; k < 3; ++k)
    threads.emplace_back(ayatori::on(k % ayatori::process_count()), [k, &arrived] {
      for (int i = 1; i <= kMigrations; ++i) {
        arrived[k] = i;
        meeting.arrive_and_wait();
        CHECK(arrived[0] == i && arrived[1] == i && arrived[2] == i);
        meeting.arrive_and_wait();
      }
    });
  for (ayatori::thread& t : threads) t.join();
}

#if defined(__SANITIZE_ADDRESS__)
// The forked child has not what other threads of its parent hold.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }  // NOLINT
#endif

CASE(the_exit_of_a_forked_child_ends_no_object_in_static_data) {
  const ayatori::pinned here;
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) std::exit(0);  // runs the destructors
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  const std::lock_guard lock(plain);
  changed.notify_all();
}

// Only the process that has made it knows it; it may be another one the next time.
CASE(an_object_in_static_data_ends_with_its_last_user) {
  static std::optional<ayatori::barrier> barrier;
  for (int i = 1; i < 10; ++i) {
    elsewhere([i] {
      const ayatori::pinned here;
      barrier.emplace(i);
      for (int k = 1; k < i; ++k) (void)barrier->arrive();
      barrier->arrive_and_wait();
      barrier.reset();
    });
    if (i % 3 == 0) migrate();
  }
}
