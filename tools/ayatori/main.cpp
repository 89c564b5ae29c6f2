// SPDX-License-Identifier: Apache-2.0
// `ayatori COMMAND ...`: picks the command. Each command has its own option parser, so that nothing of a program's
// arguments can be taken for a command or an option of ours.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "commands.hpp"
#include "system.hpp"

#ifndef AYATORI_VERSION
#error "the build defines AYATORI_VERSION"
#endif

namespace ayatori::tool {

std::string own_folder() {
  char room[4096];
  const ssize_t bytes = readlink("/proc/self/exe", room, sizeof room);
  if (bytes <= 0) return {};
  const std::string path(room, static_cast<std::size_t>(bytes));
  return path.substr(0, path.rfind('/'));
}

namespace {

constexpr const char* kHelp =
    "ayatori: fork-join programs over several processes on one shared memory\n"
    "\n"
    "  ayatori run [-n PROCESSES] [-w WORKERS] [OPTIONS] [--] PROGRAM ARGS...   run a program\n"
    "  ayatori run --hosts A,B,... [-n PROCESSES] [--] PROGRAM ARGS...          the same on several hosts\n"
    "  ayatori info [--json]                       what this machine offers, knobs and their values\n"
    "  ayatori doctor [--hosts A,B,...] [PROGRAM]  is anything wrong here, or between hosts, and what to do\n"
    "  ayatori bench [NAME] [--json=FILE]          measure the runtime\n"
    "  ayatori bench net [OPTIONS]                 measure the transports between processes\n"
    "  ayatori dump JOB                            have a running job say where its threads stand\n"
    "  ayatori --version\n"
    "\n"
    "`ayatori COMMAND --help` tells more. A program started without `ayatori run` is a job of one process.\n";

struct Command {
  std::string_view name;
  int (*run)(int argc, char** argv);
};
constexpr Command kCommands[] = {{"run", run_command},          {"info", info_command},
                                 {"bench", bench_command},      {"dump", dump_command},
                                 {"doctor", doctor_command},    {"doctor-agent", doctor_agent_command},
                                 {"host-agent", agent_command}, {"pmix-agent", pmix_agent_command}};

int dispatch(int argc, char** argv) {
  if (argc < 2) {
    std::fputs(kHelp, stderr);
    return kExitStart;
  }
  const std::string_view word = argv[1];
  if (word == "--help" || word == "-h" || word == "help") {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (word == "--version" || word == "-V") {
    std::printf("ayatori %s\n", AYATORI_VERSION);
    return 0;
  }
  for (const Command& command : kCommands)
    if (word == command.name) return command.run(argc - 1, argv + 1);
  return fail(kExitStart, "unknown {} '{}': `ayatori --help` lists the commands",
              word.starts_with('-') ? "option" : "command", word);
}

}  // namespace
}  // namespace ayatori::tool

int main(int argc, char** argv) {
  const int status = ayatori::tool::dispatch(argc, argv);
  // Output that could not be written is no success; a closed standard output that nothing was written to is none of
  // our business.
  if (std::fflush(stdout) != 0 && status == 0) return ayatori::tool::kExitStart;
  return status;
}
