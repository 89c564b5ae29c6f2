// SPDX-License-Identifier: Apache-2.0
// What is made of the series: fits, tables on standard output, the JSON file, data and pictures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "clock.hpp"
#include "fit.hpp"
#include "options.hpp"
#include "series.hpp"

namespace bench {

struct NamedFit {
  int variant = 0;
  Operation operation = Operation::kRead;
  std::optional<LogGP> fit;  // nullopt: too few sizes
};

struct Report {
  const Options& options;
  const Clock& clock;
  const SeriesMap& series;
  std::vector<NamedFit> fits;  // of each variant: reads, writes, active messages
};

std::vector<NamedFit> fit_all(const Options& options, const SeriesMap& series);
void print_tables(const Report& report);

// False after a message on standard error.
bool write_json(const std::string& path, const Report& report);
bool write_sim_params(const std::string& path, const Report& report);  // of the first variant
bool write_plots(const std::string& folder, const Report& report);
std::string find_gnuplot();  // "": not installed

}  // namespace bench
