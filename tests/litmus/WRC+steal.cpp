// SPDX-License-Identifier: Apache-2.0
// Write to read causality by steals: a continuation that is stolen, and stolen again, sees what was written at each stop.
#include "litmus.hpp"

using namespace litmus;

LITMUS(wrc_steal, "WRC+steal", "a continuation stolen twice misses a write of before") {
  const Alone alone;
  const int before = ayatori::process_id();
  ayatori::atomic<int> ran{0}, again{0};
  r.write(0);
  ayatori::thread first([&] { linger(ran, 1); });
  const int between = ayatori::process_id();
  const bool one = r.hit(0);
  r.write(1);
  ran.store(1, std::memory_order_relaxed);
  const Alone here_too;
  ayatori::thread second([&] {
    r.write(2);
    linger(again, 1);
  });
  const int after = ayatori::process_id();
  const bool two = r.hit(0) && r.hit(1);
  again.store(1, std::memory_order_relaxed);
  first.join();
  second.join();
  const bool all = r.hit(0) && r.hit(1) && r.hit(2);
  return {!one || !two || !all, bits({one, two, all}), before != between && between != after};
}
