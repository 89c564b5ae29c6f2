// SPDX-License-Identifier: Apache-2.0
// Write to read causality by atomics with release and acquire.
#include "litmus.hpp"

using namespace litmus;

LITMUS(wrc_atomic, "WRC+atomic", "the third sees the second's write, not the first's") {
  ayatori::atomic<int> x{0}, y{0};
  bool second = false, third = false, both = true;
  roles(
      r,
      [&] {
        r.write(0);
        x.store(1, std::memory_order_release);
      },
      [&] {
        for (int i = 0; i < 50 && !second; ++i) {
          second = x.load(std::memory_order_acquire) == 1;
          if (!second) ayatori::this_thread::yield();
        }
        if (second) {
          r.write(1);
          y.store(1, std::memory_order_release);
        }
      },
      [&] {
        for (int i = 0; i < 100 && !third; ++i) {
          third = y.load(std::memory_order_acquire) == 1;
          if (!third) ayatori::this_thread::yield();
        }
        if (third) both = r.hit(0) && r.hit(1);
      });
  return {third && !both, bits({second, third, both}), r.place(0) != r.place(1)};
}
