// SPDX-License-Identifier: Apache-2.0
// The objects behind the handles of sync.hpp, for the files that implement it (its rules Y1-Y6).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/check.hpp"
#include "base/shared_lock.hpp"
#include "gas/space.hpp"
#include "tasks/runtime.hpp"
#include "tasks/sync.hpp"
#include "ult/scheduler.hpp"

namespace ayatori::tasks::sync {

using ult::Descriptor;

// word of a mutex: bit 0 locked, bit 1 waiters, bit 2 the guard of its list of waiters (Y7), from bit 8 the process of the last
// holder, and for people (dump), while a user-level thread of this machine holds it, from bit 16 and 32 the halves of its
// number: generation (cut) and slot + 1. word of a condition variable: not 0 while somebody waits (Y8).
inline constexpr std::uint64_t kLocked = 1;
inline constexpr std::uint64_t kWaiters = 2;
inline constexpr std::uint64_t kGuarded = 4;
inline constexpr std::uint64_t kLastMask = 0xff00;
constexpr std::uint64_t last(int process) { return static_cast<std::uint64_t>(process) << 8; }
constexpr int last_of(std::uint64_t word) { return static_cast<int>((word & kLastMask) >> 8); }
inline std::uint64_t bits_of_thread(const Descriptor& d) noexcept {
  return (std::uint64_t{d.slot} + 1) << 32 | (d.generation & 0xffffu) << 16;
}
// Others that wait are not named.
inline std::uint64_t holder_bits(const Descriptor* d) noexcept {
  return d->os_thread || d->proxy ? 0 : bits_of_thread(*d);
}

struct alignas(64) Object {
  Kind kind;
  std::uint32_t type;               // type_of()
  std::uint32_t next_free;          // Guarded by the pool's lock.
  base::SharedLock guard;           // of all but a mutex (Y7)
  std::atomic<std::uint64_t> word;  // mutex, condition variable; changed under its guard, but for Y3
  ult::List waiters;                // Guarded by guard; of a mutex by its word.
  std::ptrdiff_t expected,
      arrived;  // barrier; expected: a semaphore's value, a read-write lock's holders; guarded by guard
  std::uint64_t arrived_processes;   // barrier; semaphore: who posted what is in the value; guarded by guard
  std::uint64_t leaving_processes;   // barrier; of the last one to arrive
  ult::List leaving;                 // barrier; of the last one to arrive, until barrier_release; guarded
  bool completing;                   // barrier: all have arrived, barrier_release is still to come; guarded
  std::uint32_t users;               // Y6; 0: not in static data. Guarded by the pool's statics.
  std::atomic<std::uint64_t> phase;  // barrier: releases so far; changed under guard
  std::atomic<std::uint32_t> depth;  // holding(); as owner, and ordered by the mutex where the reader holds it
  std::atomic<std::uint64_t> owner;  // holding()
};

inline constexpr int kHolderShift = 24;
inline constexpr std::uint32_t kObjects = 1u << kHolderShift;
inline constexpr std::int64_t kForEver = std::numeric_limits<std::int64_t>::max();

struct Pool {
  base::SharedLock lock;
  base::SharedLock statics;               // before lock
  std::uint32_t used = 0;                 // Guarded by lock.
  std::uint32_t free_head = 0;            // Guarded by lock.
  std::uint32_t os_waiters_used = 0;      // Guarded by lock.
  Descriptor* free_os_waiters = nullptr;  // Guarded by lock; linked through next
};

struct State {
  Pool* pool = nullptr;
  Object* objects = nullptr;
  Descriptor* os_waiters = nullptr;
  std::atomic<pid_t> member = 0;  // set with the first object in static data; a number, nothing is ordered by it
};
extern constinit State state;

// Where processes share no memory (gas::apart()), an object is held by the process that made it; its handle says which.
inline int holder_of(Handle h) noexcept { return (h >> 63) != 0 ? 0 : static_cast<int>(h >> kHolderShift); }
inline bool away(Handle h) noexcept { return gas::apart() && holder_of(h) != self(); }
inline std::uint32_t index_of(Handle h) noexcept { return static_cast<std::uint32_t>(h) & (kObjects - 1); }

inline Object& object(Handle h, Kind kind) {
  AYT_CHECK(index_of(h) != 0 && (gas::apart() ? holder_of(h) == self() : h < kObjects) &&
                state.objects[index_of(h)].kind == kind,
            "a mutex, condition variable or barrier was used that is not alive (handle {})", h);
  return state.objects[index_of(h)];
}

// The number of a thread's wait and what it waits for are written under the guard of that. Timers and those who cancel do
// not know yet whose guard that is, and look before: relaxed, as it counts only once d is found in the object's list under
// its guard, where these were written before d came to the list. Objects stay mapped, whatever d does meanwhile.
inline void begin_wait(Object& o, Descriptor* d) noexcept {
  std::atomic_ref(d->wait_condition).store(&o, std::memory_order_relaxed);
  std::atomic_ref(d->wait_sequence).store(d->wait_sequence + 1, std::memory_order_relaxed);
}
inline Object* waits_for(Descriptor* d) noexcept {
  return static_cast<Object*>(std::atomic_ref(d->wait_condition).load(std::memory_order_relaxed));
}
inline bool is_wait(Descriptor* d, std::uint64_t sequence) noexcept {
  return std::atomic_ref(d->wait_sequence).load(std::memory_order_relaxed) == sequence;
}

// Read by timers and who cancels, which may find what an object has become since.
inline Kind kind_of(Object& o) noexcept { return std::atomic_ref(o.kind).load(std::memory_order_relaxed); }
inline void set_kind(Object& o, Kind kind) noexcept { std::atomic_ref(o.kind).store(kind, std::memory_order_relaxed); }

Handle create(Kind kind);
// Everything written at `processes` before is at its owner, and this process looks again (Y2). As give and take: native stack.
void see_all(std::uint64_t processes);
void give(int process);  // what it wrote is at its owner
void take();             // this process looks again
// The parts of Ask that read-write locks have. True: done, and what a thread waits for is answered.
bool serve_rwlock(const Call& call, Descriptor* waiter, std::int64_t deadline_ns);
void destroy(Handle h, Kind kind);

inline constexpr std::uint32_t kOsWaiters = 1u << 16;  // of all processes together
// With which the calling OS thread of the program waits, and how it waits.
Descriptor* os_descriptor();
void os_block(Descriptor* d);

}  // namespace ayatori::tasks::sync
