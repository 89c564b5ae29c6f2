// SPDX-License-Identifier: Apache-2.0
// Message passing by an atomic: a release store, an acquire load.
#include "litmus.hpp"

using namespace litmus;

LITMUS(mp_atomic, "MP+atomic", "flag read, data not") {
  ayatori::atomic<int> flag{0};
  bool seen = false, data = false, late = false;
  roles(
      r,
      [&] {
        r.write(0);
        flag.store(1, std::memory_order_release);
      },
      [&] {
        data = r.hit(0);  // may be early: a copy of it is here then
        seen = flag.load(std::memory_order_acquire) == 1;
        if (seen) late = !r.hit(0);
      });
  return {late, bits({seen, !late}), r.place(0) != r.place(1)};
}
