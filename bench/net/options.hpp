// SPDX-License-Identifier: Apache-2.0
// Options of `ayatori bench net`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "variants.hpp"

namespace bench {

inline constexpr int kBadArguments = 125, kNotMeasured = 3;  // exit statuses, as elsewhere in `ayatori bench`

struct Options {
  std::vector<const Variant*> variants;
  std::vector<int> processes;      // ascending, of the collectives; all else is between two
  std::vector<int> threads;        // ascending
  std::vector<std::size_t> sizes;  // ascending, in bytes
  int repetitions = 0;
  int point_ms = 0;
  int window = 64;
  bool quick = false;
  std::string json, plot, sim_params;  // "": not wanted
};

// -1: go on; otherwise the exit status (help, or an error that was told).
int parse_options(int argc, char** argv, Options& options);

// One line on standard error; false.
bool complain(const std::string& text);

}  // namespace bench
