// SPDX-License-Identifier: Apache-2.0
// What `ayatori doctor` has found: plain data, its form in a frame (frames.hpp F3), as text and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ayatori::tool {

enum class Mark : std::uint8_t { kOk, kWarning, kProblem };

struct Check {
  std::string name;
  Mark mark = Mark::kOk;
  std::string value;   // what was measured, with its unit
  std::string advice;  // unless kOk: one sentence, what to do

  friend bool operator==(const Check&, const Check&) = default;
};
inline Check fine(std::string name, std::string value) { return {std::move(name), Mark::kOk, std::move(value), {}}; }
inline Check warning(std::string name, std::string value, std::string advice) {
  return {std::move(name), Mark::kWarning, std::move(value), std::move(advice)};
}
inline Check problem(std::string name, std::string value, std::string advice) {
  return {std::move(name), Mark::kProblem, std::move(value), std::move(advice)};
}

// One host: its checks, and what is compared with other hosts.
struct HostReport {
  std::string name;
  std::string version;
  std::string binary;   // content hash of its `ayatori`
  std::string program;  // content hash of PROGRAM; empty: none was named, or it is not there
  std::string kernel, engine, diffs;
  std::string place;    // net/bootstrap/place.hpp
  std::string address;  // that a job of several machines would listen on; empty: none
  std::uint64_t port = 0, loopback_port = 0;
  std::vector<Check> checks;
};
std::string pack(const HostReport& report);
std::optional<HostReport> unpack_host_report(std::string_view body);  // nullopt: it makes no sense

struct Diagnosis {
  std::vector<HostReport> hosts;
  std::vector<Check> between;  // hosts

  int count(Mark mark) const;
};
// `all`: lines for what is ok, too.
std::string text_of(const Diagnosis& diagnosis, bool all);
std::string json_of(const Diagnosis& diagnosis);

}  // namespace ayatori::tool
