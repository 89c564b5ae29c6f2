// SPDX-License-Identifier: Apache-2.0
// Independent reads of independent writes: two writers are joined, then two readers are forked elsewhere.
#include "litmus.hpp"

using namespace litmus;

LITMUS(iriw_join, "IRIW+join", "a reader misses a write of a thread that was joined") {
  bool a[2] = {}, b[2] = {};
  roles(r, [&] { r.write(0); }, [&] { r.write(1); });
  ayatori::thread one(ayatori::on(r.place(2)), [&] {
    a[0] = r.hit(0);
    a[1] = r.hit(1);
  });
  ayatori::thread two(ayatori::on(r.place(3)), [&] {
    b[0] = r.hit(1);
    b[1] = r.hit(0);
  });
  one.join();
  two.join();
  return {!a[0] || !a[1] || !b[0] || !b[1], bits({a[0], a[1], b[0], b[1]}), r.place(0) != r.place(2)};
}
