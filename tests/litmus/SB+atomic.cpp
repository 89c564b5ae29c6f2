// SPDX-License-Identifier: Apache-2.0
// Store buffering with sequentially consistent atomics; plain cells written before them are seen with them.
#include "litmus.hpp"

using namespace litmus;

LITMUS(sb_atomic, "SB+atomic", "neither sees the other (sequentially consistent operations)") {
  ayatori::atomic<int> x{0}, y{0};
  Meeting start(2);
  bool a = false, b = false, right = true, other = true;
  roles(
      r,
      [&] {
        start.meet();
        r.write(0);
        x.store(1);
        a = y.load() == 1;
        if (a) right = r.hit(1);
      },
      [&] {
        start.meet();
        r.write(1);
        y.store(1);
        b = x.load() == 1;
        if (b) other = r.hit(0);
      });
  return {(!a && !b) || !right || !other, bits({a, b, right, other}), r.place(0) != r.place(1)};
}
