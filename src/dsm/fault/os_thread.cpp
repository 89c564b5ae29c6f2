// SPDX-License-Identifier: Apache-2.0
// What an OS thread needs before it runs code that uses the space: an alternate signal stack, and Syscall User Dispatch
// with its selector. Called by the runtime on native stacks; the selector also in signal handlers.
//
// T1. The selector lies in static TLS: the kernel reads it at every system call, handlers reach it without allocation.
// T2. Code on stacks of the space never keeps the selector's address over a call (its OS thread may change).
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/knobs.hpp"
#include "dsm/fault/dispatch.hpp"
#include "dsm/fault/engines.hpp"
#include "dsm/fault/interpose.hpp"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#endif

namespace ayatori::dsm {
namespace fault {

thread_local volatile char selector = kSelectorAllow;

char swap_selector(char value) noexcept {
  const char old = selector;
  selector = value;
  return old;
}

namespace {

// Frames of a handler with AVX-512 state are 3 KB (AMX: 11 KB); faults nest two or three deep in handlers.
constexpr std::size_t kAltStackBytes = 128 * 1024;
constexpr std::size_t kBlockBytes = gas::kPageBytes + kAltStackBytes + kBounceBytes;  // guard page, stack, bounce

struct OsThread {
  int inline_faults = 0;
  std::byte* block = nullptr;
  stack_t before{};
  stack_t program{nullptr, SS_DISABLE, 0};
};
thread_local OsThread os_thread [[gnu::tls_model("initial-exec")]];

// Of an OS thread that is no worker: made when it first hands memory of the space to a wrapped function.
struct OwnBounce {
  std::byte* bytes = nullptr;
  ~OwnBounce() {
    if (bytes) munmap(std::exchange(bytes, nullptr), kBounceBytes);
  }
};
thread_local OwnBounce own_bounce;

enum class Mode { kNone, kDispatch, kWrap };

struct DispatchState {
  Mode mode = Mode::kNone;  // Constant after choose_syscall_mode().
};
constinit DispatchState dispatch;

bool dispatch_on() {
  const auto begin = reinterpret_cast<unsigned long>(ayt_dispatch_begin);
  const auto length = static_cast<unsigned long>(ayt_dispatch_end - ayt_dispatch_begin);
  return prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, begin, length, &selector) == 0;
}
void dispatch_off() { prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0); }

// Past our own sigaltstack(), which serves the program.
void kernel_altstack(const stack_t* set, stack_t* old) {
  const long r = raw_syscall(SYS_sigaltstack, reinterpret_cast<long>(set), reinterpret_cast<long>(old), 0, 0, 0, 0);
  AYT_CHECK(r == 0, "sigaltstack: {}", std::strerror(static_cast<int>(-r)));
}

}  // namespace

void choose_syscall_mode(int processes) {
  if (processes == 1) return;  // the kernel finds every page of the space
  const std::string_view wanted = base::knob_string("AYATORI_SYSCALLS");
  dispatch.mode = Mode::kWrap;
  // ThreadSanitizer makes system calls in states that its own instrumentation in our handler would not bear.
  if (wanted == "wrap" || (AYT_THREAD_SANITIZER && wanted == "auto")) return;
  if (dispatch_on()) {  // of this thread, as a trial
    dispatch_off();
    dispatch.mode = Mode::kDispatch;
  } else if (wanted == "dispatch") {
    std::fprintf(stderr, "ayatori: AYATORI_SYSCALLS=dispatch: the kernel refuses Syscall User Dispatch: %s\n",
                 std::strerror(errno));
    std::_Exit(125);
  }
}

bool guards_calls() noexcept { return dispatch.mode != Mode::kNone; }

// With dispatch, wrapped functions do it on the program's own OS threads, whose calls nobody catches.
bool wrapping() noexcept {
  return dispatch.mode == Mode::kWrap || (dispatch.mode == Mode::kDispatch && selector == kSelectorAllow);
}

InlineFaults::InlineFaults() noexcept { ++os_thread.inline_faults; }
InlineFaults::~InlineFaults() { --os_thread.inline_faults; }

stack_t& program_altstack() noexcept { return os_thread.program; }

std::byte* bounce_buffer() noexcept {
  return os_thread.block ? os_thread.block + gas::kPageBytes + kAltStackBytes : nullptr;
}

std::byte* bounce_buffer_of_any_thread() noexcept {
  if (std::byte* bytes = bounce_buffer()) return bytes;
  OwnBounce& own = own_bounce;
  if (!own.bytes) {
    void* p = mmap(nullptr, kBounceBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) own.bytes = static_cast<std::byte*>(p);
  }
  return own.bytes;
}

}  // namespace fault

void enter_os_thread() {
  using namespace fault;
  OsThread& thread = os_thread;
  if (thread.block) return;
  void* p = mmap(nullptr, kBlockBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  AYT_CHECK(p != MAP_FAILED, "no memory for an alternate signal stack: {}", std::strerror(errno));
  thread.block = static_cast<std::byte*>(p);
  mprotect(p, gas::kPageBytes, PROT_NONE);
  stack_t stack{};
  stack.ss_sp = thread.block + gas::kPageBytes;
  stack.ss_size = kAltStackBytes;
  kernel_altstack(&stack, &thread.before);
  selector = kSelectorAllow;
  if (dispatch.mode == Mode::kDispatch)
    AYT_CHECK(dispatch_on(), "the kernel refuses Syscall User Dispatch to this thread: {}", std::strerror(errno));
}

void leave_os_thread() {
  using namespace fault;
  OsThread& thread = os_thread;
  if (!thread.block) return;
  selector = kSelectorAllow;
  if (dispatch.mode == Mode::kDispatch) dispatch_off();
  kernel_altstack(&thread.before, nullptr);
  munmap(thread.block, kBlockBytes);
  thread.block = nullptr;
}

void set_syscall_catching(bool on) noexcept {
  if (fault::dispatch.mode == fault::Mode::kDispatch)
    fault::swap_selector(on ? fault::kSelectorBlock : fault::kSelectorAllow);
}

void (*signal_restorer() noexcept)() { return &ayt_restorer; }

bool must_resolve_inline() noexcept { return fault::os_thread.inline_faults != 0; }

const char* syscall_mode() noexcept {
  constexpr const char* kNames[] = {"none", "dispatch", "wrap"};
  return kNames[static_cast<int>(fault::dispatch.mode)];
}

}  // namespace ayatori::dsm
