// SPDX-License-Identifier: Apache-2.0
// What is measured: points, in the order in which every member of a job passes them.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace bench {

enum class Operation : std::uint8_t {
  kRead,
  kWrite,
  kRoundTrip,  // an active message whose handler sends as many bytes back
  kMessage,    // one way
  kFetchAdd,
  kCompareSwap,
  kBarrier,
  kAllreduce,
};

// Thesis 4.6, in nanoseconds; each operation has some of them.
enum class Quantity : std::uint8_t {
  kLatency,   // listing 4.6, t2 - t0: from the first attempt to the completion, one request under way a thread
  kOverhead,  // listing 4.6, t1 - t0, of the attempt that succeeded
  kGap,       // listing 4.7: time through number, requests issued without end. Its reciprocal is the message rate
};
inline constexpr std::array kQuantities = {Quantity::kLatency, Quantity::kOverhead, Quantity::kGap};

struct Point {
  Operation operation = Operation::kRead;
  bool flood = false;  // gives the gap; else latency and overhead
  int threads = 1;     // requesters, all in process 0
  std::size_t bytes = 0;
};

// What one series of values is about.
struct Key {
  int variant = 0;  // index into the variants that are compared
  Operation operation = Operation::kRead;
  Quantity quantity = Quantity::kLatency;
  int processes = 2;
  int threads = 1;
  std::size_t bytes = 0;
  auto operator<=>(const Key&) const = default;
};

const char* name_of(Operation operation);
const char* name_of(Quantity quantity);
bool is_collective(Operation operation);
std::string bytes_text(std::size_t bytes);  // "4 KiB"
std::string text_of(const Point& point);    // "read, 4 KiB, 2 threads"

// One-sided operations and messages, between two processes.
std::vector<Point> pair_points(std::span<const std::size_t> sizes, std::span<const int> threads);
// Collectives, in any number of processes.
std::vector<Point> collective_points();

}  // namespace bench
