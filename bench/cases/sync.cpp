// SPDX-License-Identifier: Apache-2.0
// Synchronisation between threads of different processes: a barrier with one thread a process, and a mutex that goes to
// and fro between two.
#include "cases.hpp"

#include <memory>

namespace cases {

void barrier(const Options& o) {
  const int processes = ayatori::process_count();
  const int batches = o.quick ? 4 : 20, batch = 50;
  const auto meeting = std::make_unique<ayatori::barrier>(processes);
  Samples us;
  std::vector<ayatori::thread> threads;
  for (int p = 0; p < processes; ++p)
    threads.emplace_back(ayatori::on(p), [&us, m = meeting.get(), p, batches] {
      const ayatori::pinned here;
      Samples mine = room(static_cast<std::size_t>(batches));
      for (int i = 0; i < batches; ++i) {
        const std::int64_t start = now_ns();
        for (int j = 0; j < batch; ++j) m->arrive_and_wait();
        mine.push_back(static_cast<double>(now_ns() - start) / batch / 1e3);
      }
      if (p == 0) us = mine;
    });
  for (ayatori::thread& t : threads) t.join();
  report("a crossing", "us", us);
}

namespace {

struct Guarded {
  ayatori::mutex mutex;
  std::int64_t unlocked_ns = 0;          // Guarded by mutex.
  int holder = -1;                       // Guarded by mutex.
  ayatori::atomic<std::uint64_t> takes;  // relaxed: how often it was locked
};

// Two threads take turns: each holds the mutex so long that the other one waits for it, then stays away until that one
// has it.
Samples take_turns(Guarded* g, int me, int rounds) {
  const ayatori::pinned here;
  Samples us = room(static_cast<std::size_t>(rounds));
  const auto last = 2 * static_cast<std::uint64_t>(rounds);
  for (int i = 0; i < rounds; ++i) {
    g->mutex.lock();
    const std::int64_t locked = now_ns();
    if (g->holder >= 0 && g->holder != me) us.push_back(static_cast<double>(locked - g->unlocked_ns) / 1e3);
    g->holder = me;
    const std::uint64_t take = g->takes.fetch_add(1, std::memory_order_relaxed) + 1;
    spin_until(locked + 30'000);
    g->unlocked_ns = now_ns();
    g->mutex.unlock();
    while (take != last && g->takes.load(std::memory_order_relaxed) == take) {
    }
  }
  return us;
}

}  // namespace

void mutex_handoff(const Options& o) {
  const int rounds = o.quick ? 50 : 500;
  const auto guarded = std::make_unique<Guarded>();
  Guarded* const g = guarded.get();
  Samples alone, there, back;
  on_process(0, [&] {
    const int batches = 20, batch = 500;
    alone = room(batches);
    for (int i = 0; i < batches; ++i) {
      const std::int64_t start = now_ns();
      for (int j = 0; j < batch; ++j) {
        g->mutex.lock();
        g->mutex.unlock();
      }
      alone.push_back(static_cast<double>(now_ns() - start) / batch);
    }
  });
  {
    ayatori::thread zero(ayatori::on(0), [&] { back = take_turns(g, 0, rounds); });
    ayatori::thread one(ayatori::on(1), [&] { there = take_turns(g, 1, rounds); });
    zero.join();
    one.join();
  }
  report("lock + unlock, nobody else", "ns", alone);
  there.insert(there.end(), back.begin(), back.end());
  report("unlock to lock on the other process", "us", there);
}

}  // namespace cases
