// SPDX-License-Identifier: Apache-2.0
// A thread whose stack is full: found by the fault handler in the guard below the stack, or beyond it, and by the
// scheduler, which looks at the stack pointer that a switch saves. Ends the job with one line and a backtrace
// (docs/design/stack-overflow.md).
//
// O1. In a fault handler, on the alternate stack: nothing here allocates or takes a lock that the thread may hold. Names of
//     functions do both, so the OS thread of the dump (dump.hpp) is asked for them, and waited for 3 s at most: where it
//     does not answer (the thread holds what it needs) the addresses are printed bare.
// O2. The first thread of the job that overflows is told of; others wait for the end of the job, 10 s at most.
// O3. While a thread is forked or ends the current one is its parent, whose stack has been left already: a stack pointer
//     close to where a thread begins is none that went astray.
#pragma once

#include "ult/thread.hpp"

namespace ayatori::tasks::overflow {

void start() noexcept;  // before the run: notes the images that are mapped

// Fault handler (FaultHooks). `address`: in the guard of the interrupted thread's stack, or of any stack that it is not on.
[[noreturn]] void report_fault(void* address, void* context) noexcept;
bool is_beyond_stack(const void* context) noexcept;

// Native stack: `d` is suspended with its stack pointer out of its stack. Returns when it is on no other thread's.
void look_at(const ult::Descriptor* d, const void* sp) noexcept;

// The dump's OS thread.
void print_pending();

}  // namespace ayatori::tasks::overflow
