// SPDX-License-Identifier: Apache-2.0
// Syscall User Dispatch: the selector of an OS thread, code that the dispatch always lets through (dispatch_x86_64.S),
// and the handling of a caught call (syscalls.cpp).
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstddef>

extern "C" {
// The range that may always make system calls.
extern const char ayt_dispatch_begin[];
extern const char ayt_dispatch_end[];
void ayt_restorer();  // returns from a signal handler; never called
long ayt_raw_syscall(long number, long a0, long a1, long a2, long a3, long a4, long a5);  // result or -errno
}

namespace ayatori::dsm::fault {

inline constexpr char kSelectorAllow = 0, kSelectorBlock = 1;
inline constexpr int kSiUserDispatch = 2;  // SYS_USER_DISPATCH

// Read by the kernel at every system call of a thread that has dispatch on. Static TLS: reachable in a handler.
extern thread_local volatile char selector [[gnu::tls_model("initial-exec")]];

// Never inlined: a user-level thread may come back from any call on another OS thread.
[[gnu::noinline]] char swap_selector(char value) noexcept;

inline long raw_syscall(long number, long a0, long a1, long a2, long a3, long a4, long a5) {
  return ayt_raw_syscall(number, a0, a1, a2, a3, a4, a5);
}

// While one lives, faults of this OS thread on space memory must be resolved in place (must_resolve_inline()).
class InlineFaults {
 public:
  InlineFaults() noexcept;
  ~InlineFaults();
  InlineFaults(const InlineFaults&) = delete;
  InlineFaults& operator=(const InlineFaults&) = delete;
};

// Makes a buffer accessible now; what of it lies outside the space is left alone.
void prefault_range(const void* first_byte, std::size_t bytes, bool write);

// sigaltstack(2) of the program: the alternate stack is ours, its wish is remembered. 0 or -errno.
long change_altstack(const stack_t* set, stack_t* old);

// The system call with arguments a[0..5] (changed), buffers in the space made accessible. Result or -errno.
long guarded_call(long number, long* a);

// The SIGSYS handler's work: makes the call with the buffers accessible and stores the result in the context, or lets
// the thread make it in place. False: catching must stay off until the worker switches it on again.
bool catch_syscall(ucontext_t* context) noexcept;

// os_thread.cpp: dispatch or wrapped functions, by the knob AYATORI_SYSCALLS and what the kernel grants.
void choose_syscall_mode(int processes);
bool guards_calls() noexcept;  // by one of the two
// Wrapped functions have to make buffers in the space accessible on the calling thread, now.
bool wrapping() noexcept;

// Private memory of this OS thread for buffers of caught calls; null before enter_os_thread().
inline constexpr std::size_t kBounceBytes = 256 * 1024;
std::byte* bounce_buffer() noexcept;
// Outside signal handlers: also on OS threads that are no workers; null when there is no memory.
std::byte* bounce_buffer_of_any_thread() noexcept;
// The alternate stack that the program asked for on this OS thread.
stack_t& program_altstack() noexcept;

void set_prefault(void (*prefault)(const void* first_byte, std::size_t bytes, bool write),
                  bool (*is_guard)(const void* address)) noexcept;

}  // namespace ayatori::dsm::fault
