// SPDX-License-Identifier: Apache-2.0
// A small process that outlives a launcher which is killed by SIGKILL, only to say so: the launcher itself has no time
// for a word, and the members die with it. Made and ended by the launcher's only thread.
//
// G1. It has no exit signal: waitid(P_ALL) does not see it and no SIGCHLD tells its end, so that "no child is left" is
//     about the job's processes. Only /proc's list of children has it.
// G2. It holds the read end of a pipe and standard error, nothing else. The launcher alone has the write end (which no
//     exec keeps): end of file is the launcher's death.
// G3. It blocks all signals and is a group of its own: what is meant for the job does not reach it.
// G4. An ordinary launcher ends it by SIGKILL, which one that was stopped obeys too, and reaps it. A guard that somebody
//     else has killed, or that could not be made, changes nothing for the job.
#pragma once

#include <sys/types.h>

#include "system.hpp"

namespace ayatori::tool {

class Guard {
 public:
  Guard() = default;
  ~Guard();
  Guard(const Guard&) = delete;
  // Once, when the launcher's signals are taken: from then on only SIGKILL ends it without a word.
  void start();
  pid_t pid() const noexcept { return pid_; }  // -1: there is none

 private:
  Fd pipe_;  // the write end
  pid_t pid_ = -1;
};

}  // namespace ayatori::tool
