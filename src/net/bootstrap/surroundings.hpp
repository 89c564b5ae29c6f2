// SPDX-License-Identifier: Apache-2.0
// Who started this process when `ayatori run` did not: told by the environment, which every such launcher sets. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace ayatori::net::bootstrap {

enum class Starter {
  kNobody,
  kPmix,   // a PMIx server: srun --mpi=pmix, Open MPI's mpirun
  kSlurm,  // several tasks of srun, without PMIx: they cannot find each other
  kOther,  // several processes of another launcher, without PMIx
};

struct Surroundings {
  Starter starter = Starter::kNobody;
  int processes = 1;  // 0: not told
  int process = 0;
};
Surroundings surroundings();

// Why processes without PMIx cannot be one job, and what to do: one line.
std::string refusal_without_pmix(const Surroundings& around);

// Start-up failed: ends the process with 125 and the line, with a launcher the job. Where all processes would say the same, only
// process 0 does.
[[noreturn]] void end_unjoined(std::string_view why);

// Before anything of the job is made, in a program with threads: one of several processes under PMIx becomes `ayatori
// pmix-agent`, which joins and starts the program again in the way that threads need (likeness.hpp). Does not return then.
void hand_over_to_launcher();

// On entering ayatori::run: ends this process with 125, and a line of process 0, when it is one of several that cannot find
// each other.
void refuse_several_machines();

}  // namespace ayatori::net::bootstrap
