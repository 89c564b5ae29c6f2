// SPDX-License-Identifier: Apache-2.0
// Independent reads of independent writes with a barrier of all four: everybody sees everything.
#include "litmus.hpp"

using namespace litmus;

LITMUS(iriw_barrier, "IRIW+barrier", "a reader misses a write of before the barrier") {
  ayatori::barrier b(4);
  bool ok[4] = {};
  const auto role = [&](int i) {
    if (i < 2) r.write(i);
    b.arrive_and_wait();
    ok[i] = r.hit(0) && r.hit(1);
  };
  roles(r, [&] { role(0); }, [&] { role(1); }, [&] { role(2); }, [&] { role(3); });
  return {!ok[0] || !ok[1] || !ok[2] || !ok[3], bits({ok[0], ok[1], ok[2], ok[3]}), r.place(0) != r.place(2)};
}
