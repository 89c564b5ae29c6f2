// SPDX-License-Identifier: Apache-2.0
// A forked process of a measured job: process 0 measures, the others serve it and take part in collectives. What it
// finds goes to the driver through a pipe, one record a write.
//
// E1. Requesters are threads of process 0; process 1 is the target of all of them, and waits in a barrier meanwhile (it
//     polls for a while, then sleeps, as a program does that has nothing else to do).
// E2. A member that cannot go on says why in a record and ends with kMemberFailed; so does one whose request fails,
//     which means that another one is gone: the driver sees who went first.
// E3. All reads of a requester land in one buffer, which nobody looks at; requesters read the same remote memory.
// E4. Requests that complete before their try_ call returns, in less than a microsecond, are timed so many at once that a
//     microsecond passes: the clock is no finer. Their overhead is their latency.
#pragma once

#include <type_traits>
#include <vector>

#include "clock.hpp"
#include "points.hpp"
#include "variants.hpp"

namespace bench {

inline constexpr int kMemberFailed = 4;  // exit status

struct Plan {
  std::vector<Point> pair_points;  // with two processes
  std::vector<Point> collective_points;
  std::size_t bytes_max = 0;  // of all points
  int threads_max = 1;
  double point_ns = 0;     // how long a thread measures
  std::size_t window = 1;  // requests under way a thread while it floods
};

// Control words, the target of requests, and a buffer for each requester.
inline constexpr std::size_t kControlBytes = 4096;
std::size_t memory_bytes(const Plan& plan);

struct Record {
  enum class Kind : std::uint8_t { kBegins, kValue, kFailed } kind = Kind::kBegins;
  Quantity quantity = Quantity::kLatency;
  net::Outcome outcome = net::Outcome::kOk;  // kFailed
  Point point;
  double ns = 0;  // kValue
};
static_assert(std::is_trivially_copyable_v<Record>);

// In the forked process. `pipe_fd`: takes records.
[[noreturn]] void run_member(Fabric& fabric, net::ProcessId self, const Plan& plan, const Clock& clock, int pipe_fd);

}  // namespace bench
