// SPDX-License-Identifier: Apache-2.0
// A full fence that one side pays for: where a frequent store must be ordered before a load that follows it, and whoever
// stores to what is loaded is rare. The rare side calls heavy_fence(), which makes every running thread of the process pass
// a full fence (membarrier(2), private expedited: about a microsecond a CPU); for the frequent side it is then enough that
// the compiler keeps the order: light_fence().
#pragma once

#include <atomic>

namespace ayatori::base {

// Registers the process. False: this kernel, or a filter of system calls, does not have it; then both sides need a real
// fence. Any thread, as often as wanted; once again after fork().
bool asymmetric_fences() noexcept;
void heavy_fence() noexcept;  // after asymmetric_fences() said yes
inline void light_fence() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace ayatori::base
