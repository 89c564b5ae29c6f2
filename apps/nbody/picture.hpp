// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "body.hpp"

namespace nbody {

// Writes a PNG of the bodies seen along z: brightness tells the density, colour the speed. `bodies` are sorted so that
// neighbours in the array are neighbours in space. Returns "" or what went wrong. Call it pinned.
const char* write_picture(const char* path, const Body* bodies, std::int64_t n, int pixels);

}  // namespace nbody
