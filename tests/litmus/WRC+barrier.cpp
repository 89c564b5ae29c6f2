// SPDX-License-Identifier: Apache-2.0
// Write to read causality by two barriers that share one thread only.
#include "litmus.hpp"

using namespace litmus;

LITMUS(wrc_barrier, "WRC+barrier", "the third sees the second's write, not the first's") {
  ayatori::barrier one(2), two(2);
  bool second = false, third = false, both = false;
  roles(
      r,
      [&] {
        r.write(0);
        one.arrive_and_wait();
      },
      [&] {
        one.arrive_and_wait();
        second = r.hit(0);
        r.write(1);
        two.arrive_and_wait();
      },
      [&] {
        two.arrive_and_wait();
        third = r.hit(1);
        both = r.hit(0);
      });
  return {!second || !third || !both, bits({second, third, both}), r.place(0) != r.place(1)};
}
