// SPDX-License-Identifier: Apache-2.0
// Store buffering with joins: two children write and read at once; what they read is free, after the joins both are there.
#include "litmus.hpp"

using namespace litmus;

LITMUS(sb_join, "SB+join", "after the join one of the writes is missing") {
  Meeting start(2);
  bool a = false, b = false;
  roles(
      r,
      [&] {
        start.meet();
        r.write(0);
        a = r.hit(0);
      },
      [&] {
        start.meet();
        r.write(1);
        b = r.hit(1);
      });
  const bool x = r.hit(0), y = r.hit(1);
  return {!a || !b || !x || !y, bits({a, b, x, y}), r.place(0) != r.place(1)};
}
