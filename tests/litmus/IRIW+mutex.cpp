// SPDX-License-Identifier: Apache-2.0
// Independent reads of independent writes, each under the mutex.
#include "litmus.hpp"

using namespace litmus;

LITMUS(iriw_mutex, "IRIW+mutex", "two readers see the two writes in different orders") {
  ayatori::mutex m;
  Meeting start(4);
  bool a[2] = {}, b[2] = {};
  const auto writer = [&](int i) {
    start.meet();
    std::lock_guard lock(m);
    r.write(i);
  };
  const auto reader = [&](int first, bool* seen) {
    start.meet();
    for (const int i : {first, 1 - first}) {
      std::lock_guard lock(m);
      *seen++ = r.hit(i);
    }
  };
  roles(r, [&] { writer(0); }, [&] { writer(1); }, [&] { reader(0, a); }, [&] { reader(1, b); });
  return {a[0] && !a[1] && b[0] && !b[1], bits({a[0], a[1], b[0], b[1]}), r.place(0) != r.place(2)};
}
