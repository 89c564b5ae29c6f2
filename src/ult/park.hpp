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
// P4. Only code of the executable is parked, not a library's: it may hold locks (design rule P10). Where the C++ library is
//     part of the executable, nothing is parked: it keeps the address of the OS thread's exception globals. (With the C
//     library in it no job starts.)
// P5. The runtime is part of the executable as well, so its code on the stacks of threads may be parked, and go on on another
//     worker. It is so only where it touches memory of the program (a handle, a callable, thread-specific data), since
//     what else it uses never faults for long: workers, descriptors, tables and private memory are not watched, and the
//     thread's own stack, whatever part of it, belongs to the process that runs it, whose faults there are resolved in
//     the handler; may_park() refuses them. So pushes, spills and the switch never park. S2 of switch.hpp says what is left to obey.
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
