// SPDX-License-Identifier: Apache-2.0
// Load buffering between a child and its parent's stolen continuation; the parent writes its second cell after the join.
#include "litmus.hpp"

using namespace litmus;

LITMUS(lb_steal, "LB+steal", "a child reads what is written after its join") {
  const Alone alone;
  const int before = ayatori::process_id();
  ayatori::atomic<int> ran{0};
  bool early = false;
  ayatori::thread child([&] {
    linger(ran, 1);
    early = r.hit(1);
    r.write(0);
  });
  const int after = ayatori::process_id();
  ran.store(1, std::memory_order_relaxed);
  child.join();
  r.write(1);
  const bool late = r.hit(0);
  return {early || !late, bits({early, late}), before != after};
}
