// SPDX-License-Identifier: Apache-2.0
// Message passing by a steal: the continuation of a fork reads what was written before the fork, on whatever process.
#include "litmus.hpp"

using namespace litmus;

LITMUS(mp_steal, "MP+steal", "written before the fork, not read by the stolen continuation") {
  r.write(0);
  const Alone alone;
  const int before = ayatori::process_id();
  ayatori::atomic<int> ran{0};
  ayatori::thread child([&] {
    r.write(1);
    linger(ran, 1);
    r.write(2);
  });
  const int after = ayatori::process_id();
  const bool read = r.hit(0);
  r.write(3);
  ran.store(1, std::memory_order_relaxed);
  child.join();
  const bool joined = r.hit(0) && r.hit(1) && r.hit(2) && r.hit(3);
  return {!read || !joined, bits({read, joined}), before != after};
}
