// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "base/format.hpp"
#include "doctor.hpp"

namespace ayatori::tool {
namespace {

using Reports = std::vector<HostReport>;

void append(std::string& list, std::string_view word) {
  if (!list.empty()) list += ", ";
  list += word;
}

// A line for what should be the same everywhere; `shown`: how much of a value is printed.
Check check_equal(std::string name, const Reports& hosts, std::string HostReport::* field, Mark otherwise,
                  std::string advice, std::size_t shown = std::string::npos) {
  std::map<std::string, std::string> groups;  // value, its hosts
  for (const HostReport& host : hosts)
    if (!host.version.empty()) append(groups[host.*field], host.name);
  std::string value;
  for (const auto& [text, names] : groups) {
    const std::string text_shown = text.empty() ? "none" : text.substr(0, shown);
    value += groups.size() == 1 ? text_shown + " everywhere"
                                : base::formatted("{}{} on {}", value.empty() ? "" : "; ", text_shown, names);
  }
  if (groups.size() <= 1) return fine(std::move(name), std::move(value));
  return {std::move(name), otherwise, std::move(value), otherwise == Mark::kOk ? "" : std::move(advice)};
}

bool any_answered(const Reports& hosts) {
  return std::any_of(hosts.begin(), hosts.end(), [](const HostReport& host) { return !host.version.empty(); });
}

}  // namespace

std::vector<Check> compare(const Reports& hosts, const std::string& program) {
  constexpr std::size_t kHashShown = 12;
  std::vector<Check> checks;
  if (!any_answered(hosts)) return checks;
  checks.push_back(check_equal("version", hosts, &HostReport::version, Mark::kProblem,
                               "Install one version of Ayatori on all hosts."));
  checks.push_back(check_equal("ayatori", hosts, &HostReport::binary, Mark::kProblem,
                               "Install the same build of `ayatori` on all hosts, at the same path.", kHashShown));
  if (!program.empty())
    checks.push_back(check_equal("program", hosts, &HostReport::program, Mark::kProblem,
                                 "Copy one build of " + program + " to all hosts, at the same path.", kHashShown));
  checks.push_back(check_equal("kernel", hosts, &HostReport::kernel, Mark::kOk, ""));
  checks.push_back(check_equal("fault engine", hosts, &HostReport::engine, Mark::kWarning,
                               "Permit userfaultfd on all hosts, or expect unequal costs of faults."));
  checks.push_back(check_equal("CPU features", hosts, &HostReport::diffs, Mark::kWarning,
                               "Use hosts with equal CPUs, or expect unequal costs of diffs."));
  return checks;
}

bool share_loopback(const Reports& hosts) {
  const std::string* place = nullptr;
  for (const HostReport& host : hosts) {
    if (host.version.empty()) continue;
    if (place != nullptr && host.place != *place) return false;
    place = &host.place;
  }
  return true;
}

std::vector<Check> judge_reach(const Reports& hosts, bool loopback, const std::vector<std::vector<std::string>>& whys) {
  constexpr const char* kName = "connections";
  std::vector<Check> checks;
  int tried = 0;
  int made = 0;
  for (std::size_t to = 0; to < hosts.size(); ++to) {
    if (hosts[to].version.empty()) continue;
    const std::string address = loopback ? "loopback" : hosts[to].address;
    if (address.empty()) {
      checks.push_back(problem(kName, base::formatted("{} has no address that others reach", hosts[to].name),
                               "Connect it to the network of the other hosts."));
      continue;
    }
    std::string from_hosts, why;
    for (std::size_t from = 0; from < whys.size(); ++from) {
      if (from == to || whys[from].size() != hosts.size()) continue;
      ++tried;
      made += whys[from][to].empty() ? 1 : 0;
      if (whys[from][to].empty()) continue;
      append(from_hosts, hosts[from].name);
      why = whys[from][to];
    }
    if (!from_hosts.empty())
      checks.push_back(
          problem(kName, base::formatted("{} at {} is not reached by {}: {}", hosts[to].name, address, from_hosts, why),
                  "Open the firewall between them for the ports of net.ipv4.ip_local_port_range, or choose a "
                  "network that all have by AYATORI_NET_INTERFACE."));
  }
  if (checks.empty() && tried != 0)
    checks.push_back(fine(kName, base::formatted("{} of {} made{}", made, tried, loopback ? ", by loopback" : "")));
  return checks;
}

}  // namespace ayatori::tool
