// SPDX-License-Identifier: Apache-2.0
// Independent reads of independent writes, by threads that are forked child first and stolen as it comes.
#include "litmus.hpp"

using namespace litmus;

LITMUS(iriw_steal, "IRIW+steal", "a reader misses a write of a thread that was joined, or of before the fork") {
  const Alone alone;
  const int before = ayatori::process_id();
  bool a[2] = {}, b[2] = {}, old[4] = {}, apart = false;
  r.write(2);
  // Each child waits until its parent's continuation was stolen.
  const auto pair = [&](auto&& first, auto&& second) {
    ayatori::atomic<int> ran{0};
    ayatori::thread one([&] {
      linger(ran, 1);
      first();
    });
    apart |= ayatori::process_id() != before;
    ran.store(1, std::memory_order_relaxed);
    ayatori::thread two([&] {
      linger(ran, 2);
      second();
    });
    ran.store(2, std::memory_order_relaxed);
    one.join();
    two.join();
  };
  pair([&] { old[0] = r.hit(2), r.write(0); }, [&] { old[1] = r.hit(2), r.write(1); });
  pair([&] { old[2] = r.hit(2), a[0] = r.hit(0), a[1] = r.hit(1); },
       [&] { old[3] = r.hit(2), b[0] = r.hit(1), b[1] = r.hit(0); });
  const bool writes = a[0] && a[1] && b[0] && b[1], olds = old[0] && old[1] && old[2] && old[3];
  return {!writes || !olds, bits({writes, olds}), apart};
}
