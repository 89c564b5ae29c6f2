// SPDX-License-Identifier: Apache-2.0
// Options of `ayatori run`, checked against the knob table before anything starts. An option wins over its knob.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ayatori::tool {

// The hosts that an option names, and how they are reached.
struct Hosts {
  std::vector<std::string> hosts;     // empty: this machine
  std::string rsh;                    // the command that reaches one
  std::int64_t start_timeout_ns = 0;  // for hosts to answer
};

struct RunOptions : Hosts {
  int processes = 1;
  bool label = false;
  bool gdb = false;
  bool stats = false;
  bool check = false;
  std::string stats_file;                                        // empty: a table on standard error
  std::vector<std::pair<std::string, std::string>> environment;  // knobs for the members
  std::vector<std::string> command;                              // PROGRAM ARGS...
};

// From the values of --hosts and --rsh, or nullptr where they were not given: then from their knobs. 0, or an exit status
// after a line.
int take_hosts(const std::string* hosts, const std::string* rsh, Hosts& result);

// The knobs that this environment sets, but the launcher's own.
std::vector<std::pair<std::string, std::string>> knobs_of_environment();

// Knobs that members do not get.
bool is_launchers_own(std::string_view knob) noexcept;

// -1: go on; otherwise the exit status of the launcher (help, or an error that was told).
int parse_run_options(int argc, char** argv, RunOptions& options);

}  // namespace ayatori::tool
