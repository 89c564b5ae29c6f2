// SPDX-License-Identifier: Apache-2.0
// Who speaks: number of this process in its job and of the worker on this OS thread, for the prefix of messages. Set
// once by the start-up code of a process and of each worker; read on any thread, also in fault handlers.
#pragma once

namespace ayatori::base {

struct Identity {
  int process;    // -1: not a member of a job (launcher, tests, before start)
  int processes;  // 0: not known
  int worker;     // of the calling OS thread; -1: not a worker
};

void set_identity(int process, int processes) noexcept;  // process -1 takes it back
void set_worker(int worker) noexcept;                    // of the calling OS thread
// Never inlined: a user-level thread may come back from any call on another OS thread, so no caller may keep the address
// of a thread-local.
[[gnu::noinline]] Identity identity() noexcept;

}  // namespace ayatori::base
