// SPDX-License-Identifier: Apache-2.0
// Store buffering with a barrier between write and read: both see; in three rounds of the barrier.
#include "litmus.hpp"

using namespace litmus;

LITMUS(sb_barrier, "SB+barrier", "one does not see the other") {
  ayatori::barrier b(3);
  bool ok[3] = {true, true, true};
  const auto role = [&](int i) {
    for (int k = 0; k < 3; ++k) {
      if (k == i) r.write(i);
      b.arrive_and_wait();
      ok[i] = ok[i] && r.hit(k);
      b.arrive_and_wait();
    }
  };
  roles(r, [&] { role(0); }, [&] { role(1); }, [&] { role(2); });
  return {!ok[0] || !ok[1] || !ok[2], bits({ok[0], ok[1], ok[2]}), r.place(0) != r.place(1)};
}
