// SPDX-License-Identifier: Apache-2.0
// The C library's calls about signal handlers, masks and alternate stacks, as the program makes them: same results, but
// our handlers stay in the kernel (S1, S2 in signal.cpp) and handlers run on alternate stacks. Any thread, also in signal
// handlers. Left out under ThreadSanitizer, which must see handlers itself.
#include <pthread.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "dsm/fault/dispatch.hpp"
#include "dsm/fault/interpose.hpp"
#include "dsm/fault/signals.hpp"

namespace ayatori::dsm::fault {
void bind_program_signals() {}

namespace {

constexpr int kFirstInternal = 32, kLastInternal = 33;  // of the C library's threads
constexpr std::uint64_t kInternalMask = std::uint64_t{3} << (kFirstInternal - 1);

[[maybe_unused]] int action(int signal_number, const struct sigaction* set, struct sigaction* old) {
  if (signal_number >= kFirstInternal && signal_number <= kLastInternal) {
    errno = EINVAL;
    return -1;
  }
  KernelAction kernel_set, kernel_old;
  if (set) {
    kernel_set.handler = reinterpret_cast<void*>(set->sa_handler);
    kernel_set.flags = static_cast<unsigned>(set->sa_flags);
    std::memcpy(&kernel_set.mask, &set->sa_mask, sizeof kernel_set.mask);
  }
  const long result = program_action(signal_number, set ? &kernel_set : nullptr, old ? &kernel_old : nullptr);
  if (result != 0) {
    errno = static_cast<int>(-result);
    return -1;
  }
  if (old) {
    std::memset(old, 0, sizeof *old);
    old->sa_handler = reinterpret_cast<sighandler_t>(kernel_old.handler);
    old->sa_flags = static_cast<int>(kernel_old.flags);
    std::memcpy(&old->sa_mask, &kernel_old.mask, sizeof kernel_old.mask);
  }
  return 0;
}

[[maybe_unused]] sighandler_t install(int signal_number, sighandler_t handler, int flags, bool mask_itself) {
  struct sigaction set = {}, old = {};
  set.sa_handler = handler;
  set.sa_flags = flags;
  sigemptyset(&set.sa_mask);
  if (mask_itself && signal_number > 0 && signal_number < kSignals) sigaddset(&set.sa_mask, signal_number);
  return action(signal_number, &set, &old) == 0 ? old.sa_handler : SIG_ERR;
}

// 0 or an error number.
[[maybe_unused]] int change_mask(int how, const sigset_t* set, sigset_t* old) {
  std::uint64_t mask = 0, before = 0;
  if (set) {
    std::memcpy(&mask, set, sizeof mask);
    if (how != SIG_UNBLOCK) mask = without_ours(mask) & ~kInternalMask;
  }
  const long result = raw_syscall(SYS_rt_sigprocmask, how, reinterpret_cast<long>(set ? &mask : nullptr),
                                  reinterpret_cast<long>(&before), sizeof mask, 0, 0);
  if (result != 0) return static_cast<int>(-result);
  if (old) {
    std::memset(old, 0, sizeof *old);
    std::memcpy(old, &before, sizeof before);
  }
  return 0;
}

}  // namespace
}  // namespace ayatori::dsm::fault

#if !AYT_THREAD_SANITIZER
using namespace ayatori::dsm;

extern "C" {

int sigaction(int signal_number, const struct sigaction* set, struct sigaction* old) noexcept {
  return fault::action(signal_number, set, old);
}
sighandler_t signal(int signal_number, sighandler_t handler) noexcept {
  return fault::install(signal_number, handler, SA_RESTART, true);
}
sighandler_t sysv_signal(int signal_number, sighandler_t handler) noexcept {
  return fault::install(signal_number, handler, static_cast<int>(SA_RESETHAND | SA_NODEFER), false);
}
sighandler_t __sysv_signal(int signal_number, sighandler_t handler) noexcept {
  return sysv_signal(signal_number, handler);
}
int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  const int error = fault::change_mask(how, set, old);
  if (error == 0) return 0;
  errno = error;
  return -1;
}
int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept { return fault::change_mask(how, set, old); }
int sigaltstack(const stack_t* set, stack_t* old) noexcept {
  long result;
  if (fault::bounce_buffer())  // this OS thread's alternate stack is ours
    result = fault::change_altstack(set, old);
  else
    result = fault::raw_syscall(SYS_sigaltstack, reinterpret_cast<long>(set), reinterpret_cast<long>(old), 0, 0, 0, 0);
  if (result == 0) return 0;
  errno = static_cast<int>(-result);
  return -1;
}

}  // extern "C"
#endif
