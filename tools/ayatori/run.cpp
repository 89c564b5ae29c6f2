// SPDX-License-Identifier: Apache-2.0
// `ayatori run`: options, the program, the job, the statistics.
#include "commands.hpp"
#include "job.hpp"
#include "options.hpp"
#include "program.hpp"
#include "report.hpp"
#include "system.hpp"

namespace ayatori::tool {

int run_command(int argc, char** argv) {
  RunOptions options;
  if (const int status = parse_run_options(argc, argv, options); status >= 0) return status;
  Program program;
  if (const int status = find_program(options.command.front(), program)) return status;
  if (!program.linked && options.processes > 1)
    return fail(kExitStart, "{}: not linked with Ayatori, so it runs as one process only (-n {} was asked for)",
                program.path, options.processes);
  if (options.stats)
    if (const int status = check_stats_file(options.stats_file)) return status;

  Job job(options, program);
  const int status = job.run();
  if (options.stats && program.linked && job.control() != nullptr) {
    const int failed = report_stats(*job.control(), options.command.front(), options.stats_file);
    if (status == 0) return failed;
  }
  return status;
}

}  // namespace ayatori::tool
