// SPDX-License-Identifier: Apache-2.0
// LogGP (thesis 2.1) out of measured times. o is what was measured: the median duration of a try_ call that succeeded, at
// the smallest size. L, g and G are least squares over
//
//     latency(s) = shape.latencies * L + shape.overheads * o + shape.transfers * G * s     and     gap(s) = g + G * s
//
// together, each equation divided by its measured value, so that 8 bytes count as much as 4 MiB and errors are relative.
//
// Q1. None of L, g, G is negative: of the fits with some of them fixed at 0, the best without a negative one is taken.
// Q2. A large residual means that the model does not describe the transport (protocols that change with the size, caches),
//     not that the measurement failed.
#pragma once

#include <optional>
#include <span>

#include "net/sim/world.hpp"

namespace bench {

namespace net = ayatori::net;

struct Observation {
  double bytes = 0, ns = 0;
};

// Which path a latency measures.
struct PathShape {
  double latencies, overheads, transfers;
};
// There and back, as many bytes each way. (2.1) has an overhead of the receiver as well, which nobody times apart: here
// it belongs to L.
inline constexpr PathShape kRoundTripPath{2, 2, 2};
// There and back without the target's processor, bytes one way. What precedes the return of the try_ call is o, the rest
// can overlap with computation (thesis 4.7.1).
inline constexpr PathShape kOneSidedPath{2, 1, 1};

struct LogGP {
  double latency_ns = 0;       // L
  double overhead_ns = 0;      // o
  double gap_ns = 0;           // g
  double gap_per_byte_ns = 0;  // G
  // Root of the mean square of the relative errors.
  double latency_residual = 0, gap_residual = 0;

  double latency_at(const PathShape& shape, double bytes) const {
    return shape.latencies * latency_ns + shape.overheads * overhead_ns + shape.transfers * gap_per_byte_ns * bytes;
  }
  double gap_at(double bytes) const { return gap_ns + gap_per_byte_ns * bytes; }
};

// nullopt: not two sizes of latencies and two of gaps, or a time that is not positive.
std::optional<LogGP> fit_loggp(const PathShape& shape, double overhead_ns, std::span<const Observation> latencies,
                               std::span<const Observation> gaps);

// The same network simulated (net/sim/world.hpp V4, which leaves the receiver's overhead to L as well); it does not reorder.
net::sim::SimParams simulated(const LogGP& fit);

}  // namespace bench
