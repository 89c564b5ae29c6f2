// SPDX-License-Identifier: Apache-2.0
// Store buffering between a child and its parent's stolen continuation, which write adjacent cells at once.
#include "litmus.hpp"

using namespace litmus;

LITMUS(sb_steal, "SB+steal", "after the join one of the writes is missing") {
  const Alone alone;
  const int before = ayatori::process_id();
  ayatori::atomic<int> ran{0};
  bool own = false;
  ayatori::thread child([&] {
    // Writes all the while that the parent's continuation is taken and merged.
    int i = 0;
    do {
      r.write(0);
      __builtin_ia32_pause();
    } while (++i < 20'000 && ran.load(std::memory_order_relaxed) == 0);
    linger(ran, 1);
    own = r.hit(0);
  });
  const int after = ayatori::process_id();
  r.write(1);
  ran.store(1, std::memory_order_relaxed);
  r.write(2);
  const bool mine = r.hit(1) && r.hit(2);
  child.join();
  const bool all = r.hit(0) && r.hit(1) && r.hit(2);
  return {!own || !mine || !all, bits({own, mine, all}), before != after};
}
