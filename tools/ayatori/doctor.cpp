// SPDX-License-Identifier: Apache-2.0
#include "doctor.hpp"

#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "system.hpp"
#include "usage.hpp"

namespace ayatori::tool {
namespace {

constexpr int kExitProblem = 1;
constexpr int kExitUsage = 2;

constexpr const char* kFooter =
    "\nChecks fault engines, limits, memory, transports, launchers and addresses of this machine, and PROGRAM. With\n"
    "--hosts the same on every host, reached as `ayatori run --hosts` reaches it (knobs AYATORI_HOSTS, AYATORI_RSH);\n"
    "then, whether the same ayatori and PROGRAM lie there and whether the hosts reach each other. Each line is marked "
    "ok,\n"
    "warning (jobs run, but ...) or problem, the last two with what to do. With --hosts the lines of a host that are "
    "ok\n"
    "are only counted; --json has all.\n"
    "Exit status: 0 no problem, 1 a problem, 2 wrong options.\n";

}  // namespace

int doctor_command(int argc, char** argv) {
  bool json = false;
  std::string hosts, rsh, program;
  CLI::App app("Is anything wrong with this machine, or between hosts, and what to do about it?");
  app.name("ayatori doctor");
  app.formatter(
      std::make_shared<UsageFormatter>("ayatori doctor [--json] [--hosts A,B,... [--rsh COMMAND]] [PROGRAM]"));
  app.footer(kFooter);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_flag("--json", json, "all findings, for scripts");
  const auto* const h =
      app.add_option("--hosts", hosts, "examine these hosts instead of this machine")->type_name("A,B,...");
  const auto* const r =
      app.add_option("--rsh", rsh, "how a host is reached (default: ssh); {host} and {command} in it are replaced")
          ->type_name("COMMAND");
  app.add_option("PROGRAM", program, "a program to be run: is it there, and the same on all hosts?");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    return fail(kExitUsage, "doctor: {} (`ayatori doctor --help`)", error.what());
  }
  Hosts named;
  if (take_hosts(*h ? &hosts : nullptr, *r ? &rsh : nullptr, named) != 0) return kExitUsage;
  if (named.hosts.empty() && *r) return fail(kExitUsage, "doctor: --rsh is for --hosts");

  Diagnosis diagnosis;
  if (named.hosts.empty())
    diagnosis.hosts.push_back(examine("", program));
  else
    diagnosis = examine_hosts(named, program);
  std::fputs((json ? json_of(diagnosis) : text_of(diagnosis, named.hosts.empty())).c_str(), stdout);
  return diagnosis.count(Mark::kProblem) != 0 ? kExitProblem : 0;
}

}  // namespace ayatori::tool
