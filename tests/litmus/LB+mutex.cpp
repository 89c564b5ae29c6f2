// SPDX-License-Identifier: Apache-2.0
// Load buffering under a mutex: each reads the other's cell and then writes its own.
#include "litmus.hpp"

using namespace litmus;

LITMUS(lb_mutex, "LB+mutex", "both read what the other wrote afterwards") {
  ayatori::mutex m;
  Meeting start(2);
  bool a = false, b = false;
  const auto role = [&](int mine, bool& seen) {
    start.meet();
    {
      std::lock_guard lock(m);
      seen = r.hit(1 - mine);
    }
    std::lock_guard lock(m);
    r.write(mine);
  };
  roles(r, [&] { role(0, a); }, [&] { role(1, b); });
  return {a && b, bits({a, b}), r.place(0) != r.place(1)};
}
