// SPDX-License-Identifier: Apache-2.0
// Functions of the C library that this library defines in its stead (program_signals.cpp, process.cpp, wrap.cpp). The
// static library is searched before the C library, so the program and the shared libraries that it loads get ours.
#pragma once

#include <dlfcn.h>

#include <atomic>

#include "base/check.hpp"

#if defined(__SANITIZE_THREAD__)
#define AYT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define AYT_THREAD_SANITIZER 1
#endif
#endif
#ifndef AYT_THREAD_SANITIZER
#define AYT_THREAD_SANITIZER 0
#endif

namespace ayatori::dsm::fault {

// Make the linker take the files in (engine.cpp refers to them), and look up what they stand in for.
void bind_program_signals();
void bind_process_calls();
void bind_wrappers();
void bind_waiting_calls();

// The definition that ours hides, looked up on first use.
template <class F>
class Hidden {
 public:
  explicit constexpr Hidden(const char* name) : name_(name) {}
  F* get() noexcept {
    F* f = function_.load(std::memory_order_relaxed);  // every thread would store the same
    if (!f) {
      f = reinterpret_cast<F*>(dlsym(RTLD_NEXT, name_));
      AYT_CHECK(f != nullptr, "the C library has no {}()", name_);
      function_.store(f, std::memory_order_relaxed);
    }
    return f;
  }

 private:
  const char* name_;
  std::atomic<F*> function_{nullptr};
};

}  // namespace ayatori::dsm::fault
