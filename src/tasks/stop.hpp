// SPDX-License-Identifier: Apache-2.0
// Stops one OS thread of this process for a moment, so that another one can look at its registers and stacks. Both sides:
// the asking OS thread, one at a time, and the handler of a real-time signal on the OS thread asked.
//
// H1. The stopped thread waits in the handler for at most kStopNs: whatever lock it holds, nobody waits for ever.
// H2. While it is stopped the asking thread allocates nothing and takes no lock.
// H3. A handler that comes too late, or for another thread, returns at once.
// H4. The handler makes system calls only where Syscall User Dispatch lets them through, and leaves errno alone.
#pragma once

#include <cstdint>

namespace ayatori::tasks::stop {

// Takes the signal if the program has not; false: threads cannot be stopped (also under ThreadSanitizer, which delivers
// signals when it sees fit).
bool start();

struct Stopped {
  std::uint64_t context = 0;                           // address of its ucontext_t
  std::uint64_t alternate_low = 0, alternate_end = 0;  // its alternate signal stack, as it is now
};
// False: it did not stop in time (it blocks the signal, or does not get the CPU).
bool stop_thread(int tid, Stopped& stopped);
void resume_thread() noexcept;

}  // namespace ayatori::tasks::stop
