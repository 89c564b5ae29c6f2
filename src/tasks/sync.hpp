// SPDX-License-Identifier: Apache-2.0
// Mutex, condition variable, barrier and semaphore between threads of different processes. Their state lies outside coherence,
// in memory mapped by all, or (gas::apart()) at the process that made them, which the others ask (Ask); the object in the user's
// memory is a handle that never changes.
//
// Who calls it: user-level threads (the thread is suspended, not the worker) and OS threads of the program (they block).
// Y1. The guard of an object is held on native stacks only, and nothing else is locked under it but a queue or the timers.
// Y2. What the last holder wrote is visible to the next: when they are in different processes, the taker runs the
//     giver's release and then acquires (Fences::pass); a resumed waiter acquires on its own process. Without shared memory
//     the giver has released before it asks.
// Y3. A lock without waiters changes hands inside a process by one compare-and-swap.
// Y4. Unlock with waiters hands the lock over, first come first served.
// Y5. Every wait that a timer may end has a number of its own: a timer that outlived its wait finds another number.
// Y7. The guard of a mutex's waiters is a bit of its word, set by compare-and-swap, and only while the mutex is locked: nobody
//     but its holder changes the word then, so that one exchange and one store change word and list. The bit for waiters
//     is set whenever the list is not empty and the guard is not held, and only then.
// Y8. Who notifies looks without the guard whether somebody waits: who waits has said so before the mutex is free, and who
//     notifies him has held it since.
// Y6. An object of C++ in static data, which each process constructs, is one object: its users are the processes that
//     have constructed and not destroyed it; the first one makes it, the last one ends it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tasks/unwind.hpp"
#include "ult/thread.hpp"

