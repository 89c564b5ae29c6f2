// SPDX-License-Identifier: Apache-2.0
// What the clock of the benchmarks makes of the times between two readings (bench/net/clock.hpp K3).
#include "clock.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace bench {
namespace {

std::vector<std::uint64_t> times(std::vector<std::pair<std::uint64_t, int>> counts) {
  std::vector<std::uint64_t> all;
  for (const auto& [time, count] : counts) all.insert(all.end(), static_cast<std::size_t>(count), time);
  return all;
}

TEST(Clock, FindsTheStepsOfACoarseCounter) {
  EXPECT_EQ(Clock::step_of(times({{52, 900}, {78, 90}, {26, 10}})), 26u);
  EXPECT_EQ(Clock::step_of(times({{51, 200}, {52, 500}, {53, 200}, {78, 50}, {79, 20}, {26, 30}})), 26u);  // jitter
}

// One that advances by single ticks, and a few times in which something else happened: these are no steps.
TEST(Clock, TakesOutliersForNoSteps) {
  EXPECT_EQ(Clock::step_of(times({{38, 1000}})), 1u);
  EXPECT_EQ(Clock::step_of(times({{36, 500}, {37, 300}, {38, 200}, {336, 1}, {5000, 1}})), 1u);
  EXPECT_EQ(Clock::step_of(times({{36, 9000}, {38, 900}, {700, 3}, {1000, 4}})), 1u);
}

}  // namespace
}  // namespace bench
