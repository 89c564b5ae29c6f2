// SPDX-License-Identifier: Apache-2.0
// Independent reads of independent writes with sequentially consistent atomics; cells go with them.
#include "litmus.hpp"

using namespace litmus;

LITMUS(iriw_atomic, "IRIW+atomic", "two readers see the two writes in different orders") {
  ayatori::atomic<int> x{0}, y{0};
  Meeting start(4);
  bool a[2] = {}, b[2] = {}, right = true, other = true;
  roles(
      r,
      [&] {
        start.meet();
        r.write(0);
        x.store(1);
      },
      [&] {
        start.meet();
        r.write(1);
        y.store(1);
      },
      [&] {
        start.meet();
        a[0] = x.load() == 1;
        a[1] = y.load() == 1;
        if (a[0]) right = r.hit(0);
      },
      [&] {
        start.meet();
        b[0] = y.load() == 1;
        b[1] = x.load() == 1;
        if (b[0]) other = r.hit(1);
      });
  const bool split = a[0] && !a[1] && b[0] && !b[1];
  return {split || !right || !other, bits({a[0], a[1], b[0], b[1], right, other}), r.place(0) != r.place(2)};
}
