// SPDX-License-Identifier: Apache-2.0
// Calls of the C library that may wait, on user-level threads: as POSIX says, but the worker goes on with other threads.
//
// K1. A call is first made so that it does not wait (RWF_NOWAIT, MSG_DONTWAIT, no time); most end there. Else its thread waits
//     (waits.hpp) until the kernel says that there is something, and the call is made again.
// K2. Where the kernel cannot be asked not to wait (accept, and what has no RWF_NOWAIT) it is asked by poll before. accept
//     is one thread's at a time; two readers of such a descriptor may make a worker wait.
// K3. Waiting ends as POSIX says: O_NONBLOCK, SO_RCVTIMEO, SO_SNDTIMEO, times of the call, cancellation. Signals end no call.
// K4. Transfers that the C library's call makes whole are made whole here: writes, sends of streams, reads of files.
#pragma once

namespace ayatori::tasks::waiting_calls {

// Before there are threads. `end_cancelled` ends the calling thread.
void start(void (*end_cancelled)());

}  // namespace ayatori::tasks::waiting_calls
