// SPDX-License-Identifier: Apache-2.0
// Where every thread of this process stands, printed on SIGQUIT (Ctrl-\, `ayatori dump JOB`); the job goes on.
//
// The signal's handler only wakes an OS thread of ours, which looks at workers, deques, queues and descriptors without
// stopping anything but the worker whose running thread it prints, for about a millisecond each (stop.hpp).
// D1. A handler that the program has installed for SIGQUIT, before the run or inside it, stays: then there is no dump.
// D2. What is printed is no snapshot: threads move on meanwhile. Each block of lines that belongs to a thread is one
//     write(2) to standard error, whole lines, each with the prefix "ayatori[PROCESS]: ".
// D3. Stacks are read through the system view of this process, other memory through /proc/self/mem: nothing faults.
// D4. What others write without a lock or an atomic (descriptors, workers, synchronisation objects) is copied in the same
//     way (Copy in unwind.hpp): they need not write it for us.
// D5. Threads that wait for each other in a cycle are printed once, by the process that has the first of them. Waits are
//     looked at twice, who holds what in between: waits that are the same before and after lasted all the time, and who
//     waits lets go of nothing, so the cycle stood at that moment. Who is handed a lock waits no more before it holds it
//     (kReady, then the word). A cycle is found through ends of threads, mutexes and writers of read-write locks; who will
//     notify, post or arrive is not known, nor readers. Where processes share no memory: among threads and locks of one.
#pragma once

namespace ayatori::tasks::dump {

void attach() noexcept;  // before the program's code: an inherited "ignore" is not the program's wish
void start();            // before the run is announced to the launcher
// In a fault handler: the OS thread looks at once for what else it is to do (overflow.hpp). False: there is none.
bool wake_server() noexcept;
void enter_worker(int number) noexcept;  // on the worker's OS thread
void leave_worker(int number) noexcept;
// After the run. With a launcher, whose requests may still be on their way, the signal is ignored from here on; without
// one the default comes back.
void stop(bool launched);

}  // namespace ayatori::tasks::dump
