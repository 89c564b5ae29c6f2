// SPDX-License-Identifier: Apache-2.0
#include "net/bootstrap/surroundings.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "base/format.hpp"

namespace ayatori::net::bootstrap {
namespace {

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

}  // namespace ayatori::net::bootstrap
