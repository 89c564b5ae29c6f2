// SPDX-License-Identifier: Apache-2.0
// Atomic operations on words of the space, carried out on the owner's copy. Any thread.
//
// A1. The word's own bytes never travel in diffs while it is only used through these functions: construct() makes the
//     process's copy, its twin and the owner's copy equal; destroy() does so again, for whoever uses the bytes next.
// A2. An operation with release order first releases this process, one with acquire order acquires afterwards, so that
//     message passing through an atomic works between processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "dsm/words.hpp"

namespace ayatori::tasks {

using AtomicOp = dsm::WordOp;

std::uint64_t atomic_apply(void* address, std::size_t bytes, AtomicOp op, std::uint64_t operand, std::uint64_t expected,
                           std::memory_order order) noexcept;
void atomic_destroy(void* address, std::size_t bytes) noexcept;
void atomic_construct(void* address, std::size_t bytes, std::uint64_t value) noexcept;

}  // namespace ayatori::tasks
