// SPDX-License-Identifier: Apache-2.0
// Where the library is built without hwloc's headers.
#include "base/topology_hwloc.hpp"

namespace ayatori::base {

bool hwloc_cpus(std::vector<Cpu>*) { return false; }

}  // namespace ayatori::base
