// SPDX-License-Identifier: Apache-2.0
// What a thread and those who cancel it agree through: a word of its descriptor. Any thread and stack where the
// descriptor is valid.
//
// X1. The word belongs to the thread of the generation in its upper bits: who cancels by an old number changes nothing.
// X2. Who is about to wait at a cancellation point says where it will wait, then looks whether it is cancelled; who cancels
//     says so, then looks where the thread waits (both seq_cst). One of the two sees the other.
// X3. Who takes a waiting thread out of the list or join word in which it waits owns its resumption, as who ends its wait
//     in the usual way.
#pragma once

#include <atomic>
#include <cstdint>

#include "ult/thread.hpp"

namespace ayatori::ult {

inline constexpr std::uint64_t kCancellable = 1;  // may be cancelled: a thread of the C interface
inline constexpr std::uint64_t kCancelAsked = 2;
inline constexpr std::uint64_t kCancelDisabled = 4;  // by the thread; its own bits, as the next
inline constexpr std::uint64_t kCancelAtOnce = 8;
inline constexpr int kCancelBits = 4;

// Of a thread that begins, before its number is given away.
inline void begin_cancellation(Descriptor* d, std::uint64_t bits) noexcept {
  d->cancel.store(static_cast<std::uint64_t>(d->generation) << kCancelBits | bits, std::memory_order_relaxed);
  d->cancel_point.store(false, std::memory_order_relaxed);
  d->cleanup = nullptr;
}

inline bool is_cancelled(std::uint64_t word) noexcept {
  return (word & (kCancelAsked | kCancelDisabled)) == kCancelAsked;
}

// Of the thread about to wait at what it has stored (seq_cst) as its wait_condition or wait_object (X2).
inline bool refuses_to_wait(const Descriptor* d) noexcept {
  if (!d->cancel_point.load(std::memory_order_relaxed)) return false;
  const std::uint64_t word = d->cancel.load(std::memory_order_seq_cst);
  return is_cancelled(word) && word >> kCancelBits == d->generation;  // X1: not what the last thread here left
}

// Says where it waits, or is about to, also where nobody may cancel it: who cancels may look at any time. Relaxed: what X2
// orders is stored by itself.
inline void set_wait_object(Descriptor* d, void* o) noexcept {
  std::atomic_ref(d->wait_object).store(o, std::memory_order_relaxed);
}

// X1. Returns the word with the request in it; without kCancellable nothing was changed.
inline std::uint64_t ask_to_cancel(Descriptor* d, std::uint32_t generation) noexcept {
  std::uint64_t word = d->cancel.load(std::memory_order_relaxed);
  do {
    if (word >> kCancelBits != generation || (word & kCancellable) == 0) return 0;
  } while (!d->cancel.compare_exchange_weak(word, word | kCancelAsked, std::memory_order_seq_cst));  // X2
  return word | kCancelAsked;
}

}  // namespace ayatori::ult
