// SPDX-License-Identifier: Apache-2.0
// How quantities, kept in nanoseconds, are shown in tables and plots.
#pragma once

#include <optional>
#include <utility>

#include "series.hpp"

namespace bench {

struct Shown {
  const char* name;
  const char* unit;
  Quantity quantity;
  double (*convert)(double ns, std::size_t bytes);
};

inline constexpr Shown kLatency{"latency", "us", Quantity::kLatency, [](double ns, std::size_t) { return ns / 1e3; }};
inline constexpr Shown kOverhead{"overhead", "ns", Quantity::kOverhead, [](double ns, std::size_t) { return ns; }};
inline constexpr Shown kRate{"message rate", "million/s", Quantity::kGap,
                             [](double ns, std::size_t) { return 1e3 / ns; }};
inline constexpr Shown kBandwidth{"bandwidth", "GB/s", Quantity::kGap,
                                  [](double ns, std::size_t bytes) { return static_cast<double>(bytes) / ns; }};

// The key's quantity is that of `shown`.
inline std::optional<Summary> summary_of(const SeriesMap& series, Key key, const Shown& shown) {
  key.quantity = shown.quantity;
  std::optional<Summary> summary = series.summary(key);
  if (!summary) return summary;
  for (double* const value : {&summary->median, &summary->lower, &summary->upper})
    *value = shown.convert(*value, key.bytes);
  if (summary->lower > summary->upper) std::swap(summary->lower, summary->upper);  // of a reciprocal
  return summary;
}

}  // namespace bench
