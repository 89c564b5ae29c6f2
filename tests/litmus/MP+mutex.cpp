// SPDX-License-Identifier: Apache-2.0
// Message passing by a mutex: who sees the flag sees what was written before it.
#include "litmus.hpp"

using namespace litmus;

LITMUS(mp_mutex, "MP+mutex", "flag read, data not") {
  ayatori::mutex m;
  Meeting start(2);
  bool flag = false, data = false;
  roles(
      r,
      [&] {
        start.meet();
        r.write(0);
        std::lock_guard lock(m);
        r.write(1);
      },
      [&] {
        start.meet();
        std::lock_guard lock(m);
        flag = r.hit(1);
        if (flag) data = r.hit(0);
      });
  return {flag && !data, bits({flag, data}), r.place(0) != r.place(1)};
}
