// SPDX-License-Identifier: Apache-2.0
// Behind allocate_memory(): one shared mapping for all members of a machine, made before the fork or when they meet, of which
// each has a part of its own; in other jobs, and before they have met, memory of the process' own.
//
// A1. Nobody but its process gives out memory of a part, and not before the fork: each member begins with a copy of this state
//     in which nothing is given out.
// A2. What is given out is zero: pages that come back are given to the kernel.
#pragma once

#include <cstddef>

#include "base/status.hpp"
#include "net/shm/world.hpp"

namespace ayatori::net::memory {

// Before the fork, once. `processes`: of the job, on other machines, too: images of one job map alike. Nothing is reserved for
// one alone.
base::Status reserve(shm::ShmWorld& world, int processes, std::size_t bytes_each);
std::size_t bytes_of_parts(int processes, std::size_t bytes_each);
bool is_reserved() noexcept;

// For members that were started apart, in a world with room for bytes_of_parts().
void reserve_apart(shm::ShmWorld& world, int self, int processes, std::size_t bytes_each);

}  // namespace ayatori::net::memory
