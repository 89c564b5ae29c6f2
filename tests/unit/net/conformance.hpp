// SPDX-License-Identifier: Apache-2.0
// What the conformance suite runs on (networks.cpp: one row each).
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "harness.hpp"

namespace ayatori::net::testing {

// One network: a value and not a type, so that the suite's bodies are compiled once and not once a network.
struct Network {
  std::string name;
  bool real;  // not simulated
  void (*run)(const Job&, const Prepare&, const Body&);

  friend std::ostream& operator<<(std::ostream& to, const Network& network) { return to << network.name; }
};
const std::vector<Network>& networks();
inline std::string name_of(const ::testing::TestParamInfo<Network>& info) { return info.param.name; }

class Conformance : public ::testing::TestWithParam<Network> {
 protected:
  static void run(const Job& job, const Body& body) {
    GetParam().run(job, [](Context&) {}, body);
  }
};

inline std::byte pattern(std::size_t i, int salt) {
  return static_cast<std::byte>((i * 131 + static_cast<std::size_t>(salt) * 29 + 7) & 0xff);
}

}  // namespace ayatori::net::testing
