// SPDX-License-Identifier: Apache-2.0
// Load buffering with fork and join: a child reads a cell that its parent writes after the join, and the other way round.
#include "litmus.hpp"

using namespace litmus;

LITMUS(lb_join, "LB+join", "a child reads what its parent writes after the join") {
  bool early = false, late = false, before = r.hit(1);
  int ran = -1;
  const int here = ayatori::process_id();
  ayatori::thread child(ayatori::on(away()), [&] {
    early = r.hit(0);
    r.write(1);
    ran = ayatori::process_id();
  });
  child.join();
  r.write(0);
  late = r.hit(1);
  return {early || before || !late, bits({early, before, late}), ran != here};
}
