// SPDX-License-Identifier: Apache-2.0
// Mutex, condition variable and barrier between threads of different processes. Their state lies in memory mapped by
// all, outside coherence; the object in the user's memory is a handle that never changes.
//
// Who calls it: user-level threads (the thread is suspended, not the worker) and OS threads of the program (they block).
// Y1. The guard of an object is held on native stacks only, and nothing else is locked under it but a queue.
// Y2. What the last holder wrote is visible to the next: when they are in different processes, the taker runs the
//     giver's release and then acquires (Fences::pass); a resumed waiter acquires on its own process.
// Y3. A lock without waiters changes hands inside a process by one compare-and-swap.
// Y4. Unlock with waiters hands the lock over, first come first served.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ayatori::tasks::sync {

using Handle = std::uint64_t;

void reserve();  // before the fork

Handle mutex_create();
void mutex_destroy(Handle) noexcept;
void mutex_lock(Handle);
bool mutex_try_lock(Handle) noexcept;
void mutex_unlock(Handle) noexcept;

Handle condition_create();
void condition_destroy(Handle) noexcept;
// Returns false when the time was over. deadline_ns: base::real_now_ns() scale; INT64_MAX: none.
bool condition_wait(Handle condition, Handle mutex, std::int64_t deadline_ns);
void condition_notify(Handle, bool all) noexcept;

Handle barrier_create(std::ptrdiff_t expected);
void barrier_destroy(Handle) noexcept;
bool barrier_arrive(Handle, std::ptrdiff_t count, bool wait, bool drop);
void barrier_release(Handle) noexcept;

}  // namespace ayatori::tasks::sync
