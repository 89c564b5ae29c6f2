// SPDX-License-Identifier: Apache-2.0
// The ways to the native stack and back that threads which wait for each other take again and again, inline for the layer above:
// what a wait or a wake-up needs is one function on the native stack. What is rare is out of line. Same contract as
// scheduler.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ult/fiber.hpp"
#include "ult/scheduler.hpp"

namespace ayatori::ult {

// As on_user_thread().
inline bool on_user_stack() noexcept {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return here - reinterpret_cast<std::uintptr_t>(config().stacks) <
         std::uintptr_t{config().thread_count} * config().stack_bytes;
}

namespace native {

// Every so many takes the process's queues come before the worker's ring; every so many the clock is looked at, which says
// whether what others have comes first.
inline constexpr std::uint32_t kQueuesMask = 31, kClockMask = 7;
constexpr std::size_t kFrameRoom = 256;  // more than what a switch leaves below the frame of the function that calls it

extern std::atomic<std::int64_t> next_timer_ns;  // INT64_MAX: no timers. Changed under their lock

inline bool has_timers() noexcept { return next_timer_ns.load(std::memory_order_relaxed) != INT64_MAX; }
inline bool finished() noexcept { return config().finished->load(std::memory_order_seq_cst) != 0; }
inline ProcessQueues& mine() noexcept { return *config().queues[config().process]; }

inline void save_private(Worker& w, Descriptor* d) noexcept {
  d->eh_caught = w.eh->caught;
  d->eh_uncaught = w.eh->uncaught;
  d->saved_errno = *w.errno_address;
}
// Of a thread that has just been left.
inline bool is_out_of_stack(const Descriptor* d) noexcept {
  return static_cast<std::size_t>(d->stack_top - static_cast<std::byte*>(d->sp)) > config().stack_room_bytes;
}
inline bool keeps_too_many(const Worker& w) noexcept { return w.free_count > w.keep.load(std::memory_order_relaxed); }
// Descriptor::ran_on
inline std::int32_t place_of(int process, const Worker& w) noexcept { return process * kMaxWorkers + w.number; }
void spill(Worker& w) noexcept;
void* schedule_slowly(Worker& w) noexcept;

// On the native stack, `w.current` having been left.
[[gnu::always_inline]] inline void enter(Worker& w) noexcept {
  fiber::arrived_native(w);
  if (config().hooks.user_mode) config().hooks.user_mode(false);
  if (is_out_of_stack(w.current)) [[unlikely]]
    config().hooks.out_of_stack(w.current, w.current->sp);
  if (keeps_too_many(w)) [[unlikely]]
    spill(w);
  if (config().hooks.moved) [[unlikely]]
    w.current->ran_on = place_of(config().process, w);
}
[[gnu::always_inline]] inline void* leave(Worker& w, void* sp) noexcept {
  const bool leaving = sp == w.os_sp;
  if (!leaving && config().hooks.user_mode) config().hooks.user_mode(true);
  fiber::leave_native(w, leaving);
  return sp;
}
template <Operation operation>
AYT_CROSSES_FIBERS void* main_of(void* argument) {
  Worker& w = *static_cast<Worker*>(argument);
  enter(w);
  return leave(w, operation(w, w.current, w.argument));
}

// T5. Is a thread of high priority ready on this process? A hint.
inline bool high_is_ready() noexcept { return mine().high.count.load(std::memory_order_relaxed) != 0; }
inline bool is_high(const Descriptor* d) noexcept { return d->high.load(std::memory_order_relaxed); }

// U4
inline void ring_lightly() noexcept {
  if (mine().sleepers.load(std::memory_order_relaxed) != 0) ring(config().process);
}
// `d` waits until it is its turn at this worker, or at any other.
[[gnu::always_inline]] inline void put_back(Worker& w, Descriptor* d) noexcept {
  d->state = ThreadState::kReady;
  if (is_high(d)) [[unlikely]]
    mine().high.push(d);
  else if (!w.ring.try_push(d)) [[unlikely]]
    mine().ready.push(d);
  ring_lightly();
}
inline bool is_on_native(const Worker& w) noexcept {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return here - reinterpret_cast<std::uintptr_t>(w.native_low) < w.native_bytes;
}
// As ult::make_ready.
[[gnu::always_inline]] inline void make_ready(Descriptor* d, bool released) noexcept {
  Worker* const w = current_worker();
  const bool at_once = w && is_on_native(*w) && !d->proxy && !d->os_thread;
  if (at_once && (config().processes == 1 || config().hooks.home(d) == config().process)) return put_back(*w, d);
  ult::make_ready(d, released);
}

// The next of the worker's ring, unless it may be somebody else's turn: for that there is schedule_slowly(). `mask`: how often
// to look. Null: there is none, others may come first, or somebody wants to know where it was.
[[gnu::always_inline]] inline Descriptor* take_next(Worker& w, std::uint32_t mask) noexcept {
  if (((w.takes + 1) & mask) == 0 || has_timers() || finished() || high_is_ready() || config().hooks.moved ||
      !w.deque.looks_empty())
    return nullptr;
  Descriptor* const d = w.ring.pop();
  if (d) ++w.takes;
  return d;
}
// As ult::schedule.
[[gnu::always_inline]] inline void* schedule(Worker& w) noexcept {
  Descriptor* const d = take_next(w, kClockMask);
  if (!d) return schedule_slowly(w);
  if (d->needs_acquire || d->fault_frame) [[unlikely]]
    return resume_here(w, d);
  w.current = d;
  d->state = ThreadState::kRunning;
  *w.eh = {d->eh_caught, d->eh_uncaught};
  *w.errno_address = d->saved_errno;
  return d->sp;
}

}  // namespace native

// As on_native().
template <Operation operation>
[[gnu::always_inline]] inline void on_native(void* argument) noexcept {
  Worker* const w = current_worker();
  Descriptor* const self = w->current;
  native::save_private(*w, self);
  w->argument = argument;
  fiber::leave_thread(*w, self, false);
  ayt_switch_call(&self->sp, w->native_sp, &native::main_of<operation>, w);
  if constexpr (fiber::kActive) fiber::arrived_thread(*current_worker(), self);
}

// As call_on_native().
[[gnu::always_inline]] inline void call_on_native_fast(void (*f)(void*), void* argument) noexcept {
  Worker* const w = current_worker();
  Descriptor* const self = w->current;
  const auto used = static_cast<std::size_t>(self->stack_top - static_cast<std::byte*>(__builtin_frame_address(0)));
  if (fiber::kActive || config().hooks.user_mode || used + native::kFrameRoom > config().stack_room_bytes ||
      native::keeps_too_many(*w)) [[unlikely]]
    return call_on_native(f, argument);
  const int error = *w->errno_address;
  ayt_call_native(f, argument, &self->sp, w->native_sp);
  *w->errno_address = error;
  worker_used();
}

}  // namespace ayatori::ult
