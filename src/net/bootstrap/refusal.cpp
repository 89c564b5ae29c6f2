// SPDX-License-Identifier: Apache-2.0
// The end of processes that cannot be one job where they were started (surroundings.hpp).
#include <time.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/status.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "net/bootstrap/pmix.hpp"
#include "net/bootstrap/surroundings.hpp"

namespace ayatori::net::bootstrap {
namespace {

constexpr std::int64_t kAskNs = 5 * base::kNsPerSecond;
constexpr std::int64_t kLineNs = base::kNsPerSecond;  // in which process 0 says why

// All processes would say the same: process 0 does.
[[noreturn]] void refuse(int process, std::string_view why) {
  if (process == 0) end_job(base::kStartFailureExit, why);
  const timespec nap{kLineNs / base::kNsPerSecond, 0};  // whoever ends first may take the others with it
  nanosleep(&nap, nullptr);
  _exit(base::kStartFailureExit);
}

}  // namespace

void end_unjoined(std::string_view why) {
  const Surroundings around = surroundings();
  const bool alone = !job().launched && (around.starter == Starter::kSlurm || around.starter == Starter::kOther);
  refuse(alone ? around.process : 0, why);
}

void refuse_several_machines() {
  constexpr const char* kInstead =
      "the threads of ayatori::run share the memory of one machine so far: use `ayatori run -n N`";
  const Job& job = bootstrap::job();
  if (job.launched) {
    if ((job.control->flags & kWide) != 0)
      end_job(base::kStartFailureExit, base::formatted("this job has several hosts, and {} there", kInstead));
    return;
  }
  Surroundings around = surroundings();
  switch (around.starter) {
    case Starter::kNobody: return;
    case Starter::kPmix:
      // A server that does not answer belongs to somebody else, whose environment was inherited.
      if (around.processes == 0 && !ask_pmix_size(kAskNs, &around.processes).ok()) return;
      if (around.processes <= 1) return;
      refuse(around.process, base::formatted("this job has {} processes under PMIx (mpirun, srun --mpi=pmix), and {}",
                                             around.processes, kInstead));
    case Starter::kSlurm:
    case Starter::kOther: refuse(around.process, base::formatted("{}; but {}", refusal_without_pmix(around), kInstead));
  }
}

}  // namespace ayatori::net::bootstrap
