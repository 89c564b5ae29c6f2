// SPDX-License-Identifier: Apache-2.0
// What sanitizers must be told about stacks that are switched. Nothing in ordinary builds. Called in pairs around each
// switch: leave_* on the old stack, arrived_* on the new one. before_unwind() precedes an unwinding that is not a throw.
#pragma once

#include "ult/scheduler.hpp"
#include "ult/thread.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define AYT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define AYT_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define AYT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define AYT_TSAN 1
#endif
#endif

#if defined(AYT_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(AYT_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

// A function that begins on one fiber and returns on another. ThreadSanitizer keeps a call stack per fiber: it would push
// the function's entry on the one and pop its exit from the other. What such a function calls is watched as ever.
#if !defined(AYT_TSAN)
#define AYT_CROSSES_FIBERS
#elif defined(__clang__)
#define AYT_CROSSES_FIBERS __attribute__((disable_sanitizer_instrumentation))
#else
#define AYT_CROSSES_FIBERS __attribute__((no_sanitize("thread")))
#endif

namespace ayatori::ult::fiber {

#if defined(AYT_ASAN) || defined(AYT_TSAN)
inline constexpr bool kActive = true;
#else
inline constexpr bool kActive = false;
#endif

#if defined(AYT_ASAN)

inline void to_thread(void** keep, const Descriptor* d) noexcept {
  std::byte* top = stack_top(d);
  __sanitizer_start_switch_fiber(keep, top - config().stack_bytes, config().stack_bytes);
}
inline void leave_for_child(Worker&, Descriptor* self, Descriptor* child) noexcept {
  child->sanitizer = nullptr;
  to_thread(&self->sanitizer, child);
}
inline void leave_thread(Worker& w, Descriptor* self, bool ends) noexcept {
  if (ends) {  // its last frames never return: what they poisoned would hit the next thread on this stack
    std::byte* from = static_cast<std::byte*>(__builtin_frame_address(0)) - 1024;
    __asan_unpoison_memory_region(from, static_cast<std::size_t>(stack_top(self) - from));
  }
  __sanitizer_start_switch_fiber(ends ? nullptr : &self->sanitizer, w.native_low, w.native_bytes);
}
inline void end_thread_to(Worker&, Descriptor*, Descriptor* parent) noexcept { to_thread(nullptr, parent); }
inline void arrived_thread(Worker&, Descriptor* d) noexcept {
  __sanitizer_finish_switch_fiber(d->sanitizer, nullptr, nullptr);
}
inline void arrived_native(Worker& w) noexcept {
  __sanitizer_finish_switch_fiber(w.sanitizer_native, &w.sanitizer_low, &w.sanitizer_bytes);
  if (!w.os_low) {
    w.os_low = w.sanitizer_low;
    w.os_bytes = w.sanitizer_bytes;
  }
}
inline void leave_native(Worker& w, bool to_os) noexcept {
  if (to_os)
    __sanitizer_start_switch_fiber(nullptr, w.os_low, w.os_bytes);
  else
    to_thread(&w.sanitizer_native, w.current);
}
inline void leave_os(Worker& w) noexcept {
  w.os_low = nullptr;
  w.sanitizer_native = nullptr;
  __sanitizer_start_switch_fiber(&w.sanitizer_os, w.native_low, w.native_bytes);
}
inline void arrived_os(Worker& w) noexcept { __sanitizer_finish_switch_fiber(w.sanitizer_os, nullptr, nullptr); }
// The frames that are cut off leave no poison behind, as before a throw.
inline void before_unwind() noexcept { __asan_handle_no_return(); }

#elif defined(AYT_TSAN)

// A descriptor keeps its fiber while its threads return from their first function; one that ends anywhere else leaves
// entries on the fiber's call stack, so the fiber goes with it.
inline void* of(Descriptor* d) noexcept {
  if (!d->sanitizer) d->sanitizer = __tsan_create_fiber(0);
  return d->sanitizer;
}
AYT_CROSSES_FIBERS inline void leave_for_child(Worker&, Descriptor*, Descriptor* child) noexcept {
  __tsan_switch_to_fiber(of(child), 0);
}
AYT_CROSSES_FIBERS inline void leave_thread(Worker& w, Descriptor* self, bool ends) noexcept {
  if (ends) {
    w.sanitizer_ended = self->sanitizer;
    self->sanitizer = nullptr;
  }
  __tsan_switch_to_fiber(w.sanitizer_native, 0);
}
AYT_CROSSES_FIBERS inline void end_thread_to(Worker&, Descriptor*, Descriptor* parent) noexcept {
  __tsan_switch_to_fiber(of(parent), 0);
}
inline void arrived_thread(Worker&, Descriptor*) noexcept {}
inline void arrived_native(Worker& w) noexcept {
  if (!w.sanitizer_ended) return;
  __tsan_destroy_fiber(w.sanitizer_ended);
  w.sanitizer_ended = nullptr;
}
AYT_CROSSES_FIBERS inline void leave_native(Worker& w, bool to_os) noexcept {
  __tsan_switch_to_fiber(to_os ? w.sanitizer_os : of(w.current), 0);
}
AYT_CROSSES_FIBERS inline void leave_os(Worker& w) noexcept {
  w.sanitizer_os = __tsan_get_current_fiber();
  w.sanitizer_native = __tsan_create_fiber(0);
  __tsan_switch_to_fiber(w.sanitizer_native, 0);
}
inline void arrived_os(Worker& w) noexcept { __tsan_destroy_fiber(w.sanitizer_native); }
inline void before_unwind() noexcept {}

#else

inline void leave_for_child(Worker&, Descriptor*, Descriptor*) noexcept {}
inline void leave_thread(Worker&, Descriptor*, bool) noexcept {}
inline void end_thread_to(Worker&, Descriptor*, Descriptor*) noexcept {}
inline void arrived_thread(Worker&, Descriptor*) noexcept {}
inline void arrived_native(Worker&) noexcept {}
inline void leave_native(Worker&, bool) noexcept {}
inline void leave_os(Worker&) noexcept {}
inline void arrived_os(Worker&) noexcept {}
inline void before_unwind() noexcept {}

#endif

}  // namespace ayatori::ult::fiber
