// SPDX-License-Identifier: Apache-2.0
// Allocations that are placed segments of their own: 1 MiB and more, or aligned beyond 64 KiB. Called on native stacks
// through the heap's slow paths, except where said.
//
// S1. A segment whose free has been delivered waits in a list without a lock until some thread of the job collects it:
//     the segment table has a lock, deliver_pending() takes none (H4).
// S2. Whether an address range was part of an earlier segment is remembered: this process may have copies of it.
// S3. Of what is freed, up to 64 MiB in segments of up to 32 MiB stays backed and placed as it is for the next of that
//     size: fresh memory costs a kernel fault a page (80 times the time to fill 2 MB here).
#pragma once

#include <cstddef>

#include "gas/space.hpp"

namespace ayatori::gas::heap {

void reserve_large(int processes);
// For `process`. `zero`: does the memory surely read as zero? `forget`: drops the copies of pages that process has, may be null.
void* take_large(int process, std::size_t bytes, std::size_t align, void (*forget)(PageIndex first, std::size_t pages),
                 bool& zero) noexcept;
// Bytes of the segment from `address` on; 0: not the address of a live allocation. Any stack.
std::size_t large_bytes(const void* address) noexcept;
// Marks it freed; false: it is not live. Any stack.
bool retire_large(void* address) noexcept;
// Puts a retired one into the list of those to collect. No lock, any process, any stack.
void post_large(void* address) noexcept;
bool large_posted() noexcept;  // a hint
void collect_large() noexcept;

}  // namespace ayatori::gas::heap
