// SPDX-License-Identifier: Apache-2.0
// What a process has freed and not yet released (H3), a list for each process in memory shared by all.
//
// L1. add_pending() runs on any thread of the freeing process; seal_pending() and take_sealed() in any process, holding
//     the freeing process's lock: `sealed` is theirs. Nothing here takes a lock (H4).
// L2. Nodes come from a pool of the freeing process; the tag in the head of its free nodes tells one pop from the next.
// L3. What take_sealed() hands out was freed before a release began that has ended now.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ayatori::gas::heap {

struct alignas(64) PendingList {
  std::atomic<std::uint32_t> fresh;       // node + 1, 0: none
  std::atomic<std::uint32_t> nodes_used;  // of the pool, ever
  std::atomic<std::uint64_t> free_nodes;  // tag << 32 | node + 1
  std::atomic<std::uint64_t> objects, bytes;
  alignas(64) std::uint32_t sealed;  // L1
};

enum class Added { kQuietly, kAskForRelease, kNoRoom };

void reserve_pending(int processes);
PendingList& pending_list(int process) noexcept;
Added add_pending(int process, void* object, std::size_t bytes) noexcept;
void seal_pending(int process) noexcept;
void take_sealed(int process, void (*deliver)(void* object) noexcept) noexcept;

}  // namespace ayatori::gas::heap
