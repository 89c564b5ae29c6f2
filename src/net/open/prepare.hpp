// SPDX-License-Identifier: Apache-2.0
// What must be there before the members of a job are forked, in programs that call net::open().
#pragma once

#include "net/shm/world.hpp"

namespace ayatori::net {

// Start-up thread, between bootstrap::begin() and fork_members(). Ends the process with 125 and a line when the memory is not
// to be had. Weak: the library's start calls it where the program has it.
[[gnu::weak]] void prepare_open();

// The world of the members on this machine, or nullptr: there is no launcher, or they are to share nothing.
shm::ShmWorld* prepared_world() noexcept;

}  // namespace ayatori::net
