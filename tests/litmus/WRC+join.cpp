// SPDX-License-Identifier: Apache-2.0
// Write to read causality by joins: a grandchild writes, its parent joins it, and is joined.
#include "litmus.hpp"

using namespace litmus;

LITMUS(wrc_join, "WRC+join", "the first thread sees the child's write, not the grandchild's") {
  bool second = false;
  int ran = -1;
  int here = -1;
  ayatori::thread child(ayatori::on(away()), [&] {
    here = ayatori::process_id();
    ayatori::thread(ayatori::on(away()), [&] {
      r.write(0);
      ran = ayatori::process_id();
    }).join();
    second = r.hit(0);
    r.write(1);
  });
  child.join();
  const bool third = r.hit(1), both = r.hit(0);
  return {!second || !third || !both, bits({second, third, both}), ran != here};
}
