// SPDX-License-Identifier: Apache-2.0
#include "points.hpp"

namespace bench {

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::kRead: return "read";
    case Operation::kWrite: return "write";
    case Operation::kRoundTrip: return "AM round trip";
    case Operation::kMessage: return "AM";
    case Operation::kFetchAdd: return "fetch-add";
    case Operation::kCompareSwap: return "compare-swap";
    case Operation::kBarrier: return "barrier";
    case Operation::kAllreduce: return "allreduce";
  }
  return "?";
}

const char* name_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::kLatency: return "latency";
    case Quantity::kOverhead: return "overhead";
    case Quantity::kGap: return "gap";
  }
  return "?";
}

bool is_collective(Operation operation) {
  return operation == Operation::kBarrier || operation == Operation::kAllreduce;
}

std::string bytes_text(std::size_t bytes) {
  constexpr std::size_t kKib = 1024, kMib = kKib * kKib;
  if (bytes >= kMib && bytes % kMib == 0) return std::to_string(bytes / kMib) + " MiB";
  if (bytes >= kKib && bytes % kKib == 0) return std::to_string(bytes / kKib) + " KiB";
  return std::to_string(bytes) + " B";
}

std::string text_of(const Point& point) {
  std::string text = name_of(point.operation);
  if (point.bytes != 0) text += ", " + bytes_text(point.bytes);
  if (point.threads != 1) text += ", " + std::to_string(point.threads) + " threads";
  return text;
}

std::vector<Point> pair_points(std::span<const std::size_t> sizes, std::span<const int> threads) {
  constexpr std::size_t kWord = 8;
  std::vector<Point> points;
  const auto both = [&points](Operation operation, int requesters, std::size_t bytes) {
    points.push_back({operation, false, requesters, bytes});
    points.push_back({operation, true, requesters, bytes});
  };
  for (const std::size_t bytes : sizes) {
    for (const int requesters : threads) both(Operation::kRead, requesters, bytes);
    both(Operation::kWrite, threads.front(), bytes);
    points.push_back({Operation::kRoundTrip, false, threads.front(), bytes});
    points.push_back({Operation::kMessage, true, threads.front(), bytes});
  }
  for (const int requesters : threads) {
    if (requesters != threads.front()) {
      points.push_back({Operation::kRoundTrip, false, requesters, sizes.front()});
      points.push_back({Operation::kMessage, true, requesters, sizes.front()});
    }
    both(Operation::kFetchAdd, requesters, kWord);
    both(Operation::kCompareSwap, requesters, kWord);
  }
  return points;
}

std::vector<Point> collective_points() {
  return {{Operation::kBarrier, false, 1, 0}, {Operation::kAllreduce, false, 1, 8}};
}

}  // namespace bench
