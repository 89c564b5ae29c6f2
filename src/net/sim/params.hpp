// SPDX-License-Identifier: Apache-2.0
// The times of a simulated network as text, so that a measured one can be simulated: `ayatori bench net` writes what it
// fitted, whoever makes a SimWorld reads it. Called on any thread, at start-up.
//
// X1. One `key = value` a line; `#` begins a comment; the keys are those times of SimParams that a network has. A key that
//     is unknown or comes twice, a value that is no whole number of its range, and any other line are errors with their
//     line number. Keys that are not named keep the value that *params had.
// X2. After an error *params is what it was.
// X3. parse(text(p)) gives the times of p.
#pragma once

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "net/sim/world.hpp"

namespace ayatori::net::sim {

base::Status parse_sim_params(std::string_view text, SimParams* params);
base::Status load_sim_params(const std::string& path, SimParams* params);  // messages begin with the path
std::string sim_params_text(const SimParams& params);

}  // namespace ayatori::net::sim
