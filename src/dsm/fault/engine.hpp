// SPDX-License-Identifier: Apache-2.0
// The fault engine: access control over this process's user view, and the signal handler that turns a miss into a call
// of the resolver. Two mechanisms behind one table: `uffd` (userfaultfd, SIGBUS) and `mprotect` (SIGSEGV).
//
// Who calls it: the coherence core, holding this process's lock, on native or alternate stacks.
//
// E1. Mapping calls concern the calling process's user view only; page contents are put into the system view before.
// E2. map_read never takes write access away; map_write gives it whatever the page's state; zap takes the mapping, the
//     bytes stay in the memfd.
// E3. Every call is idempotent and safe while other threads of the process fault on the same pages.
// E4. The handler takes no lock itself and allocates nothing; it calls the resolver on the stack the signal came in on
//     (alternate stack for user-level threads). Runtime code never touches the user view, so a resolver that takes the
//     process lock cannot interrupt its holder on the same OS thread. One exception: the code for system calls, which
//     holds no lock and faults like user code, on the alternate stack (such a fault's stack pointer lies outside the
//     space: it must be resolved in place, its thread cannot be parked).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gas/space.hpp"

namespace ayatori::dsm {

struct Engine {
  const char* name;
  void (*map_read)(gas::PageIndex first, std::size_t pages);
  void (*map_write)(gas::PageIndex first, std::size_t pages);
  // As map_write, faster where the pages have no memory yet. Without the process's lock where no other process knows of them.
  void (*map_fresh)(gas::PageIndex first, std::size_t pages);
  void (*zap)(gas::PageIndex first, std::size_t pages);
  // The lowest `guard_pages` of a stack slot are never accessible, the rest may become so: called once a slot and
  // process before the slot's first use there, or for any slot if it has come from another process.
  void (*guard)(gas::PageIndex slot_first, std::size_t guard_pages, std::size_t slot_pages);
  // The engine runs out of the kernel's mappings (mprotect only): the coherence core should zap foreign pages in whole
  // regions soon. While true, every further scattered map_* may bring the process to its limit, which is fatal.
  bool (*pressure)() noexcept;
};

// What a fault on a space address becomes. Returns normally when the access may be repeated; the second ends the
// process with an error that names the thread.
struct FaultHooks {
  // `context` is the ucontext_t of the interrupted code.
  // False: nothing was ever allocated there.
  bool (*resolve)(void* address, bool write, void* context) = nullptr;
  void (*stack_overflow)(void* address, void* context) = nullptr;
  // Is this address in a guard area?
  bool (*is_guard)(const void* address) = nullptr;
  // Makes a buffer in the space accessible that a system call is about to be given; no promise that it stays so. Called
  // without any lock, on an alternate or native stack. May be null: then the pages are touched one by one.
  void (*prefault)(const void* first_byte, std::size_t bytes, bool write) = nullptr;
  // At a fault on any stack: has the interrupted thread left its own one downwards, over the guard? May be null.
  bool (*is_beyond_stack)(const void* context) = nullptr;
};

// Starts the engine asked for ("auto", "uffd", "mprotect") in this member: registers the user view, installs the signal
// handlers (SA_ONSTACK | SA_NODEFER, chaining to the program's own). With one process nothing needs coherence: then the
// view stays plainly accessible and only guards are enforced. Ends the process with status 125 and a clear line when a
// forced engine is refused; "auto" falls back. Returns the engine chosen and, in `why`, the reason of a fallback.
const Engine& start_engine(const char* wanted, int processes, const FaultHooks& hooks, std::string* why);
const Engine& engine() noexcept;
// In the child of a fork of the program, whose space is its own: the coherence state is not.
bool has_private_view() noexcept;

// Per OS thread that runs user-level threads or may touch the space: an alternate signal stack, system-call catching.
// Both may be called twice in a row. leave_os_thread() runs on the thread's native stack.
void enter_os_thread();
void leave_os_thread();

// System calls given space memory: while on, calls made by this OS thread are caught and their buffers made accessible
// first. Workers switch it on when they enter a user-level thread and off when they leave it. A byte store, no call.
void set_syscall_catching(bool on) noexcept;
// Code that executes rt_sigreturn and is never caught, for whoever leaves a signal frame by hand.
void (*signal_restorer() noexcept)();
// Is this OS thread inside the code for system calls on space memory? Then a fault must be resolved in place: its thread
// cannot be parked or moved (its stack pointer may lie in the space nevertheless).
bool must_resolve_inline() noexcept;
// "dispatch" (Syscall User Dispatch), "wrap" (wrapped library functions only) or "none" (one process: nothing to catch).
// After start_engine().
const char* syscall_mode() noexcept;

}  // namespace ayatori::dsm
