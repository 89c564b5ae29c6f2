// SPDX-License-Identifier: Apache-2.0
// Makes the first images of a job's hosts alike, so that threads can move between them (net/bootstrap/likeness.hpp): no
// randomisation of addresses, and the same random bytes of the kernel's (AT_RANDOM), of which the C library makes the stack
// protector's secret and setjmp()'s. Those are written while the new image stands at its first instruction, traced by its
// parent, the launcher. Where the kernel refuses any of it, the image starts as it is: the job finds out if it matters.
#pragma once

#include <sys/types.h>

#include "net/bootstrap/job_control.hpp"

namespace ayatori::tool {

// In the child, between fork and exec: only system calls.
void fix_addresses() noexcept;

// In the parent, while the child waits before its exec. False: refused.
bool trace_exec(pid_t child) noexcept;
// After the child was let go, if it is traced: waits until it has executed its image, or ended, which is left to be reaped.
void fix_random_bytes(pid_t child, const net::bootstrap::Secret& secret);

}  // namespace ayatori::tool
