// SPDX-License-Identifier: Apache-2.0
// Common ground of the fault engine's tests: a space of two processes in a forked child (the engine starts once a
// process), a resolver that grants what is asked, and bodies that run on a stack of the space as user threads do.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#include <csignal>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "base/knobs.hpp"
#include "base/shared_lock.hpp"
#include "dsm/fault/engine.hpp"
#include "gas/space.hpp"

extern "C" void ayt_call_on(void* stack_top, void (*function)(void* argument, void* caller_sp), void* argument);

namespace fault_test {

using namespace ayatori;

inline constexpr int kOverflowStatus = 77;
inline constexpr std::size_t kGuardPages = 1;

struct Counters {
  base::SharedLock lock;  // stands in for the process lock
  std::atomic<int> reads{0}, writes{0};
};
inline Counters counters;

inline bool resolve(void* address, bool write, void*) {
  counters.lock.lock();
  const gas::PageIndex page = gas::page_of(address);
  ++(write ? counters.writes : counters.reads);
  if (write)
    dsm::engine().map_write(page, 1);
  else
    dsm::engine().map_read(page, 1);
  counters.lock.unlock();
  return true;
}
inline void overflow(void*, void*) { _exit(kOverflowStatus); }
inline bool is_guard(const void* address) {
  const gas::PageIndex page = gas::page_of(address);
  return gas::is_stack(page) && page % gas::layout().slot_pages < kGuardPages;
}
inline void zap(gas::PageIndex first, std::size_t pages) {
  counters.lock.lock();
  dsm::engine().zap(first, pages);
  counters.lock.unlock();
}

// Fails the child at once: gtest's own failures would stay in it.
#define MUST(condition)                                                                                        \
  do {                                                                                                         \
    if (!(condition)) {                                                                                        \
      char line_[512];                                                                                         \
      const int n_ =                                                                                           \
          std::snprintf(line_, sizeof line_, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
      if (::write(2, line_, static_cast<std::size_t>(n_)) < 0) ::_exit(2);                                     \
      ::_exit(1);                                                                                              \
    }                                                                                                          \
  } while (false)

struct Setup {
  const char* engine = "auto";
  int processes = 2;
  const char* syscalls = "auto";
  std::size_t space_bytes = std::size_t{1} << 30;
};

inline std::string fallback_reason;

// Sanitizers have handlers of their own for crashes: without them a crash is one.
inline void default_crashes() {
  signal(SIGSEGV, SIG_DFL);
  signal(SIGBUS, SIG_DFL);
}

inline void start(const Setup& setup) {
  MUST(base::set_knob("AYATORI_SYSCALLS", setup.syscalls).ok());
  gas::reserve(setup.processes,
               {base::knob_size("AYATORI_SPACE_BASE"), setup.space_bytes, std::size_t{1} << 20, std::size_t{1} << 20});
  gas::attach(0);
  dsm::start_engine(setup.engine, setup.processes, {resolve, overflow, is_guard, nullptr}, &fallback_reason);
  dsm::enter_os_thread();
}

// Wait status of a child that runs the body; a child that hangs dies of SIGALRM.
inline int child_status(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(100);
    body();
    std::fflush(nullptr);
    _exit(0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}
inline void expect_child_passes(const std::function<void()>& body) {
  const int status = child_status(body);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
}
inline void expect_child_dies_of(int signal_number, const std::function<void()>& body) {
  const int status = child_status(body);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal_number) << "wait status " << status;
}
inline void expect_child_exits_with(int code, const std::function<void()>& body) {
  const int status = child_status(body);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == code) << "wait status " << status;
}

// Pages that the other process owns.
inline gas::PageIndex foreign_page() {
  const gas::Layout& l = gas::layout();
  return static_cast<gas::PageIndex>(l.arena_first + l.arena_pages);
}
inline std::byte* user(gas::PageIndex page) { return gas::user_view() + (std::size_t{page} << gas::kPageShift); }
inline std::byte* system(gas::PageIndex page) { return gas::page_in(0, page); }

// Tells AddressSanitizer about a change of stacks.
struct StackSwitch {
  const std::function<void()>* body;
  void* bottom;
  std::size_t bytes;
  void* fake = nullptr;
  const void* old_bottom = nullptr;
  std::size_t old_bytes = 0;
#if defined(__SANITIZE_ADDRESS__)
  void leave() { __sanitizer_start_switch_fiber(&fake, bottom, bytes); }
  void arrive() { __sanitizer_finish_switch_fiber(nullptr, &old_bottom, &old_bytes); }
  void go_back() { __sanitizer_start_switch_fiber(nullptr, old_bottom, old_bytes); }
  void be_back() { __sanitizer_finish_switch_fiber(fake, nullptr, nullptr); }
#else
  void leave() {}
  void arrive() {}
  void go_back() {}
  void be_back() {}
#endif
};

// Runs the body on a never-touched stack of the space with calls caught, as a user-level thread would.
inline void on_space_stack(const std::function<void()>& body, gas::SlotIndex slot = 3) {
  const gas::Layout& l = gas::layout();
  dsm::engine().guard(gas::slot_first(slot), kGuardPages, l.slot_pages);
  StackSwitch call{&body, user(gas::slot_first(slot)), l.slot_pages << gas::kPageShift};
  call.leave();
  ayt_call_on(
      user(static_cast<gas::PageIndex>(gas::slot_first(slot) + l.slot_pages)),
      [](void* argument, void*) {
        auto* c = static_cast<StackSwitch*>(argument);
        c->arrive();
        dsm::set_syscall_catching(true);
        (*c->body)();
        dsm::set_syscall_catching(false);
        c->go_back();
      },
      &call);
  call.be_back();
}

// Takes pages away all the time while it lives.
class Zapper {
 public:
  Zapper(gas::PageIndex first, std::size_t pages)
      : thread_([this, first, pages] {
          unsigned seed = 1;
          while (!stop_.load(std::memory_order_relaxed)) {
            seed = seed * 1664525u + 1013904223u;
            const auto at = static_cast<gas::PageIndex>((seed >> 8) % pages);
            zap(first + at, std::min<std::size_t>(1 + seed % 3, pages - at));
            std::this_thread::yield();
          }
        }) {}
  ~Zapper() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace fault_test
