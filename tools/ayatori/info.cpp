// SPDX-License-Identifier: Apache-2.0
// `ayatori info`: version, what the machine offers, the knobs with the values in force.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/knobs.hpp"
#include "base/status.hpp"
#include "base/topology.hpp"
#include "commands.hpp"
#include "machine.hpp"
#include "net/bootstrap/job_control.hpp"
#include "system.hpp"

namespace ayatori::tool {
namespace {

using Json = nlohmann::ordered_json;

Json offer_json(const Offer& offer) {
  Json json = {{"available", offer.available}};
  if (!offer.available) json["why"] = offer.why;
  return json;
}

// Where workers would run by the knobs in force, if they were bound (AYATORI_BIND) and the job were alone.
struct Places {
  base::Topology topology;
  int processes = 1, workers = 1;
  std::vector<int> cpus;
};
Places look_at_places() {
  Places p;
  p.topology = base::look_at_topology();
  p.processes = static_cast<int>(base::knob_int("AYATORI_PROCESSES"));
  p.workers = static_cast<int>(base::knob_int("AYATORI_WORKERS"));
  if (p.workers == 0) p.workers = std::max(1, static_cast<int>(p.topology.cpus.size()) / p.processes);
  p.cpus = base::place_workers(p.topology.cpus, p.processes, p.workers);
  return p;
}

template <class Field>
int count_of(const std::vector<base::Cpu>& cpus, Field field) {
  std::set<int> seen;
  for (const base::Cpu& cpu : cpus) seen.insert(cpu.*field);
  return static_cast<int>(seen.size());
}

Json places_json(const Places& p) {
  Json json = {{"source", p.topology.source}, {"cpus", Json::array()}, {"places", Json::array()}};
  for (const base::Cpu& cpu : p.topology.cpus)
    json["cpus"].push_back({{"number", cpu.number}, {"package", cpu.package}, {"node", cpu.node}, {"core", cpu.core}});
  for (std::size_t i = 0; i < p.cpus.size(); ++i)
    json["places"].push_back({{"process", static_cast<int>(i) / p.workers},
                              {"worker", static_cast<int>(i) % p.workers},
                              {"cpu", p.cpus[i]}});
  return json;
}

void print_json(const Machine& machine) {
  Json json = {{"schema", 1},
               {"version", AYATORI_VERSION},
               {"kernel", machine.kernel},
               {"cpu", machine.cpu},
               {"cpus_online", machine.cpus_online},
               {"cpus_usable", machine.cpus_usable},
               {"topology", places_json(look_at_places())},
               {"memory_bytes", machine.memory_bytes},
               {"memory_available_bytes", machine.memory_available_bytes},
               {"processes_max", net::bootstrap::kMaxProcesses},
               {"engine_auto", default_engine(machine)},
               {"engines", {{"uffd", offer_json(machine.uffd)}, {"mprotect", offer_json(machine.mprotect)}}},
               {"memfd", offer_json(machine.memfd)},
               {"syscall_user_dispatch", offer_json(machine.syscall_dispatch)},
               {"vm.max_map_count", machine.max_map_count},
               {"vm.overcommit_memory", machine.overcommit_memory},
               {"vm.unprivileged_userfaultfd", machine.unprivileged_userfaultfd},
               {"limits", Json::object()},
               {"knobs", Json::array()}};
  for (const Limit& limit : machine.limits)
    json["limits"][limit.name] = {{"soft", limit_text(limit.soft)}, {"hard", limit_text(limit.hard)}};
  for (const base::Knob& knob : base::knob_table())
    json["knobs"].push_back({{"name", knob.name},
                             {"value", base::knob_value_text(knob)},
                             {"default", knob.default_text},
                             {"unit", knob.unit},
                             {"range", base::knob_range_text(knob)},
                             {"help", knob.help}});
  std::puts(json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

std::string offer_text(const Offer& offer) { return offer.available ? "available" : "not available: " + offer.why; }

void print_text(const Machine& machine) {
  std::string text = base::formatted("ayatori {}\n\n", AYATORI_VERSION);
  const auto line = [&text](std::string_view name, std::string_view value) {
    text += base::formatted("  {:<28}{}\n", name, value);
  };
  constexpr std::uint64_t kMi = 1u << 20;
  text += "Machine\n";
  line("kernel", machine.kernel);
  line("CPU", machine.cpu);
  line("CPUs", base::formatted("{} online, {} usable by this process", machine.cpus_online, machine.cpus_usable));
  line("memory",
       base::formatted("{} MiB, {} MiB available", machine.memory_bytes / kMi, machine.memory_available_bytes / kMi));
  line("processes of a job", base::formatted("1..{}", net::bootstrap::kMaxProcesses));
  text += "\nPlaces of workers\n";
  const Places places = look_at_places();
  const std::vector<base::Cpu>& cpus = places.topology.cpus;
  line("CPUs usable", base::formatted("{} in {} cores, {} NUMA nodes, {} packages (by {})", cpus.size(),
                                      count_of(cpus, &base::Cpu::core), count_of(cpus, &base::Cpu::node),
                                      count_of(cpus, &base::Cpu::package), places.topology.source));
  line("AYATORI_BIND", base::knob_string("AYATORI_BIND"));
  line("if bound", base::formatted("{} process{} x {} worker{}, alone on the machine:", places.processes,
                                   places.processes == 1 ? "" : "es", places.workers, places.workers == 1 ? "" : "s"));
  std::size_t place = 0;  // process by process
  for (int p = 0; p < places.processes && !places.cpus.empty(); ++p) {
    std::string numbers;
    for (int w = 0; w < places.workers; ++w) numbers += base::formatted(" {}", places.cpus[place++]);
    line(base::formatted("  process {}", p), "CPU" + numbers);
  }
  text += "\nFault engines\n";
  line("uffd", offer_text(machine.uffd));
  line("mprotect", offer_text(machine.mprotect));
  line("auto takes", default_engine(machine));
  text += "\nKernel\n";
  line("memfd", offer_text(machine.memfd));
  line("syscall user dispatch", offer_text(machine.syscall_dispatch));
  line("vm.max_map_count", machine.max_map_count);
  line("vm.overcommit_memory", machine.overcommit_memory);
  if (!machine.unprivileged_userfaultfd.empty()) line("vm.unprivileged_userfaultfd", machine.unprivileged_userfaultfd);
  text += "\nLimits (soft, hard)\n";
  for (const Limit& limit : machine.limits) line(limit.name, limit_text(limit.soft) + ", " + limit_text(limit.hard));
  text += "\nKnobs (environment variables; * differs from the default)\n";
  for (const base::Knob& knob : base::knob_table()) {
    const std::string value = base::knob_value_text(knob);
    text += base::formatted("  {:<22}{}{:<16} {} ({}{}{})\n", knob.name, value == knob.default_text ? " " : "*",
                            value.empty() ? "(unset)" : value, knob.help, base::knob_range_text(knob),
                            *knob.unit != '\0' ? "; " : "", knob.unit);
  }
  std::fputs(text.c_str(), stdout);
}

}  // namespace

int info_command(int argc, char** argv) {
  const std::string_view word = argc == 2 ? argv[1] : "";
  if (word == "--help" || word == "-h") {
    std::puts("Usage: ayatori info [--json]\n\nVersion, what this machine offers, and the knobs with their values.");
    return 0;
  }
  if (argc > 2 || (argc == 2 && word != "--json"))
    return fail(kExitStart, "info: unknown option {} (`ayatori info --help`)", argv[argc - 1]);
  const base::Status knobs = base::load_knobs();
  if (!knobs.ok()) say(knobs.message());  // the defaults are shown
  const Machine machine = look_at_machine();
  if (word == "--json") {
    print_json(machine);
  } else {
    print_text(machine);
  }
  return knobs.ok() ? 0 : kExitStart;
}

}  // namespace ayatori::tool
