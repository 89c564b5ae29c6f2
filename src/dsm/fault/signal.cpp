// SPDX-License-Identifier: Apache-2.0
// The signal code, alone: handlers for page faults (SIGBUS or SIGSEGV) and caught system calls (SIGSYS), and the
// program's own handlers for these signals, which are called for what is not ours.
//
// Runs on the thread that faulted, at any instruction of user code. May call: the hooks (engine.hpp), catch_syscall(),
// swap_selector(), gas look-ups, ayt_raw_syscall(), memcpy, errno; nothing that locks, allocates or formats
// (tests/unit/dsm/fault_symbols.sh holds the object file to it).
//
// S1. SIGSEGV, SIGBUS and SIGSYS belong to us in the kernel from install_handlers() on; what the program asks for them
//     is kept in `program` and called for faults outside the space. A default action is put back into the kernel and
//     the access repeated, so that the process dies of the real fault, core dump and exit status included.
// S2. These three are never blocked (a fault while blocked kills): masks that the program sets lose them.
// S3. Handlers return through our restorer, which lies in the range that Syscall User Dispatch always allows.
// S4. The selector is ALLOW while our code runs and what it was when user code goes on.
// S5. errno is what it was.
#include "dsm/fault/signals.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "dsm/fault/dispatch.hpp"
#include "dsm/fault/engines.hpp"

namespace ayatori::dsm {
namespace fault {
namespace {

// The program's wish for one signal. Written by its threads and signal handlers, read by ours; the fields are
// independent atomics: a torn pair is what a program gets that changes its handler while the signal arrives.
struct ProgramAction {
  std::atomic<void*> handler{nullptr};  // SIG_DFL
  std::atomic<unsigned long> flags{0};
  std::atomic<std::uint64_t> mask{0};
};

struct SignalState {
  FaultHooks hooks;  // Constant after install_handlers().
  int fault_signal =
      0;  // Constant after install_handlers() but in forked children. 0: nothing to resolve, one process.
  std::atomic<bool> installed{false};
  ProgramAction program[kSignals];
};
constinit SignalState signals;

constexpr std::uint64_t bit(int signal_number) { return std::uint64_t{1} << (signal_number - 1); }
constexpr std::uint64_t kOurs = bit(SIGSEGV) | bit(SIGBUS) | bit(SIGSYS);

constexpr unsigned long kRestorer = 0x04000000;             // SA_RESTORER
constexpr std::uint64_t kFaultWrite = 2, kFaultFetch = 16;  // bits of the page-fault error code

long kernel_action(int signal_number, const KernelAction* set, KernelAction* old) {
  return raw_syscall(SYS_rt_sigaction, signal_number, reinterpret_cast<long>(set), reinterpret_cast<long>(old),
                     sizeof(std::uint64_t), 0, 0);
}

// S1. For a synchronous fault the caller returns and the access is repeated; else the signal is sent again.
void die_by_default(int signal_number, bool synchronous) {
  const KernelAction action{};
  kernel_action(signal_number, &action, nullptr);
  if (synchronous) return;
  raw_syscall(SYS_tgkill, raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0), raw_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0),
              signal_number, 0, 0, 0);
}

// Gives the signal to the program.
void chain(int signal_number, siginfo_t* info, void* context) {
  ProgramAction& wish = signals.program[signal_number];
  const bool synchronous = info->si_code > 0;
  void* handler = wish.handler.load(std::memory_order_relaxed);
  const unsigned long flags = wish.flags.load(std::memory_order_relaxed);
  if (handler == reinterpret_cast<void*>(SIG_IGN) && !synchronous) return;
  if (handler == reinterpret_cast<void*>(SIG_DFL) || handler == reinterpret_cast<void*>(SIG_IGN))
    return die_by_default(signal_number, synchronous);
  if (flags & SA_RESETHAND) wish.handler.store(reinterpret_cast<void*>(SIG_DFL), std::memory_order_relaxed);
  const std::uint64_t block = wish.mask.load(std::memory_order_relaxed) & ~kOurs;
  std::uint64_t old = 0;
  if (block)
    raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, reinterpret_cast<long>(&block), reinterpret_cast<long>(&old), sizeof old,
                0, 0);
  reinterpret_cast<void (*)(int, siginfo_t*, void*)>(handler)(signal_number, info, context);
  if (block) raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&old), 0, sizeof old, 0, 0);
}

// An address of the space where nothing was allocated: to the program an ordinary segmentation fault.
void chain_wild(siginfo_t info, void* context) {
  if (signals.program[SIGSEGV].handler.load(std::memory_order_relaxed) == reinterpret_cast<void*>(SIG_DFL))
    return die_by_default(SIGSEGV, false);  // repeated, the access could raise another signal
  info.si_signo = SIGSEGV;
  info.si_code = SEGV_MAPERR;
  chain(SIGSEGV, &info, context);
}

// Did the interrupted code run on the stack whose guard this is? Else the address is wild.
bool on_stack_of(const void* guard, const void* context) {
  const auto sp = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP];
  const void* top = reinterpret_cast<const void*>(sp);
  return gas::contains(top) && gas::slot_of(gas::page_of(top)) == gas::slot_of(gas::page_of(guard));
}

