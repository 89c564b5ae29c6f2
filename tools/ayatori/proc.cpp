// SPDX-License-Identifier: Apache-2.0
#include "proc.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>

#include "base/format.hpp"

namespace ayatori::tool {
namespace {

// A field of /proc/PID/status.
std::optional<std::string> status_field(pid_t pid, std::string_view name) {
  std::ifstream in(proc_path(pid, "status"));
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    const std::size_t value = line.find_first_not_of(" \t", name.size() + 1);
    return value == line.npos ? "" : line.substr(value);
  }
  return std::nullopt;
}

}  // namespace

std::string proc_path(pid_t pid, const char* file) { return base::formatted("/proc/{}/{}", pid, file); }

pid_t parent_of(pid_t pid) {
  const auto text = status_field(pid, "PPid");
  return text ? static_cast<pid_t>(std::strtol(text->c_str(), nullptr, 10)) : 0;
}

bool descends_from_self(pid_t pid) {
  const pid_t self = getpid();
  if (pid == self) return false;
  // No descriptor is left to look with.
  if (pid > 1 && !std::ifstream(proc_path(self, "status"))) return true;
  while (pid > 1 && pid != self) pid = parent_of(pid);
  return pid == self;
}

bool catches(pid_t pid, int signal) {
  const auto text = status_field(pid, "SigCgt");
  return text && (std::strtoull(text->c_str(), nullptr, 16) >> (signal - 1) & 1) != 0;
}

std::vector<pid_t> children_of_self() {
  std::vector<pid_t> pids;
  std::ifstream in(base::formatted("/proc/self/task/{}/children", getpid()));
  for (pid_t pid = 0; in >> pid;) pids.push_back(pid);
  return pids;
}

}  // namespace ayatori::tool
