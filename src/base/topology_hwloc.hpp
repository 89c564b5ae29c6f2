// SPDX-License-Identifier: Apache-2.0
// The CPUs of the machine by hwloc, whose library is loaded by the call. In a process of its own (P1 of topology.hpp).
#pragma once

#include <vector>

#include "base/topology.hpp"

namespace ayatori::base {

// All that hwloc shows, not only those of the affinity mask. False: hwloc is not there.
bool hwloc_cpus(std::vector<Cpu>* cpus);

}  // namespace ayatori::base
