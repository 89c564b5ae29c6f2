// SPDX-License-Identifier: Apache-2.0
// call_once; std's functions and classes for locks; semaphores that get several units at once.
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "cases.hpp"

namespace {

using ayatori::call_once;
using ayatori::once_flag;

ayatori::global<once_flag> one_for_all;
constinit once_flag each_process;
constinit int initialised = 0;  // each process's own

void in_space() {
  struct Shared {
    once_flag flag;
    int ran = 0;
    std::vector<int> made;
    unsigned on = 0;
  };
  for (int round = 0; round < 20; ++round) {
    const auto shared = std::make_unique<Shared>();
    ayatori::atomic<unsigned> saw{0};
    everywhere([&, s = shared.get()](int n) {
      saw.fetch_or(here());
      for (int i = 0; i < 3; ++i) {
        call_once(
            s->flag,
            [&](int by) {
              yields(10);
              ++s->ran;
              s->made.assign(1000, by);
              s->on = here();
            },
            n);
        CHECK(s->ran == 1 && s->made.size() == 1000 && s->made.back() == s->made.front());
      }
    });
    CHECK(shared->ran == 1 && saw.load() == everybody());
  }
  // The same address again and again: each is a flag of its own.
  int runs = 0;
  for (int i = 0; i < 20; ++i) {
    once_flag flag;
    ayatori::thread(ayatori::on(i % ayatori::process_count()), [&] { call_once(flag, [&] { ++runs; }); }).join();
    call_once(flag, [&] { ++runs; });
  }
  CHECK(runs == 20);
  ayatori::atomic<int> ran{0};
  everywhere([&](int) { call_once(one_for_all.get(), [&] { ran.fetch_add(1); }); });
  CHECK(ran.load() == 1);
}

void exceptional() {
  for (int round = 0; round < 10; ++round) {
    once_flag flag;
    ayatori::atomic<int> attempts{0}, caught{0};
    int done = 0;
    everywhere([&](int) {
      try {
        call_once(flag, [&] {
          if (attempts.fetch_add(1) < 4 && attempts.load() < all_threads()) throw std::runtime_error("not yet");
          ++done;
        });
        CHECK(done == 1);
      } catch (const std::runtime_error&) {
        caught.fetch_add(1);
      }
    });
    CHECK(done == 1 && attempts.load() == caught.load() + 1);
    CHECK(caught.load() == std::min(4, all_threads() - 1) || caught.load() > 0);
  }
}

void in_static_data() {
  everywhere([](int) {
    for (int i = 0; i < 5; ++i) {
      const ayatori::pinned stay;
      call_once(each_process, [] {
        yields(20);
        ++initialised;
      });
      CHECK(initialised == 1);
    }
  });
  ayatori::atomic<int> sum{0};
  for (int p = 0; p < ayatori::process_count(); ++p)
    ayatori::thread(ayatori::on(p), [&] {
      const ayatori::pinned stay;
      sum.fetch_add(initialised);
    }).join();
  CHECK(sum.load() == ayatori::process_count());
}

ayatori::mutex static_mutex;

void scoped() {
  struct {
    ayatori::mutex a;
    ayatori::timed_mutex b;
    ayatori::shared_mutex c;
    long x = 0, y = 0;
    unsigned on = 0;
  } s;
  constexpr int kRounds = 30;
  everywhere([&](int n) {
    const unsigned began = here();
    for (int i = 0; i < kRounds; ++i) {
      if ((n + i) % 3 == 0) {
        const std::scoped_lock all(s.a, s.b, s.c, static_mutex);
        ++s.x;
        ayatori::this_thread::yield();
        ++s.y;
        s.on |= began;
      } else if ((n + i) % 3 == 1) {
        const std::scoped_lock all(static_mutex, s.c, s.b, s.a);
        ++s.x;
        ++s.y;
      } else {
        std::unique_lock a(s.a, std::defer_lock), st(static_mutex, std::defer_lock);
        std::lock(st, a);
        CHECK(s.x == s.y && a.owns_lock() && st.owns_lock());
        while (std::try_lock(s.b, s.c) != -1) ayatori::this_thread::yield();
        ++s.x;
        ++s.y;
        s.b.unlock();
        s.c.unlock();
        st.unlock();
        a.unlock();
        const std::shared_lock reads(s.c);
        CHECK(s.x >= s.y);
      }
    }
  });
  CHECK(s.x == long{kRounds} * all_threads() && s.y == s.x);
  CHECK(s.on == everybody());
}

// Who finds one of three units finds the others.
void units() {
  for (int round = 0; round < 100; ++round) {
    ayatori::counting_semaphore units(0);
    ayatori::thread giver(ayatori::on(last()), [&] { units.release(3); });
    units.acquire();
    CHECK(units.try_acquire());
    CHECK(units.try_acquire());
    CHECK(!units.try_acquire());
    giver.join();
    // Waiters get theirs, the rest stays.
    int got = 0;
    ayatori::mutex mutex;
    std::vector<ayatori::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back(ayatori::on(i % ayatori::process_count()), [&] {
        units.acquire();
        const std::lock_guard lock(mutex);
        ++got;
      });
    if (round % 2 == 0) yields(10);
    units.release(6);
    for (auto& t : threads) t.join();
    CHECK(got == 4 && units.try_acquire() && units.try_acquire() && !units.try_acquire());
  }
}

}  // namespace

void onces() {
  in_space();
  exceptional();
  in_static_data();
}

void locks() {
  scoped();
  units();
}
