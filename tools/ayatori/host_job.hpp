// SPDX-License-Identifier: Apache-2.0
// The part of a job that one host runs, as its agent gets it: plain data, and its form in a frame (frames.hpp F3).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/bootstrap/job_control.hpp"

namespace ayatori::tool {

// What an agent is told to run.
struct HostJob {
  std::string version;  // of the launcher
  std::uint64_t job_id = 0;
  net::bootstrap::Secret secret{};
  int first = 0;  // process of this host
  int count = 1;  // processes on this host
  bool label = false;
  bool stats = false;
  std::string folder;              // to run in
  std::vector<std::string> hosts;  // by process, of the whole job
  std::vector<std::pair<std::string, std::string>> knobs;
  std::vector<std::string> command;
};
std::string pack(const HostJob& job);
std::optional<HostJob> unpack_host_job(std::string_view body);  // nullopt: it makes no sense

}  // namespace ayatori::tool
