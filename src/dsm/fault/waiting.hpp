// SPDX-License-Identifier: Apache-2.0
// Library functions that may wait, called on user-level threads: the layer above makes the call, and lets another thread
// run meanwhile (src/tasks/waiting_calls.cpp). The functions are defined in wrap.cpp and waiting.cpp.
//
// Who calls it: set_waiting_calls() the start of a member, before there are threads; the others the program's threads.
#pragma once

#include <atomic>
#include <cerrno>
#include <type_traits>

namespace ayatori::dsm {

struct WaitingCalls {
  // Is the caller a user-level thread?
  bool (*on_thread)() noexcept = nullptr;
  // Makes the system call, on that thread; what the kernel returns. May end the thread.
  long (*make)(long number, long* arguments) = nullptr;
};
void set_waiting_calls(const WaitingCalls* calls) noexcept;  // null: all calls are the C library's. Kept.

// A system call of the program, now: the kernel gets the program's buffers wherever they lie. On a native stack, where
// fault::guards_calls(); elsewhere on any. Result or -errno.
long make_call(long number, long* arguments) noexcept;

namespace fault {

// Constant while there are threads. Null again in the child of a fork, where nobody would resume a thread.
extern constinit std::atomic<const WaitingCalls*> waiting_calls;

inline bool may_let_others_run() noexcept {
  const WaitingCalls* const calls = waiting_calls.load(std::memory_order_relaxed);  // constant
  return calls != nullptr && calls->on_thread();
}

// Never inlined: compilers take errno's address for a constant, and the thread may have changed its OS thread.
[[gnu::noinline]] int get_errno() noexcept;
[[gnu::noinline]] void set_errno(int error) noexcept;

template <class T>
long word(T value) {
  if constexpr (std::is_pointer_v<T>)
    return reinterpret_cast<long>(value);
  else
    return static_cast<long>(value);
}

// Only where may_let_others_run(). With the library's way to tell errors.
template <class... Args>
long waiting_call(long number, Args... args) {
  long a[6] = {};
  int i = 0;
  ((a[i++] = word(args)), ...);
  const long r = waiting_calls.load(std::memory_order_relaxed)->make(number, a);
  if (r >= 0) return r;
  set_errno(static_cast<int>(-r));
  return -1;
}

}  // namespace fault
}  // namespace ayatori::dsm
