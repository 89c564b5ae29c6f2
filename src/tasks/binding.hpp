// SPDX-License-Identifier: Apache-2.0
// Workers on CPUs (AYATORI_BIND; docs/design/binding.md).
//
// B1. The CPUs are chosen once, in the image that the members are forked from, so that they agree; their claims (P2 of
//     base/topology.hpp) are kept open by every member, and end with the last.
#pragma once

#include <string>

namespace ayatori::tasks::binding {

// Before the fork: for that many members of this image, with that many workers each.
void prepare(int processes, int workers);
// The calling OS thread is that worker of member `process` of this image; nothing where nothing was chosen.
void bind_worker(int process, int worker) noexcept;

}  // namespace ayatori::tasks::binding
