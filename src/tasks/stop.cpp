// SPDX-License-Identifier: Apache-2.0
#include "tasks/stop.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "dsm/fault/dispatch.hpp"
#include "dsm/fault/interpose.hpp"

namespace ayatori::tasks::stop {
namespace {

constexpr std::int64_t kAnswerNs = 500 * base::kNsPerMs;
constexpr std::int64_t kStopNs = 1'000 * base::kNsPerMs;
constexpr int kBelowMax = 3;  // SIGRTMAX - 3: programs count from the ends

enum Phase : std::uint32_t { kIdle, kAsked, kStopped, kGoOn };

struct State {
  int signal_number = 0;  // Constant after start(). 0: cannot be stopped.
  std::atomic<int> tid{0};
  std::atomic<std::uint32_t> phase{kIdle};
  Stopped stopped;  // written by the handler before kStopped
};
constinit State state;

long futex(int op, std::uint32_t value, const timespec* timeout) noexcept {
  return dsm::fault::raw_syscall(SYS_futex, reinterpret_cast<long>(&state.phase), op, value,
                                 reinterpret_cast<long>(timeout), 0, 0);
}
[[maybe_unused]] void wake() noexcept { futex(FUTEX_WAKE, 1, nullptr); }

[[maybe_unused]] void on_signal(int, siginfo_t*, void* argument) {
  const long tid = dsm::fault::raw_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
  std::uint32_t asked = kAsked;
  if (state.tid.load(std::memory_order_acquire) == tid) {  // H3; pairs with stop_thread()
    const auto* const context = static_cast<const ucontext_t*>(argument);
    const auto low = reinterpret_cast<std::uint64_t>(context->uc_stack.ss_sp);
    state.stopped = {reinterpret_cast<std::uint64_t>(context), low, low + context->uc_stack.ss_size};
    // release: publishes `stopped` to stop_thread()
    if (state.phase.compare_exchange_strong(asked, kStopped, std::memory_order_acq_rel)) {
      wake();
      constexpr std::int64_t kStep = 20 * base::kNsPerMs;
      const timespec step{0, kStep};
      for (std::int64_t waited = 0; waited < kStopNs; waited += kStep) {  // H1
        if (state.phase.load(std::memory_order_acquire) != kStopped) break;
        futex(FUTEX_WAIT, kStopped, &step);
      }
      state.phase.store(kIdle, std::memory_order_release);  // pairs with resume_thread()
    }
  }
}

bool wait_until_not(std::uint32_t phase, std::int64_t limit_ns) noexcept {
  const std::int64_t deadline = base::real_now_ns() + limit_ns;
  while (state.phase.load(std::memory_order_acquire) == phase) {
    const std::int64_t left = deadline - base::real_now_ns();
    if (left <= 0) return false;
    base::futex_wait(state.phase, phase, left < base::kNsPerMs ? left : base::kNsPerMs);
  }
  return true;
}

}  // namespace

bool start() {
#if AYT_THREAD_SANITIZER
  return false;
#else
  if (state.signal_number != 0) return true;
  const int number = SIGRTMAX - kBelowMax;
  struct sigaction old{};
  if (sigaction(number, nullptr, &old) != 0 || old.sa_handler != SIG_DFL) return false;
  struct sigaction action{};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  if (sigaction(number, &action, nullptr) != 0) return false;
  state.signal_number = number;
  return true;
#endif
}

bool stop_thread(int tid, Stopped& stopped) {
  if (state.signal_number == 0) return false;
  struct sigaction now{};
  if (sigaction(state.signal_number, nullptr, &now) != 0 || now.sa_sigaction != on_signal) return false;
  state.tid.store(tid, std::memory_order_relaxed);  // published by the next line
  state.phase.store(kAsked, std::memory_order_release);
  if (syscall(SYS_tgkill, getpid(), tid, state.signal_number) != 0 || !wait_until_not(kAsked, kAnswerNs)) {
    std::uint32_t asked = kAsked;
    if (state.phase.compare_exchange_strong(asked, kIdle, std::memory_order_acq_rel)) return false;
  }
  stopped = state.stopped;
  return true;
}

void resume_thread() noexcept {
  std::uint32_t phase = kStopped;
  if (state.phase.compare_exchange_strong(phase, kGoOn, std::memory_order_acq_rel)) {
    base::futex_wake(state.phase, base::kAllWaiters);
    wait_until_not(kGoOn, kStopNs);
  }
  state.phase.store(kIdle, std::memory_order_relaxed);
}

}  // namespace ayatori::tasks::stop
