// SPDX-License-Identifier: Apache-2.0
// Objects in static data (sync.hpp, Y6), for process 0 that keeps them where processes share no memory. Native stacks.
#pragma once

#include <cstdint>

#include "tasks/sync.hpp"

namespace ayatori::tasks::sync {

// What all share for the object at `where`: `made` if it is the first; `users` more use it.
Handle share_here(std::uintptr_t where, Handle made, int users);
// What that was the last user of, or 0.
Handle unshare_here(std::uintptr_t where);
// What process 0 knows by another's name.
Handle local_handle(Handle h);

}  // namespace ayatori::tasks::sync
