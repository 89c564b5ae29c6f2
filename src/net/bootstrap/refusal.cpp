// SPDX-License-Identifier: Apache-2.0
// The end of processes that cannot be one job where they were started (surroundings.hpp).
#include <limits.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/status.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "net/bootstrap/place.hpp"
#include "net/bootstrap/surroundings.hpp"

namespace ayatori::net::bootstrap {
namespace {

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

void hand_over_to_launcher() {
  const Surroundings around = surroundings();
  if (job().launched || around.starter != Starter::kPmix || around.processes == 1) return;
  char self[PATH_MAX];
  const ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
  if (bytes <= 0) refuse(around.process, "threads under PMIx need /proc, to start again under `ayatori`");
  self[bytes] = '\0';
  const std::string program(self);
  std::string beside = program.substr(0, program.rfind('/') + 1) + "ayatori";
  std::string word = "pmix-agent";
  // Not by main's arguments: an initialiser may have called that knows of none.
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string line(std::istreambuf_iterator<char>(file), {});
  std::vector<char*> arguments{beside.data(), word.data(), self};
  for (std::size_t at = 0; at < line.size(); at += std::strlen(line.data() + at) + 1)
    arguments.push_back(line.data() + at);
  arguments.push_back(nullptr);
  execv(beside.c_str(), arguments.data());
  std::string name = "ayatori";
  arguments[0] = name.data();
  execvp(name.c_str(), arguments.data());
  if (around.processes == 0) return;  // nobody tells how many there are: an environment that was inherited, perhaps
  refuse(around.process,
         base::formatted("this program was started under PMIx (mpirun, srun --mpi=pmix), where its threads need the "
                         "command `ayatori`, which is neither in {} nor in PATH on {}",
                         program.substr(0, program.rfind('/')), host_of_this_process()));
}

void refuse_several_machines() {
  if (job().launched) return;
  const Surroundings around = surroundings();
  if (around.starter == Starter::kSlurm || around.starter == Starter::kOther)
    refuse(around.process, refusal_without_pmix(around));
}

}  // namespace ayatori::net::bootstrap
