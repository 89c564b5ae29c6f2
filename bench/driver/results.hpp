// SPDX-License-Identifier: Apache-2.0
// Samples, their summaries, the tables and the JSON file.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace bench {

// The value below which `part` (0 to 1) of the values lie, interpolated between neighbours; NaN of nothing.
double quantile(std::vector<double> values, double part);
std::string figure(double value);  // as tables show it; "-" for NaN
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

// One metric. A repetition is one run of a program, with one sample or many; its value is their median.
struct Series {
  std::string benchmark, metric, unit;
  std::vector<std::vector<double>> repetitions;

  std::vector<double> values() const;
  double middle() const { return median(values()); }
};

// In the order in which they were first measured.
class Results {
 public:
  void add(const std::string& benchmark, const std::string& metric, const std::string& unit,
           std::vector<double> repetition);
  const Series* find(const std::string& benchmark, const std::string& metric) const;
  const std::vector<Series>& all() const { return all_; }

 private:
  std::vector<Series> all_;
};

enum class Side { kAtMost, kAtLeast };

struct Bar {
  std::string name, how;  // what is held to the limit; how `measured` comes from the series
  std::string unit;       // of `limit`; "" for a ratio
  Side side = Side::kAtMost;
  double limit = 0;
  double measured = 0;  // NaN: could not be measured
  bool kept() const;
};

void print_series(const std::vector<Series>& all);
void print_bars(const std::vector<Bar>& bars);

struct Document {
  std::string kind;     // "benchmarks" or "bars"
  std::string machine;  // JSON, what `ayatori info --json` prints; may be empty
  bool quick = false;
  const Results* results = nullptr;
  const std::vector<Bar>* bars = nullptr;
};
bool write_json(const std::string& path, const Document& document);  // false after a message on standard error

}  // namespace bench
