// SPDX-License-Identifier: Apache-2.0
// Sleeping on a 32-bit word that several processes map. Called on native stacks on any OS thread.
//
// X1. Every wait has a time limit or a caller who survives a lost wake-up: a peer may die before it wakes anybody.
// X2. The word lies in the system view or in plain memory, never under access control (the kernel would say EFAULT).
#pragma once

#include <atomic>
#include <cstdint>

namespace ayatori::base {

enum class FutexResult {
  kWoken,    // or woken for no reason: look again
  kChanged,  // the word was not `expected`
  kTimeout,
};

inline constexpr std::int64_t kForever = -1;

FutexResult futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                       std::int64_t timeout_ns = kForever) noexcept;
// Returns how many waiters were woken.
int futex_wake(const std::atomic<std::uint32_t>& word, int waiters) noexcept;
inline constexpr int kAllWaiters = 0x7fffffff;

}  // namespace ayatori::base
