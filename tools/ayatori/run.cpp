// SPDX-License-Identifier: Apache-2.0
// `ayatori run`: options, the program, the job, the statistics.
#include <termios.h>
#include <unistd.h>

#include <csignal>

#include "commands.hpp"
#include "hosts.hpp"
#include "job.hpp"
#include "options.hpp"
#include "program.hpp"
#include "report.hpp"
#include "system.hpp"

namespace ayatori::tool {
namespace {

// gdb gives the terminal to the program and sets it to its taste; when it is killed with the job, we put it back.
class TerminalKeeper {
 public:
  explicit TerminalKeeper(bool keeps) : keeps_(keeps && tcgetattr(STDIN_FILENO, &attributes_) == 0) {}
  ~TerminalKeeper() {
    if (!keeps_) return;
    std::signal(SIGTTOU, SIG_IGN);  // we may be in the background
    tcsetpgrp(STDIN_FILENO, getpgrp());
    tcsetattr(STDIN_FILENO, TCSADRAIN, &attributes_);
  }
  TerminalKeeper(const TerminalKeeper&) = delete;

 private:
  termios attributes_{};
  const bool keeps_;
};

}  // namespace

int run_command(int argc, char** argv) {
  RunOptions options;
  if (const int status = parse_run_options(argc, argv, options); status >= 0) return status;
  if (!options.hosts.empty()) return HostsJob(options).run();
  Program program;
  if (const int status = find_program(options.command.front(), program)) return status;
  if (!program.linked && options.processes > 1)
    return fail(kExitStart, "{}: not linked with Ayatori, so it runs as one process only (-n {} was asked for)",
                program.path, options.processes);
  if (!program.linked && (options.stats || options.check))
    say(base::formatted("{}: not linked with Ayatori: --stats and --check have nothing to tell of it", program.path));
  if (options.stats && program.linked)
    if (const int status = check_stats_file(options.stats_file)) return status;

  const TerminalKeeper terminal(options.gdb);
  Job job(options, program);
  const int status = job.run();
  if (options.stats && program.linked && job.control() != nullptr) {
    const int failed = report_stats(stats_of(*job.control()), options.command.front(), options.stats_file);
    if (status == 0) return failed;
  }
  return status;
}

}  // namespace ayatori::tool
