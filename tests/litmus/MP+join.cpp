// SPDX-License-Identifier: Apache-2.0
// Message passing by fork and join: the parent's write before the fork, the child's write before its end.
#include "litmus.hpp"

using namespace litmus;

LITMUS(mp_join, "MP+join", "a child wrote, its joiner does not read it") {
  r.write(0);
  bool down = false;
  int ran = -1;
  const int here = ayatori::process_id();
  ayatori::thread child(ayatori::on(away()), [&] {
    down = r.hit(0);
    r.write(1);
    ran = ayatori::process_id();
  });
  child.join();
  const bool up = r.hit(1);
  return {!down || !up, bits({down, up}), ran != here};
}
