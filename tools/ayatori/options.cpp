// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/clock.hpp"
#include "base/knobs.hpp"
#include "net/bootstrap/job_control.hpp"
#include "system.hpp"
#include "usage.hpp"

namespace ayatori::tool {
namespace {

constexpr const char* kFooter =
    "\nOptions end at PROGRAM: what follows is the program's. Each option has a knob in the environment "
    "(AYATORI_PROCESSES,\n"
    "AYATORI_WORKERS, AYATORI_STATS, AYATORI_LABEL, AYATORI_TRANSPORT, AYATORI_ENGINE, AYATORI_CHECK, AYATORI_HOSTS,\n"
    "AYATORI_RSH); the option wins.\n"
    "Exit status: the program's; 128+S when a process was killed by signal S; 130, 143, 129 after SIGINT, SIGTERM, "
    "SIGHUP;\n"
    "125 when start-up failed, 126 when PROGRAM is not executable, 127 when it is not found.";

bool parse_processes(const std::string& text, int& processes) {
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, processes);
  return result.ec == std::errc{} && result.ptr == end && processes >= 1 && processes <= net::bootstrap::kMaxProcesses;
}

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// "a,b,c"; false after a line: a name could be an option of the command that gets it.
bool parse_hosts(std::string_view text, std::vector<std::string>& hosts) {
  while (true) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string name(text.substr(0, end));
    const bool plain =
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:@%") == name.npos;
    if (name.empty() || name.front() == '-' || !plain) {
      say(base::formatted("--hosts: '{}' is not the name of a host", name));
      return false;
    }
    hosts.push_back(name);
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

// Can this be one job of several hosts? -1, or an exit status after a line.
int check_wide(bool counted, RunOptions& options) {
  const auto count = static_cast<int>(options.hosts.size());
  if (!counted) options.processes = count;
  if (options.processes < count)
    return fail(kExitStart, "-n {}: each of the {} hosts has one process at least", options.processes, count);
  if (options.gdb || options.check)
    return fail(kExitStart, "--gdb and --check work on one machine only, not with --hosts");
  return -1;
}

bool is_on(const std::string& text) { return text == "1" || text == "on" || text == "yes" || text == "true"; }

// Adds the knob to the members' environment. False after a line on standard error.
bool set_member_knob(RunOptions& options, const char* option, const char* knob, const std::string& value) {
  if (const base::Knob* row = base::find_knob(knob)) {
    if (const base::Status status = base::check_knob_value(*row, value); !status.ok()) {
      say(base::formatted("{} {}: takes {}", option, value, base::knob_range_text(*row)));
      return false;
    }
  }
  options.environment.emplace_back(knob, value);
  return true;
}

}  // namespace

int take_hosts(const std::string* hosts, const std::string* rsh, Hosts& result) {
  const std::string names = hosts != nullptr ? *hosts : environment("AYATORI_HOSTS");
  if (names.empty()) return 0;
  if (!parse_hosts(names, result.hosts)) return kExitStart;
  if (result.hosts.size() > net::bootstrap::kMaxProcesses)
    return fail(kExitStart, "--hosts: {} hosts; a job has {} processes at most", result.hosts.size(),
                net::bootstrap::kMaxProcesses);
  result.rsh = rsh != nullptr ? *rsh : environment("AYATORI_RSH");
  if (result.rsh.empty()) result.rsh = base::find_knob("AYATORI_RSH")->default_text;
  if (result.rsh.find("{host}") == std::string::npos || result.rsh.find("{command}") == std::string::npos)
    return fail(kExitStart, "--rsh: the command has no {{host}} or no {{command}} in it: {}", result.rsh);
  if (const base::Status knobs = base::load_knobs(); !knobs.ok()) return fail(kExitStart, "{}", knobs.message());
  result.start_timeout_ns = base::knob_int("AYATORI_START_TIMEOUT") * base::kNsPerSecond;
  return 0;
}

int parse_run_options(int argc, char** argv, RunOptions& options) {
  std::string processes;
  std::string workers;
  std::string transport;
  std::string engine;
  std::string stats;
  std::string hosts;
  std::string rsh;

  CLI::App app("Run PROGRAM as one job of several processes, on this machine or on several hosts");
  app.name("ayatori run");
  app.formatter(std::make_shared<UsageFormatter>("ayatori run [OPTIONS] [--] PROGRAM ARGS..."));
  app.footer(kFooter);
  app.prefix_command();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const auto* const n = app.add_option("-n,--processes", processes,
                                       base::formatted("processes, 1..{} (default: 1)", net::bootstrap::kMaxProcesses))
                            ->type_name("PROCESSES");
  const auto* const w = app.add_option("-w,--workers", workers, "workers a process; 0, the default: CPUs / processes")
                            ->type_name("WORKERS");
  const auto* const s =
      app.add_flag("--stats", stats, "[=FILE.json]  counters at the end: a table on standard error, or JSON into FILE");
  app.add_flag("--label", options.label, "prefix each line of output with its process: [P]");
  const auto* const t = app.add_option("--transport", transport, "how processes talk")->type_name("NAME");
  const auto* const e =
      app.add_option("--engine", engine, "how remote accesses are caught")->type_name("auto|uffd|mprotect");
  const auto* const h =
      app.add_option("--hosts", hosts, "run on these hosts, with a process on each or -n dealt out in blocks")
          ->type_name("A,B,...");
  const auto* const r =
      app.add_option("--rsh", rsh, "how a host is reached (default: ssh); {host} and {command} in it are replaced")
          ->type_name("COMMAND");
  app.add_flag("--gdb", options.gdb, "run process 0 under gdb");
  app.add_flag("--check", options.check,
               "at the end, name globals that the processes changed differently and C/C++ library locks in the space");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    return fail(kExitStart, "run: {}", error.what());
  }

