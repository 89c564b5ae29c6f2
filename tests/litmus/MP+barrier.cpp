// SPDX-License-Identifier: Apache-2.0
// Message passing by a barrier: what each wrote before it, each reads after it.
#include "litmus.hpp"

using namespace litmus;

LITMUS(mp_barrier, "MP+barrier", "data not read after the barrier") {
  ayatori::barrier b(2);
  bool first = false, second = false;
  roles(
      r,
      [&] {
        r.write(0);
        b.arrive_and_wait();
        first = r.hit(1);
      },
      [&] {
        r.write(1);
        b.arrive_and_wait();
        second = r.hit(0);
      });
  return {!first || !second, bits({first, second}), r.place(0) != r.place(1)};
}
