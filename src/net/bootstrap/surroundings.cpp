// SPDX-License-Identifier: Apache-2.0
#include "net/bootstrap/surroundings.hpp"

#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/knobs.hpp"
#include "base/status.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "net/bootstrap/pmix.hpp"

namespace ayatori::net::bootstrap {
namespace {

constexpr std::int64_t kAskNs = 5 * base::kNsPerSecond;
constexpr std::int64_t kLineNs = base::kNsPerSecond;  // in which process 0 says why

// The first of these variables that is a number; -1: none is.
int number_in(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const text = std::getenv(name);
    if (text == nullptr) continue;
    int number = 0;
    const auto result = std::from_chars(text, text + std::strlen(text), number);
    if (result.ec == std::errc{} && *result.ptr == '\0' && number >= 0) return number;
  }
  return -1;
}

// All processes would say the same: process 0 does.
[[noreturn]] void refuse(int process, std::string_view why) {
  if (process == 0) end_job(base::kStartFailureExit, why);
  const timespec nap{kLineNs / base::kNsPerSecond, 0};  // whoever ends first may take the others with it
  nanosleep(&nap, nullptr);
  _exit(base::kStartFailureExit);
}

}  // namespace

Surroundings surroundings() {
  Surroundings around;
  const int slurm = number_in({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  const int other = number_in({"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"});
  const int process = number_in({"PMIX_RANK", "SLURM_PROCID", "PMI_RANK"});
  if (process > 0) around.process = process;
  if (std::getenv("PMIX_NAMESPACE") != nullptr && std::getenv("PMIX_RANK") != nullptr) {
    const int told = number_in({"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"});
    around.starter = Starter::kPmix;
    around.processes = told > 0 ? told : 0;
  } else if (slurm > 1) {
    around.starter = Starter::kSlurm;
    around.processes = slurm;
  } else if (other > 1) {
    around.starter = Starter::kOther;
    around.processes = other;
  }
  return around;
}

std::string refusal_without_pmix(const Surroundings& around) {
  if (around.starter == Starter::kSlurm)
    return base::formatted(
        "Slurm gives this job {} tasks, but no PMIx by which they find each other: start it with `srun --mpi=pmix` "
        "(`srun --mpi=list` shows whether this Slurm has it)",
        around.processes);
  return base::formatted(
      "a launcher started {} processes without PMIx, by which they find each other: start them with `srun --mpi=pmix`, "
      "Open MPI's mpirun or `ayatori run --hosts`",
      around.processes);
}

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