namespace ayatori::tasks::sync {

using Handle = std::uint64_t;
enum class Kind : std::uint32_t { kFree, kMutex, kCondition, kBarrier, kSemaphore, kRwLock };

void reserve();  // before the fork

Handle mutex_create();
void mutex_destroy(Handle) noexcept;
void mutex_lock(Handle);
// Returns false when the time was over. deadline_ns: base::real_now_ns() scale; INT64_MAX: none.
bool mutex_lock_until(Handle, std::int64_t deadline_ns);
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
std::uint64_t barrier_phase(Handle) noexcept;  // the one in which the caller will arrive
void barrier_wait_phase(Handle, std::uint64_t phase);
// Arrival and release in one, without a completion between: more threads than are expected may use the barrier in turn.
// Returns true in one thread of each round. Not to be mixed with barrier_arrive on one barrier.
bool barrier_wait(Handle);

// As create and destroy of this kind, for an object of C++ at `where` (Y6). `expected`: of a barrier; type of a read-write lock, value of a semaphore.
Handle construct(const void* where, Kind kind, std::ptrdiff_t expected);
void destruct(const void* where, Handle, Kind kind) noexcept;

inline constexpr std::uint32_t kSemaphoreMax = 0x7fffffff;
Handle semaphore_create(std::uint32_t value);
void semaphore_destroy(Handle) noexcept;
// Returns false when the time was over. deadline_ns: base::real_now_ns() scale; INT64_MAX: none.
bool semaphore_wait(Handle, std::int64_t deadline_ns);
bool semaphore_try_wait(Handle) noexcept;
// At once. False: the value would be above kSemaphoreMax, nothing is done.
bool semaphore_post(Handle, std::ptrdiff_t count = 1) noexcept;
std::uint32_t semaphore_value(Handle) noexcept;

// Many readers or one writer. By type_of(): readers overtake waiting writers, so that a thread may hold it for reading several
// times, or nobody overtakes anybody.
inline constexpr std::uint32_t kPreferReaders = 0, kFirstComeFirstServed = 1;
enum class RwLocked { kYes, kTimedOut, kDeadlock };  // kDeadlock: the caller holds it for writing
Handle rwlock_create();
void rwlock_destroy(Handle) noexcept;
// deadline_ns: base::real_now_ns() scale; INT64_MAX: none.
RwLocked rwlock_lock(Handle, bool shared, std::int64_t deadline_ns);
bool rwlock_try_lock(Handle, bool shared) noexcept;
bool rwlock_unlock(Handle) noexcept;  // false: nobody holds it

// Of whoever calls, unique among all who can hold a lock.
std::uint64_t caller_number() noexcept;

// `d`, valid here, has been asked to end (ult/cancellation.hpp): if it waits at a cancellation point, it goes on, timed out.
// Native stack.
void end_cancelled_wait(ult::Descriptor* d);

// For callers that report misuse instead of ending the job (the C interface).
bool alive(Handle, Kind) noexcept;
bool busy(
    Handle) noexcept;  // a mutex is locked, somebody waits for the object; a hint unless the caller excludes others
// What the C interface keeps beside an object, as it must be the same on every process.
// Type of a mutex, clock of a condition variable, threads of a barrier; set before others know of the object.
std::uint32_t type_of(Handle) noexcept;
void set_type(Handle, std::uint32_t type) noexcept;
struct Holding {
  std::uint64_t owner;  // number of a mutex's holder; its holder writes it, others compare it with their own
  std::uint32_t depth;  // of a recursive mutex. Its holder only.
};
Holding holding(Handle) noexcept;
void set_holding(Handle, const Holding&) noexcept;
// Robust mutexes, bits of type_of(). What their holders tell each other stands beside the depth: a holder has ended, and
// nobody has said since that what it guarded is right (kInconsistent), nor ever will (kNotRecoverable).
inline constexpr std::uint32_t kRobust = 0x100;
inline constexpr std::uint32_t kInconsistent = 1u << 31, kNotRecoverable = 1u << 30, kDepthMask = kNotRecoverable - 1;
// The caller ends: if it holds the mutex, the next one that takes it finds it inconsistent.
void leave_robust(Handle) noexcept;

// What a process asks of the one that holds an object, for a thread of its own that waits for the answer (a wake-up) or,
// where `waiter.process` is -1, for nobody. Plain data.
enum class Ask : std::uint32_t {
  kLock,     // deadline; timed_out: told again when it has the lock (it was a condition's waiter whose time was over)
  kTryLock,  // answer: barrier_last
  kUnlock,
  kConditionWait,  // other: the mutex; deadline
  kNotifyOne,
  kNotifyAll,
  kArrive,  // count, wait, drop
  kRelease,
  kWaitPhase,  // count: the phase
  kArriveAndWait,
  kSemaphoreWait,  // deadline
  kSemaphoreTryWait,
  kSemaphorePost,
  kRwLock,     // wait: for reading; count: the caller's number; deadline. answer: barrier_last, it would deadlock
  kRwTryLock,  // as kRwLock; answer: barrier_last, it is taken
  kRwUnlock,   // a value: somebody held it
  kDestroy,
  kPhase,  // a value, as the rest
  kSemaphoreValue,
  kAlive,
  kBusy,
  kType,
  kOwner,
  kDepth,
  kSetHolding,      // count: owner; other: depth
  kFindAddress,     // count: address, as the next two; of process 0
  kReplaceAddress,  // object: before; other: the new one
  kEraseAddress,
  kShareStatic,    // count: address; other: the new one. The one that all share
  kUnshareStatic,  // count: address. Whether that was the last user
  kCreateKey,      // count: address; other: destructor. The key, as keys::create_here
  kEraseKey,       // count: key, as the next
  kFindKey,
};
struct Call {
  Ask ask;
  std::int32_t actor;  // on whose behalf
  Handle object, other;
  std::int32_t waiter_process;
  std::uint32_t waiter_index, waiter_os;
  bool wait, drop, timed_out;
  std::int64_t wait_ns;  // INT64_MAX: for ever
  std::int64_t count;
};
std::uint64_t serve(const Call& call);  // on the serving thread
// For address_table: where processes share no memory, process 0 has the table.
bool table_is_away() noexcept;
Handle ask_table(Ask ask, const void* address, Handle before, Handle handle) noexcept;

// For remote.hpp: the descriptor with which an OS thread of this process waits, by its number.
ult::Descriptor* os_waiter(std::uint32_t index) noexcept;
std::uint32_t os_waiter_index(const ult::Descriptor* d) noexcept;

// For people: what a thread waits for, from Descriptor::wait_object.
struct Waited {
  const char* kind;  // "mutex", "condition variable", "barrier", "a freed object"
  Handle handle;
  int last_process;                  // of a mutex: where it was locked last; else -1
  std::ptrdiff_t arrived, expected;  // of a barrier
  // Number of the thread that holds a mutex, or a read-write lock for writing, with at least the low 16 bits of its
  // generation; 0: nobody, or unknown. OS threads: bit 63.
  std::uint64_t holder;
};
int keeper(Handle) noexcept;  // the process that made the object, where processes share no memory
Waited describe(const void* wait_object, StackMemory& memory);

}  // namespace ayatori::tasks::sync