  options.command = app.remaining();
  const bool marked = !options.command.empty() && options.command.front() == "--";
  if (marked) options.command.erase(options.command.begin());
  if (options.command.empty()) return fail(kExitStart, "run: PROGRAM is missing (`ayatori run --help`)");
  if (!marked && options.command.front().starts_with('-') && options.command.front() != "-")
    return fail(kExitStart, "run: unknown option {} (`ayatori run --help`)", options.command.front());

  bool counted = true;
  if (*n) {
    if (!parse_processes(processes, options.processes))
      return fail(kExitStart, "-n {}: the number of processes must be 1..{}", processes, net::bootstrap::kMaxProcesses);
  } else if (const std::string knob = environment("AYATORI_PROCESSES"); !knob.empty()) {
    if (!parse_processes(knob, options.processes))
      return fail(kExitStart, "AYATORI_PROCESSES={}: the number of processes must be 1..{}", knob,
                  net::bootstrap::kMaxProcesses);
  } else {
    counted = false;
  }
  if (*w && !set_member_knob(options, "-w", "AYATORI_WORKERS", workers)) return kExitStart;
  if (*t && !set_member_knob(options, "--transport", "AYATORI_TRANSPORT", transport)) return kExitStart;
  if (*e && !set_member_knob(options, "--engine", "AYATORI_ENGINE", engine)) return kExitStart;
  if (options.check) options.environment.emplace_back("AYATORI_CHECK", "1");
  if (!options.label) options.label = is_on(environment("AYATORI_LABEL"));

  if (!*s) stats = environment("AYATORI_STATS");
  if (!stats.empty()) {
    options.stats = true;
    options.stats_file = stats == "true" || stats == "-" ? "" : stats;
    options.environment.emplace_back("AYATORI_STATS", options.stats_file.empty() ? "-" : options.stats_file);
  }
  if (const int status = take_hosts(*h ? &hosts : nullptr, *r ? &rsh : nullptr, options); status != 0) return status;
  return options.hosts.empty() ? -1 : check_wide(counted, options);
}

std::vector<std::pair<std::string, std::string>> knobs_of_environment() {
  std::vector<std::pair<std::string, std::string>> knobs;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (name.size() < text.size() && base::find_knob(name) != nullptr && !is_launchers_own(name))
      knobs.emplace_back(name, text.substr(name.size() + 1));
  }
  return knobs;
}

bool is_launchers_own(std::string_view knob) noexcept {
  for (const std::string_view own : {"AYATORI_PROCESSES", "AYATORI_HOSTS", "AYATORI_RSH"})
    if (knob == own) return true;
  return false;
}

}  // namespace ayatori::tool
