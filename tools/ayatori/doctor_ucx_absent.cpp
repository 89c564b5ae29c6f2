// SPDX-License-Identifier: Apache-2.0
// Stands in for doctor_ucx.cpp in a build that found no UCX.
#include "doctor_network.hpp"

namespace ayatori::tool {

bool ask_ucx(std::string* text, bool* built) {
  *built = false;
  *text = "built without it";
  return false;
}

}  // namespace ayatori::tool
