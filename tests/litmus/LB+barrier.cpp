// SPDX-License-Identifier: Apache-2.0
// Load buffering with a barrier: what is written after it is not read before it.
#include "litmus.hpp"

using namespace litmus;

LITMUS(lb_barrier, "LB+barrier", "a read before the barrier sees a write after it") {
  ayatori::barrier b(2);
  bool early[2] = {}, late[2] = {};
  const auto role = [&](int i) {
    early[i] = r.hit(1 - i);
    b.arrive_and_wait();
    r.write(i);
    b.arrive_and_wait();
    late[i] = r.hit(1 - i);
  };
  roles(r, [&] { role(0); }, [&] { role(1); });
  return {early[0] || early[1] || !late[0] || !late[1], bits({early[0], early[1], late[0], late[1]}),
          r.place(0) != r.place(1)};
}
