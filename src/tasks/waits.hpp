// SPDX-License-Identifier: Apache-2.0
// Threads that wait for descriptors, for a time, or for a call that an OS thread makes for them. What the calls of the
// C library are made of (waiting_calls.cpp).
//
// W1. A waiting thread is pinned: descriptors are the process's.
// W2. The kernel is only asked whether a descriptor is ready: it never holds a buffer of the program while a thread waits.
// W3. What is waited for is a duplicate of the descriptor, so that the file stays what it is and several may wait for it.
// W4. A wait is in the table, and its thread suspended, until somebody takes it out, under the table's lock: an event, its
//     time, who cancels it. Whoever does resumes the thread (X3 of ult/cancellation.hpp).
// W5. An OS thread, the reaper, sleeps for events and times; workers that have nothing to run look as well.
// W6. Calls that cannot be asked not to wait are made by OS threads, on memory that is theirs; a call whose thread was
//     cancelled ends there, unseen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ult/thread.hpp"

namespace ayatori::tasks::waits {

// What a dump calls the wait.
enum class Call : std::uint8_t {
  kRead,
  kWrite,
  kReceive,
  kSend,
  kAccept,
  kConnect,
  kPoll,
  kSelect,
  kEpoll,
  kSleep,
  kChild,
  kSync,
  kCount
};

enum class End : std::uint8_t {
  kReady,
  kTimedOut,
  kCancelled,
  kRefused  // there is no way to wait without the OS thread
};

inline constexpr std::int64_t kNever = INT64_MAX;

// On a user-level thread: waits for one of `events` (EPOLLIN, EPOLLOUT ...; errors always) of a descriptor, or without one
// (-1) for the time alone. A cancellation ends it if the thread may be cancelled now.
End wait_for(Call call, int fd, std::uint32_t events, std::int64_t deadline_ns);

// A system call for an OS thread. `bytes` of private memory go with it, which end with the call.
struct Job;
Job* new_job(long number, std::size_t bytes);  // null: no memory
long* arguments(Job* job) noexcept;
std::byte* memory(Job* job) noexcept;
inline constexpr long kScratch = -1;  // as argument 1 of pread64: memory of the OS thread, kScratchBytes of it
inline constexpr std::size_t kScratchBytes = std::size_t{1} << 18;
// On a user-level thread: has it made, and frees it. `cancellable`: the call changes nothing if nobody waits for its end.
End hand_over(Call call, int fd, Job* job, bool cancellable, long* result);

// The caller may be cancelled, and somebody asked for it.
bool cancelled() noexcept;

// Of `d`, which has been asked to end; true: it was here, and goes on. Native stack.
bool end_cancelled(ult::Descriptor* d) noexcept;
// Looks for events. Native stack of a worker.
void look();
// For people; `value`: a waiting thread's wait_value.
std::string describe(std::uint64_t value);

}  // namespace ayatori::tasks::waits
