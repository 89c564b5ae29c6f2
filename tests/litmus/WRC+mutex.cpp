// SPDX-License-Identifier: Apache-2.0
// Write to read causality by mutexes: the second saw the first's write; who sees the second's sees both.
#include "litmus.hpp"

using namespace litmus;

LITMUS(wrc_mutex, "WRC+mutex", "the third sees the second's write, not the first's") {
  ayatori::mutex m, n;
  bool second = false, third = false, both = false;
  roles(
      r,
      [&] {
        std::lock_guard lock(m);
        r.write(0);
      },
      [&] {
        {
          std::lock_guard lock(m);
          second = r.hit(0);
        }
        std::lock_guard lock(n);
        if (second) r.write(1);
      },
      [&] {
        for (int i = 0; i < 20 && !third; ++i) {
          {
            std::lock_guard lock(n);
            third = r.hit(1);
          }
          if (third) both = r.hit(0);
          ayatori::this_thread::yield();
        }
      });
  return {third && !both, bits({second, third, both}), r.place(0) != r.place(1)};
}
