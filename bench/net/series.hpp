// SPDX-License-Identifier: Apache-2.0
// Everything that was found: a value for each repetition of each key.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "driver/results.hpp"
#include "points.hpp"

namespace bench {

struct Summary {
  double median = 0, lower = 0, upper = 0;  // quartiles of the repetitions
};

class SeriesMap {
 public:
  void add(const Key& key, double value) { all_[key].push_back(value); }
  const std::map<Key, std::vector<double>>& all() const noexcept { return all_; }

  std::optional<Summary> summary(const Key& key) const {
    const auto found = all_.find(key);
    if (found == all_.end()) return std::nullopt;
    const std::vector<double>& values = found->second;
    return Summary{bench::median(values), quantile(values, 0.25), quantile(values, 0.75)};
  }
  std::optional<double> median(const Key& key) const {
    const std::optional<Summary> found = summary(key);
    return found ? std::optional(found->median) : std::nullopt;
  }

 private:
  std::map<Key, std::vector<double>> all_;
};

}  // namespace bench
