// SPDX-License-Identifier: Apache-2.0
// `ayatori doctor`: checks what a machine offers and says what to change; with --hosts the same on each host, and what must be
// equal between them. One thread.
//
// D1. Every wait has an end: questions to libraries and commands are asked in child processes (child.hpp), hosts answer within
//     AYATORI_START_TIMEOUT, connections are made within kReachNs.
// D2. Nothing is changed, and nothing is left: children, commands and agents end with the doctor, sockets with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "doctor_report.hpp"
#include "options.hpp"

namespace ayatori::tool {

inline constexpr std::int64_t kReachNs = 3 * base::kNsPerSecond;

// This machine. `host`: its name in --hosts, or empty; `program`: or empty.
HostReport examine(const std::string& host, const std::string& program);

// What is to be examined on a host.
struct Errand {
  std::string host, folder, program;
  std::vector<std::pair<std::string, std::string>> knobs;
};
std::string pack(const Errand& errand);
std::optional<Errand> unpack_errand(std::string_view body);  // nullopt: it makes no sense

// doctor_hosts.cpp
Diagnosis examine_hosts(const Hosts& hosts, const std::string& program);

// doctor_compare.cpp: pure. Hosts that did not answer have no version and are left out.
std::vector<Check> compare(const std::vector<HostReport>& hosts, const std::string& program);
// whys[a][b]: why a does not reach b; empty: it does. A host that was not asked has no row.
std::vector<Check> judge_reach(const std::vector<HostReport>& hosts, bool loopback,
                               const std::vector<std::vector<std::string>>& whys);
// Do all hosts that answered reach each other by loopback?
bool share_loopback(const std::vector<HostReport>& hosts);

}  // namespace ayatori::tool
