// SPDX-License-Identifier: Apache-2.0
// Load buffering with acquire loads and release stores; who reads 1 also sees the cell written before it.
#include "litmus.hpp"

using namespace litmus;

LITMUS(lb_atomic, "LB+atomic", "both read what the other wrote afterwards") {
  ayatori::atomic<int> x{0}, y{0};
  Meeting start(2);
  bool a = false, b = false, right = true, other = true;
  roles(
      r,
      [&] {
        start.meet();
        a = x.load(std::memory_order_acquire) == 1;
        if (a) right = r.hit(1);
        r.write(0);
        y.store(1, std::memory_order_release);
      },
      [&] {
        start.meet();
        b = y.load(std::memory_order_acquire) == 1;
        if (b) other = r.hit(0);
        r.write(1);
        x.store(1, std::memory_order_release);
      });
  return {(a && b) || !right || !other, bits({a, b, right, other}), r.place(0) != r.place(1)};
}
