// SPDX-License-Identifier: Apache-2.0
// The fast paths of fork and join, inline for the interface above: a fork that nobody steals and its join are three calls
// into the library. What waits, refills or reaches other processes is out of line. Same contract as scheduler.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ult/fiber.hpp"
#include "ult/scheduler.hpp"

namespace ayatori::ult {

namespace slow {
Room allocate(std::size_t align, std::size_t bytes) noexcept;
bool join(Descriptor* child) noexcept;
// The caller moved to another process after it allocated the child: the child's stack follows.
void bring(Descriptor* child) noexcept;
}  // namespace slow

// The child's side of a fork, on the child's stack. Returns the context to resume.
void* child_main(void* child);

inline Room room_on(Descriptor* d, std::size_t align, std::size_t bytes) noexcept {
  auto top = reinterpret_cast<std::uintptr_t>(d->stack_top) - bytes;
  top &= ~(std::max<std::uintptr_t>(align, 16) - 1);
  void* object = reinterpret_cast<void*>(top);  // NOLINT: inside the slot
  ++d->generation;
  d->join.reset();
  d->object = object;
  d->stack_process = config().process;
  d->parent_handles = false;
  d->handed_out = false;
  d->high.store(false, std::memory_order_relaxed);
  d->ended = kUnknownTick;
  return {d, object};
}

inline void push_free(Worker& w, Descriptor* d) noexcept {
  d->next = w.free_threads;
  w.free_threads = d;
  ++w.free_count;
}

// thread is null when the worker has no free one.
inline Room take_free(Worker& w, std::size_t align, std::size_t bytes) noexcept {
  Descriptor* d = w.free_threads;
  if (!d) [[unlikely]]
    return {nullptr, nullptr};
  w.free_threads = d->next;
  --w.free_count;
  return room_on(d, align, bytes);
}

// thread is null when no stack is left, or the caller is no user-level thread.
inline Room allocate(std::size_t align, std::size_t bytes) noexcept {
  Worker* w = current_worker();
  if (!w) [[unlikely]]
    return {nullptr, nullptr};
  if (!w->free_threads) [[unlikely]]
    return slow::allocate(align, bytes);
  return take_free(*w, align, bytes);
}

// Child first. The caller has not moved to another process since allocate().
inline void fork_at_once(Descriptor* child, void (*invoke)(void*)) noexcept {
  Worker* w = current_worker();
  Descriptor* self = w->current;
  ++w->counters.forked;
  child->invoke = invoke;
  fiber::leave_for_child(*w, self, child);
  const auto sp = reinterpret_cast<std::uintptr_t>(child->object) & ~std::uintptr_t{15};
  ayt_switch_call(&self->sp, reinterpret_cast<void*>(sp), &child_main, child);  // NOLINT
  if constexpr (fiber::kActive) fiber::arrived_thread(*current_worker(), self);
}

// Child first.
inline void fork(Descriptor* child, void (*invoke)(void*)) noexcept {
  if (child->stack_process != config().process) [[unlikely]]
    slow::bring(child);
  fork_at_once(child, invoke);
}

// The child's error stays in it. False: the child is the caller itself.
inline bool join(Descriptor* child) noexcept {
  if (child->join.load() == config().done_here) [[likely]]
    return true;
  return slow::join(child);
}

// join() and reap() of a child that has ended here, without an error; false: nothing was done.
inline bool join_and_reap(Descriptor* child) noexcept {
  if (child->join.load() != config().done_here || child->error) [[unlikely]]
    return false;
  Worker* w = current_worker();
  if (w->free_count >= w->keep.load(std::memory_order_relaxed)) [[unlikely]]  // T4: a number alone
    return false;
  push_free(*w, child);
  worker_used();
  return true;
}

}  // namespace ayatori::ult