bool left_its_stack(const void* address, const void* context) {
  return gas::is_stack(gas::page_of(address)) && signals.hooks.is_beyond_stack &&
         signals.hooks.is_beyond_stack(context);
}

extern "C" void ayt_on_fault(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const char selector = swap_selector(kSelectorAllow);  // S4
  const auto error_code = static_cast<std::uint64_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR]);
  void* address = info->si_addr;
  if (info->si_code > 0 && gas::contains(address) && !(error_code & kFaultFetch)) {
    const bool is_guard = signals.hooks.is_guard(address);
    if ((is_guard && on_stack_of(address, context)) || left_its_stack(address, context))
      signals.hooks.stack_overflow(address, context);
    if (is_guard) {
      swap_selector(selector);
      chain_wild(*info, context);
      errno = saved_errno;
      return;
    }
    if (signal_number == signals.fault_signal) {
      const bool resolved = signals.hooks.resolve(address, (error_code & kFaultWrite) != 0, context);
      swap_selector(selector);
      if (!resolved) chain_wild(*info, context);
      errno = saved_errno;
      return;
    }
  }
  swap_selector(selector);
  chain(signal_number, info, context);
  errno = saved_errno;
}

extern "C" void ayt_on_syscall(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const char selector = swap_selector(kSelectorAllow);  // S4
  if (info->si_code == kSiUserDispatch) {
    bool catching;
    {
      const InlineFaults no_parking;
      catching = catch_syscall(static_cast<ucontext_t*>(context));
    }
    if (catching) swap_selector(selector);
  } else {
    swap_selector(selector);
    chain(signal_number, info, context);
  }
  errno = saved_errno;
}

}  // namespace

void install_handlers(const FaultHooks& hooks, int fault_signal) {
  signals.hooks = hooks;
  signals.fault_signal = gas::layout().processes > 1 ? fault_signal : 0;
  set_prefault(hooks.prefault, hooks.is_guard);
  for (int s = 1; s < kSignals; ++s) {
    KernelAction old{};
    if (s == SIGKILL || s == SIGSTOP || kernel_action(s, nullptr, &old) != 0) continue;
    const bool ours = (kOurs & bit(s)) != 0;
    if (!ours && (old.handler == reinterpret_cast<void*>(SIG_DFL) || old.handler == reinterpret_cast<void*>(SIG_IGN)))
      continue;
    ProgramAction& wish = signals.program[s];
    wish.handler.store(old.handler, std::memory_order_relaxed);
    wish.flags.store(old.flags, std::memory_order_relaxed);
    wish.mask.store(old.mask, std::memory_order_relaxed);
    KernelAction action = old;
    if (ours) {
      action.handler = reinterpret_cast<void*>(s == SIGSYS ? ayt_on_syscall : ayt_on_fault);
      action.flags = SA_SIGINFO | SA_NODEFER;
    }
    action.flags |= SA_ONSTACK | kRestorer;
    action.restorer = reinterpret_cast<void*>(ayt_restorer);
    action.mask &= ~kOurs;
    if (ours) action.mask = 0;
    kernel_action(s, &action, nullptr);
  }
  signals.installed.store(true, std::memory_order_release);  // pairs with the acquire load in program_action()
}

long program_action(int signal_number, const KernelAction* set, KernelAction* old) {
  if (signal_number < 1 || signal_number >= kSignals) return -EINVAL;
  ProgramAction& wish = signals.program[signal_number];
  const KernelAction before{wish.handler.load(std::memory_order_relaxed), wish.flags.load(std::memory_order_relaxed),
                            nullptr, wish.mask.load(std::memory_order_relaxed)};
  const bool ours = (kOurs & bit(signal_number)) != 0 && signals.installed.load(std::memory_order_acquire);
  KernelAction kernel_old{};
  if (!ours) {
    KernelAction action{};
    if (set) {
      action = *set;
      action.flags |= SA_ONSTACK | kRestorer;
      action.restorer = reinterpret_cast<void*>(ayt_restorer);
      action.mask &= ~kOurs;
    }
    const long result = kernel_action(signal_number, set ? &action : nullptr, &kernel_old);
    if (result != 0) return result;
  }
  if (set) {
    wish.flags.store(set->flags, std::memory_order_relaxed);
    wish.mask.store(set->mask, std::memory_order_relaxed);
    wish.handler.store(set->handler, std::memory_order_relaxed);
  }
  if (old) {
    // What the kernel holds counts (SA_RESETHAND, handlers set elsewhere); flags and mask are the program's own.
    *old = ours || kernel_old.handler == before.handler ? before : kernel_old;
    old->flags &= ~kRestorer;
  }
  return 0;
}

void forget_faults() noexcept { signals.fault_signal = 0; }

std::uint64_t without_ours(std::uint64_t mask) noexcept { return mask & ~kOurs; }

}  // namespace fault
}  // namespace ayatori::dsm
