// SPDX-License-Identifier: Apache-2.0
// Store buffering under a mutex: each writes its cell and reads the other's; in one order or the other one sees.
#include "litmus.hpp"

using namespace litmus;

LITMUS(sb_mutex, "SB+mutex", "neither sees the other") {
  ayatori::mutex m;
  Meeting start(2);
  bool a = false, b = false;
  roles(
      r,
      [&] {
        start.meet();
        {
          std::lock_guard lock(m);
          r.write(0);
        }
        std::lock_guard lock(m);
        a = r.hit(1);
      },
      [&] {
        start.meet();
        {
          std::lock_guard lock(m);
          r.write(1);
        }
        std::lock_guard lock(m);
        b = r.hit(0);
      });
  return {!a && !b, bits({a, b}), r.place(0) != r.place(1)};
}
