// SPDX-License-Identifier: Apache-2.0
// `ayatori dump JOB`: asks a running job where its threads stand. A job is found by its launcher, which keeps the
// control memory open under a name of its own; the launcher hands SIGQUIT on to the members that are inside the run.
// A program without a launcher gets the signal itself, if it is one of ours and has its handler in place.
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string>

#include "commands.hpp"
#include "net/bootstrap/job_control.hpp"
#include "proc.hpp"
#include "program.hpp"
#include "system.hpp"

namespace ayatori::tool {
namespace {

namespace boot = net::bootstrap;

constexpr int kGenerationsMax = 4;  // member, debugger, launcher

// Is `pid` the launcher of a job? Then its control memory, read once, is copied.
bool read_control(pid_t pid, int& processes, int& running) {
  const std::string folder = proc_path(pid, "fd");
  DIR* const entries = opendir(folder.c_str());
  if (entries == nullptr) return false;
  const std::string name = base::formatted("/memfd:{}", boot::kControlName);
  bool found = false;
  while (const dirent* const entry = readdir(entries)) {
    const std::string path = folder + "/" + entry->d_name;
    char target[256];
    const ssize_t bytes = readlink(path.c_str(), target, sizeof target);
    if (bytes <= 0 || !std::string_view(target, static_cast<std::size_t>(bytes)).starts_with(name)) continue;
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    boot::JobControl control;
    if (!fd || pread(fd.get(), &control, sizeof control, 0) != static_cast<ssize_t>(sizeof control)) continue;
    if (control.magic != boot::kMagic || control.version != boot::kVersion || control.launcher_pid != pid) continue;
    found = true;
    processes = control.process_count;
    running = 0;
    for (int process = 0; process < processes && process < boot::kMaxProcesses; ++process)
      if (control.members[process].phase.load() == static_cast<std::uint32_t>(boot::Phase::kRunning) &&
          catches(control.members[process].pid.load(), SIGQUIT))
        ++running;
    break;
  }
  closedir(entries);
  return found;
}

int send_request(pid_t pid) {
  if (kill(pid, SIGQUIT) == 0) return 0;
  return fail(kExitStart, "dump: process {}: {}", pid, error_text(errno));
}

int dump(pid_t job) {
  if (kill(job, 0) != 0 && errno == ESRCH) return fail(kExitStart, "dump: there is no process {}", job);
  pid_t pid = job;
  for (int generation = 0; generation < kGenerationsMax && pid > 1; ++generation, pid = parent_of(pid)) {
    int processes = 0;
    int running = 0;
    if (!read_control(pid, processes, running)) continue;
    if (running == 0) return fail(kExitStart, "dump: no process of job {} is inside ayatori::run now", pid);
    if (const int status = send_request(pid)) return status;
    std::fprintf(stderr, "ayatori: asked %d of %d processes of job %d; the answers go to the job's standard error\n",
                 running, processes, pid);
    return 0;
  }
  if (access(proc_path(job, "exe").c_str(), R_OK) != 0)
    return fail(kExitStart, "dump: process {} cannot be looked at: {}", job, error_text(errno));
  if (!is_linked_with_ayatori(proc_path(job, "exe")))
    return fail(kExitStart, "dump: process {} is neither the launcher nor a member of a job", job);
  if (!catches(job, SIGQUIT)) return fail(kExitStart, "dump: process {} is not inside ayatori::run now", job);
  if (const int status = send_request(job)) return status;
  std::fprintf(stderr, "ayatori: asked process %d; the answer goes to its standard error\n", job);
  return 0;
}

}  // namespace

int dump_command(int argc, char** argv) {
  const std::string_view word = argc == 2 ? argv[1] : "";
  if (word == "--help" || word == "-h") {
    std::puts(
        "Usage: ayatori dump JOB\n\nHas every process of a running job print where each of its threads stands, and "
        "which wait for\n"
        "each other in a cycle, to the job's standard error; the job goes on. JOB is the process id of the launcher or "
        "of\n"
        "any member.");
    return 0;
  }
  pid_t job = 0;
  const auto result = std::from_chars(word.data(), word.data() + word.size(), job);
  if (word.empty() || result.ec != std::errc{} || result.ptr != word.data() + word.size() || job <= 0)
    return fail(kExitStart, "dump: JOB must be a process id (`ayatori dump --help`)");
  return dump(job);
}

}  // namespace ayatori::tool
