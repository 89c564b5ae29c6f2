// SPDX-License-Identifier: Apache-2.0
#include "results.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

namespace bench {

double quantile(std::vector<double> values, double part) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const double place = part * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], place - static_cast<double>(below));
}

std::vector<double> Series::values() const {
  std::vector<double> medians;
  for (const std::vector<double>& repetition : repetitions)
    if (!repetition.empty()) medians.push_back(median(repetition));
  return medians;
}

void Results::add(const std::string& benchmark, const std::string& metric, const std::string& unit,
                  std::vector<double> repetition) {
  for (Series& series : all_) {
    if (series.benchmark != benchmark || series.metric != metric) continue;
    series.repetitions.push_back(std::move(repetition));
    return;
  }
  all_.push_back({benchmark, metric, unit, {std::move(repetition)}});
}

const Series* Results::find(const std::string& benchmark, const std::string& metric) const {
  for (const Series& series : all_)
    if (series.benchmark == benchmark && series.metric == metric) return &series;
  return nullptr;
}

bool Bar::kept() const {
  if (std::isnan(measured)) return false;
  return side == Side::kAtMost ? measured <= limit : measured >= limit;
}

std::string figure(double value) {
  char text[32];
  if (std::isnan(value)) return "-";
  const double size = std::fabs(value);
  const char* const format = size >= 1000   ? "%.0f"
                             : size >= 100  ? "%.1f"
                             : size >= 1    ? "%.2f"
                             : size >= 0.1  ? "%.3f"
                             : size >= 0.01 ? "%.4f"
                                            : "%.5f";
  std::snprintf(text, sizeof text, size > 0 ? format : "%.0f", value);
  return text;
}

namespace {

std::string count_of(const Series& series) {
  std::size_t samples = 0;
  for (const auto& repetition : series.repetitions) samples = std::max(samples, repetition.size());
  return std::to_string(series.repetitions.size()) + " x " + std::to_string(samples);
}

}  // namespace

void print_series(const std::vector<Series>& all) {
  std::printf("%-18s %-46s %10s %10s %10s  %-4s %s\n", "benchmark", "what", "median", "lowest", "highest", "unit",
              "runs x samples");
  const std::string* last = nullptr;
  for (const Series& series : all) {
    const std::vector<double> values = series.values();
    const bool repeated = last != nullptr && *last == series.benchmark;
    const auto low = std::min_element(values.begin(), values.end());
    const auto high = std::max_element(values.begin(), values.end());
    std::printf("%-18s %-46s %10s %10s %10s  %-4s %s\n", repeated ? "" : series.benchmark.c_str(),
                series.metric.c_str(), figure(series.middle()).c_str(), values.empty() ? "-" : figure(*low).c_str(),
                values.empty() ? "-" : figure(*high).c_str(), series.unit.c_str(), count_of(series).c_str());
    last = &series.benchmark;
  }
}

void print_bars(const std::vector<Bar>& bars) {
  std::printf("%-44s %10s %13s  %-7s %s\n", "bar", "measured", "limit", "verdict", "how");
  for (const Bar& bar : bars) {
    const std::string limit =
        (bar.side == Side::kAtMost ? "<= " : ">= ") + figure(bar.limit) + (bar.unit.empty() ? "" : " " + bar.unit);
    std::printf("%-44s %10s %13s  %-7s %s\n", bar.name.c_str(), figure(bar.measured).c_str(), limit.c_str(),
                bar.kept()                 ? "kept"
                : std::isnan(bar.measured) ? "FAILED"
                                           : "MISSED",
                bar.how.c_str());
  }
}

}  // namespace bench
