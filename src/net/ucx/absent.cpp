// SPDX-License-Identifier: Apache-2.0
// Stands in for wire.cpp in a build that found no UCX.
#include "net/ucx/wire.hpp"

namespace ayatori::net::ucx {

base::Status Wire::open(const WireConfig&, std::unique_ptr<Wire>*) {
  return base::error_status(
      base::Code::kUnavailable,
      "ucx: this library was built without UCX: install libucx-dev (Debian's name) and build again");
}

}  // namespace ayatori::net::ucx
