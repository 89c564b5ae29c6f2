// SPDX-License-Identifier: Apache-2.0
// A system call that Syscall User Dispatch caught: decides who makes it and how (C3 and C4 of syscalls.cpp). Called by the
// SIGSYS handler on the alternate stack with catching off.
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "dsm/fault/signals.hpp"
#include "dsm/fault/user_memory.hpp"

extern "C" {
extern const char ayt_stubs[];
extern std::atomic<std::uint64_t> ayt_stub_targets[];  // bound once each, by compare-and-swap
}

namespace ayatori::dsm::fault {
namespace {

constexpr std::size_t kStubs = 1024, kStubBytes = 8;     // as in dispatch_x86_64.S
constexpr greg_t kCallBytes = 2;                         // of the instruction syscall
constexpr int kAutoDisarm = static_cast<int>(1u << 31);  // SS_AUTODISARM

void change_mask(ucontext_t* context, long* a, long* result) {
  std::uint64_t mask;
  std::memcpy(&mask, &context->uc_sigmask, sizeof mask);
  const std::uint64_t old = mask;
  *result = a[2] != 0 && !readable(a[2], sizeof old) ? -EFAULT : 0;
  if (*result != 0) return;
  if (a[1] != 0) {
    std::uint64_t set;
    if (!readable(a[1], sizeof set)) {
      *result = -EFAULT;
      return;
    }
    std::memcpy(&set, as_pointer<void>(a[1]), sizeof set);
    switch (a[0]) {
      case SIG_BLOCK: mask |= set; break;
      case SIG_UNBLOCK: mask &= ~set; break;
      case SIG_SETMASK: mask = set; break;
      default: *result = -EINVAL; return;
    }
    mask = without_ours(mask);
    std::memcpy(&context->uc_sigmask, &mask, sizeof mask);  // in force when the handler returns
  }
  if (a[2] != 0) std::memcpy(as_pointer<void>(a[2]), &old, sizeof old);
}

const char* stub_for(std::uint64_t site) {
  std::size_t at = (site * 0x9E3779B97F4A7C15u) >> 54;
  for (std::size_t i = 0; i < kStubs; ++i, at = (at + 1) % kStubs) {
    std::uint64_t target = ayt_stub_targets[at].load(std::memory_order_relaxed);  // a word that never changes again
    if (target == 0 && ayt_stub_targets[at].compare_exchange_strong(target, site, std::memory_order_relaxed))
      target = site;
    if (target == site) return ayt_stubs + at * kStubBytes;
  }
  return nullptr;
}

}  // namespace

long change_altstack(const stack_t* set, stack_t* old) {
  stack_t& wish = program_altstack();
  const stack_t before = wish;
  if (old && !readable(as_long(old), sizeof *old)) return -EFAULT;
  if (set) {
    if (!readable(as_long(set), sizeof *set)) return -EFAULT;
    const stack_t copy = *set;
    if (copy.ss_flags & ~(SS_DISABLE | SS_ONSTACK | kAutoDisarm)) return -EINVAL;
    wish = copy;
  }
  if (old) *old = before;
  return 0;
}

bool catch_syscall(ucontext_t* context) noexcept {
  auto* r = context->uc_mcontext.gregs;
  const long number = static_cast<long>(r[REG_RAX]);
  long a[6] = {static_cast<long>(r[REG_RDI]), static_cast<long>(r[REG_RSI]), static_cast<long>(r[REG_RDX]),
               static_cast<long>(r[REG_R10]), static_cast<long>(r[REG_R8]),  static_cast<long>(r[REG_R9])};
  long result = 0;
  switch (number) {
    case SYS_rt_sigreturn:  // by a restorer that is not ours: its frame is good for ours too
      r[REG_RIP] = as_long(reinterpret_cast<void*>(ayt_restorer));
      return true;
    case SYS_rt_sigprocmask:
      if (a[3] != sizeof(std::uint64_t)) break;
      change_mask(context, a, &result);
      r[REG_RAX] = result;
      return true;
    case SYS_rt_sigaction: {
      if (a[3] != sizeof(std::uint64_t)) break;
      KernelAction set, old;
      if ((a[1] != 0 && !readable(a[1], sizeof set)) || (a[2] != 0 && !readable(a[2], sizeof old))) {
        r[REG_RAX] = -EFAULT;
        return true;
      }
      if (a[1] != 0) std::memcpy(&set, as_pointer<void>(a[1]), sizeof set);
      result = program_action(static_cast<int>(a[0]), a[1] != 0 ? &set : nullptr, &old);
      if (result == 0 && a[2] != 0) std::memcpy(as_pointer<void>(a[2]), &old, sizeof old);
      r[REG_RAX] = result;
      return true;
    }
    case SYS_clone3: {  // C3; its arguments may lie in the space, the thread starts behind the call
      Bounce bounce;
      const auto bytes = static_cast<std::size_t>(a[1]);
      std::byte* copy =
          in_space(a[0]) && bytes <= gas::kPageBytes && readable(a[0], bytes) ? bounce.take(bytes) : nullptr;
      if (copy) {
        std::memcpy(copy, as_pointer<void>(a[0]), bytes);
        r[REG_RDI] = as_long(copy);
      }
      break;
    }
    case SYS_sigaltstack:
      r[REG_RAX] = change_altstack(as_pointer<const stack_t>(a[0]), as_pointer<stack_t>(a[1]));
      return true;
    default: break;
  }
  if (concerns_space(number, a)) {
    r[REG_RAX] = guarded_call(number, a);
    return true;
  }
  // C3. RIP lies behind the call instruction, where the stub goes on.
  if (const char* stub = stub_for(static_cast<std::uint64_t>(r[REG_RIP]))) {
    r[REG_RIP] = as_long(stub);
    return true;
  }
  r[REG_RIP] -= kCallBytes;  // more call sites than stubs: once more, uncaught
  return false;
}

}  // namespace ayatori::dsm::fault
