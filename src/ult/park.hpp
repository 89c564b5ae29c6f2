// SPDX-License-Identifier: Apache-2.0
// Suspends a user-level thread in the middle of a page fault: implements base/waiter.hpp for the scheduler.
//
// Who calls it: park() the fault handler on the alternate stack; wake() any OS thread of the process; resume() a worker
// that is about to run a thread parked here.
// P1. park() copies the kernel's signal frame (all registers, extended state) into a buffer of the worker and leaves the
//     handler for the native stack; the thread is resumed by rt_sigreturn from that copy, whose alternate stack is made
//     the resuming worker's (facts of Linux: sigreturn installs the frame's alternate stack). The worker has the buffer
//     until it resumes the next one from a fault.
// P2. The handler allocates nothing: buffers are exchanged on the native stack. A worker keeps those that it has emptied:
//     to unmap one costs more than the fault where another thread of the process runs.
// P3. A parked thread is pinned: its frame lies in memory of this process.
// P4. Only code of the program itself is parked, not the runtime's, not a library's: it may hold locks (design rule P10).
#pragma once

#include "ult/thread.hpp"

namespace ayatori::ult::park {

// Registers the waiter of base/waiter.hpp. `restorer`: code that executes rt_sigreturn and is never caught.
void start(void (*restorer)());
void prepare(Worker& w);  // a worker starts: its buffers
void release(Worker& w);  // it ends
// Native stack. The context that makes the worker return from the fault that parked `d`.
void* resume(Worker& w, Descriptor* d) noexcept;

}  // namespace ayatori::ult::park
