// SPDX-License-Identifier: Apache-2.0
// Threads on all processes add to plain variables under an ayatori::mutex, and to an ayatori::atomic without one.
#include <ayatori/ayatori.hpp>

#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

struct Counters {
  ayatori::mutex mutex;
  long plain = 0;         // guarded by mutex
  long last_thread = -1;  // guarded by mutex
  ayatori::atomic<long> atomic{0};
};

}  // namespace

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto args) {
    const long rounds = args.size() > 1 ? std::atol(args[1]) : 200;
    const int threads = 2 * ayatori::process_count();
    Counters counters;  // on this thread's stack
    ayatori::parallel_for(0, threads, 1, [&counters, rounds](int k) {
      // Each on a process of its own, so that the mutex has to travel.
      ayatori::thread t(ayatori::on(k % ayatori::process_count()), [&counters, rounds, k] {
        for (long i = 0; i < rounds; ++i) {
          {
            std::lock_guard lock(counters.mutex);
            ++counters.plain;
            counters.last_thread = k;
          }
          counters.atomic.fetch_add(1, std::memory_order_relaxed);
        }
      });
      t.join();
    });
    const long expected = rounds * threads, atomic = counters.atomic.load();
    const bool ok = counters.plain == expected && atomic == expected;
    std::printf("%ld under the mutex, %ld atomic, %ld expected\ncheck: %s\n", counters.plain, atomic, expected,
                ok ? "ok" : "FAILED");
    return ok ? 0 : 1;
  });
}
