// SPDX-License-Identifier: Apache-2.0
// The fast paths of a mutex, inline for what is above: one locked instruction each, and no register saved, for a push before
// a locked instruction is waited for. All on any stack, within one process' shared objects.
#pragma once

#include <atomic>
#include <cstdint>

#include "tasks/sync_object.hpp"

namespace ayatori::tasks::sync {

// The holder, for people, of what the caller locks.
[[gnu::always_inline]] inline std::uint64_t own_bits() noexcept {
  const ult::Worker* w = ult::current_worker();
  return w && w->current ? bits_of_thread(*w->current) : 0;
}

// Takes a mutex that is free and was last held in this process.
[[gnu::always_inline]] inline bool lock_fast(Object& o) noexcept {
  std::uint64_t free_here = last(ult::config().process);
  return o.word.load(std::memory_order_relaxed) == free_here &&  // or the exchange would cost as much, and fail
         o.word.compare_exchange_strong(free_here, free_here | kLocked | own_bits(), std::memory_order_acquire);  // Y3
}

// Frees a mutex that is locked, and for which nobody waits.
[[gnu::always_inline]] inline bool unlock_fast(Object& o) noexcept {
  std::uint64_t w = o.word.load(std::memory_order_relaxed);
  return (w & (kLocked | kWaiters | kGuarded)) == kLocked &&
         o.word.compare_exchange_strong(w, last(ult::config().process), std::memory_order_release);  // Y3
}

// For the usual case of the C interface: of a living mutex of type 0 that all processes map. False: nothing was done, whatever
// `h` is.
[[gnu::always_inline]] inline Object* plain_mutex(Handle h) noexcept {
  if (gas::apart() || h - 1 >= kObjects - 1) return nullptr;
  Object& o = state.objects[h];
  return kind_of(o) == Kind::kMutex && o.type == 0 ? &o : nullptr;
}
[[gnu::always_inline]] inline bool mutex_lock_at_once(Handle h) noexcept {
  Object* const o = plain_mutex(h);
  return o && lock_fast(*o);
}
[[gnu::always_inline]] inline bool mutex_unlock_at_once(Handle h) noexcept {
  Object* const o = plain_mutex(h);
  return o && unlock_fast(*o);
}

}  // namespace ayatori::tasks::sync
