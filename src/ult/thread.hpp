// SPDX-License-Identifier: Apache-2.0
// Descriptors of user-level threads, workers and the queues of a process. All of it lies in memory mapped by all
// processes at the same addresses, outside coherence, so that a thief on the same machine works on it directly.
//
// T1. Descriptor d belongs to stack slot d.slot for ever; who runs or holds the thread writes its other fields.
// T2. A descriptor is in exactly one place: current of a worker, one deque, one run ring, ready or placed queue, one waiting list
//     (join word, synchronisation object, timer), one free list, or ended and not joined.
// T3. sp is valid whenever the thread is not running; it is published by whatever puts the thread into its place.
// T4. Free threads lie in the lists of workers (no more than Worker::keep each), spare in a process, or returned to it
//     (freed). A worker that finds none asks for those of the others: it sets their keep to zero, which each owner sees
//     when it frees a thread, comes to its native stack or looks for work; the owner gives back all and resets it. Who wants
//     a worker on its native stack for another reason (Hooks::spilled) does so, too.
// T5. Threads of high priority that may run, begun or not, lie in their process's queue `high` and in no ring; whoever looks
//     for a thread to run looks there first, but every 16th time that it finds some, so that normal ones go on as well.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>

#include "base/shared_lock.hpp"
#include "ult/deque.hpp"
#include "ult/join_word.hpp"
#include "ult/run_ring.hpp"

namespace ayatori::detail {

struct ThreadValues;  // of keys (tasks)

// How a thread that lies in a queue got there.
enum class Placement : std::uint8_t {
  kBegun,   // it has begun, its stack is here
  kPlaced,  // begins on this process (on(p)); its stack may still be elsewhere
  kHinted,  // the same, but another process may begin it first (near(p))
};

// Where a thread stands when it is in no deque, for people (dump); written without order, and not on the fast path.
enum class ThreadState : std::uint8_t {
  kFree,
  kReady,
  kRunning,
  kJoining,
  kLocking,
  kWaiting,
  kSleeping,
  kFaulting,
  kEnded,
  kCalling  // waits in a call of the C library: wait_value says which (tasks)
};

struct alignas(128) Descriptor {
  void* sp;  // saved context (T3)
  ult::JoinWord join;
  void (*invoke)(void*);
  void* object;          // the callable, on this thread's stack
  std::byte* stack_top;  // where objects on its stack end. Constant.
  void* eh_caught;       // the C++ run-time's exception globals while the thread is not running
  unsigned eh_uncaught;
  int saved_errno;
  Descriptor* next;    // link of the one queue it is in (T2)
  void* error;         // bits of the std::exception_ptr that left it; null in a free descriptor
  void* result;        // of a thread of the C interface
  std::uint32_t slot;  // Constant.
  std::uint32_t generation;
  std::int32_t stack_process;  // which process held the stack when it was allocated
  std::uint32_t pins;          // > 0: must stay on its process
  ThreadState state;
  bool needs_acquire;  // resumed from another process: acquire before it runs here
  bool timed_out;
  bool os_thread;  // a waiting OS thread, no user-level thread: wake it through os_wake
  bool proxy;      // stands for a thread of another process that waits here: wake it by a message (tasks)
  std::atomic<std::uint32_t> os_wake;
  std::int32_t os_process;
  std::uint64_t ended;     // when, by the fences' clock; kUnknownTick when nobody asked
  bool parent_handles;     // its parent forked it inside a handler or during an unwinding
  bool handed_out;         // others may know this thread: its end must look for waiters
  std::atomic<bool> high;  // priority, T5. A value alone: nothing is ordered by it
  bool has_values;         // Hooks::thread_ends wants to know of its end
  bool root;               // the first thread: its end is the job's
  // Down to here what forks and ends write: one pair of cache lines.
  bool proxy_os;                   // of a proxy: which of the two proxy_index is
  bool barrier_last;               // it was the last to arrive
  bool shares;                     // of a read-write lock's waiter: for reading
  std::atomic<bool> cancel_point;  // its wait ends when it is cancelled, with timed_out. Written before it waits
  Placement placement;             // kBegun but in the queues of which the table in ProcessQueues says so
  std::uint32_t proxy_index;       // the waiter's stack slot, or the number of its OS thread's descriptor
  std::int32_t proxy_process;      // where it waits
  std::int32_t ran_on;             // for Hooks::moved: kMaxWorkers * process + worker where it was suspended
  std::uint64_t joined;  // of a joiner whose child another process held: how it ended (a done word), until it was taken
  void* joined_error;
  void* joined_result;
  ThreadValues* values;  // thread-specific data, in the space
  void* wait_object;     // what it waits for; for people and timeouts
  // A condition variable's waiter: the handle of what is to be locked again; a read-write lock's: the thread's number.
  std::uint64_t wait_value;
  void* wait_condition;
  std::uint64_t wait_sequence;        // number of its waits so far; written under the condition's guard
  std::int64_t deadline_ns;           // of a sleep or timed wait
  std::atomic<std::uint64_t> cancel;  // cancellation.hpp
  void* cleanup;                      // newest cleanup handler of the C interface, on its stack
  void* sanitizer;                    // fiber.hpp
  void* fault_frame;                  // park.hpp: suspended in a fault; memory of its process
  std::uint32_t fault_bytes, fault_offset;
};
static_assert(offsetof(Descriptor, root) < 128);
static_assert(sizeof(Descriptor) <= 256);  // each thread that waits needs it (tests/perf/parked_threads.cpp)

}  // namespace ayatori::detail

namespace ayatori::ult {

inline constexpr std::uint64_t kUnknownTick = ~std::uint64_t{0};  // Descriptor::ended

using detail::Descriptor;
using detail::Placement;
using detail::ThreadState;

// First in, first out, linked through Descriptor::next. Guarded by its owner's lock.
struct List {
  Descriptor* head = nullptr;
  Descriptor* tail = nullptr;

  bool empty() const noexcept { return head == nullptr; }
  void push(Descriptor* d) noexcept {
    d->next = nullptr;
    if (tail)
      tail->next = d;
    else
      head = d;
    tail = d;
  }
  Descriptor* pop() noexcept {
    Descriptor* d = head;
    if (d) {
      head = d->next;
      if (!head) tail = nullptr;
    }
    return d;
  }
  // Takes the first that f accepts.
  template <class F>
  Descriptor* pop_if(F&& f) noexcept {
    Descriptor* before = nullptr;
    for (Descriptor* d = head; d; before = d, d = d->next) {
      if (!f(d)) continue;
      (before ? before->next : head) = d->next;
      if (tail == d) tail = before;
      return d;
    }
    return nullptr;
  }
  bool remove(Descriptor* d) noexcept {
    return pop_if([d](Descriptor* x) { return x == d; }) != nullptr;
  }
};

// A list with a lock and a count to look at from outside.
struct Queue {
  base::SharedLock lock;
  std::atomic<std::uint32_t> count{0};  // a hint; exact under lock
  List list;                            // Guarded by lock.

  void push(Descriptor* d) noexcept {
    lock.lock();
    list.push(d);
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    lock.unlock();
  }
  template <class F>
  Descriptor* pop_if(F&& f) noexcept {
    if (count.load(std::memory_order_acquire) == 0) return nullptr;
    lock.lock();
    Descriptor* d = list.pop_if(f);
    if (d) count.store(count.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    lock.unlock();
    return d;
  }
  Descriptor* pop() noexcept {
    return pop_if([](Descriptor*) { return true; });
  }
};

struct EhGlobals {  // layout of __cxa_eh_globals (Itanium C++ ABI 2.2.2)
  void* caught;
  unsigned uncaught;
};

struct WorkerCounters {  // worker only; read by anybody, late
  std::uint64_t forked, steals_local, steals_remote, joins_remote;
  std::uint64_t compute_ns, idle_ns, steal_ns;
  std::uint64_t c_begun, c_ended;  // threads of the C interface; release and acquire, as the job's end depends on them
};

struct alignas(64) Worker {
  Deque<Descriptor> deque;

  // Owner only from here on.
  Descriptor* current = nullptr;
  Descriptor* free_threads = nullptr;  // stacks owned by this process, linked through next
  std::uint32_t free_count = 0;
  std::atomic<std::uint32_t> keep{0};  // T4: the one field that others write
  int number = 0;
  EhGlobals* eh = nullptr;                                    // of this OS thread
  int* errno_address = nullptr;                               // of this OS thread
  void* native_sp = nullptr;                                  // top of the stack for runtime slow paths
  void* os_sp = nullptr;                                      // the OS thread's own context, resumed at the end
  void* (*operation)(Worker&, Descriptor*, void*) = nullptr;  // being carried over to the native stack
  void* argument = nullptr;
  void (*call)(void*) = nullptr;  // being carried over to the native stack, with argument
  std::uint64_t random = 0;
  std::uint32_t fruitless_yields = 0;
  std::uint32_t schedules = 0;
  std::uint32_t takes = 0;                        // of what is ready
  std::uint32_t high_turns = 0;                   // T5
  std::uint64_t looked_near = 0, looked_far = 0;  // at what others have, by the processor's clock
  void* native_low = nullptr;                     // of the native stack
  std::size_t native_bytes = 0;
  void* park_buffer = nullptr;  // park.hpp, down to parked_argument
  void* resume_buffer = nullptr;
  std::size_t park_bytes = 0, park_offset = 0;
  void (*parked)(void* ticket, void* argument) = nullptr;
  void* parked_argument = nullptr;
  void* sanitizer_native = nullptr;  // fiber.hpp, down to os_bytes
  void* sanitizer_os = nullptr;
  void* sanitizer_ended = nullptr;
  const void* sanitizer_low = nullptr;
  std::size_t sanitizer_bytes = 0;
  const void* os_low = nullptr;
  std::size_t os_bytes = 0;
  WorkerCounters counters = {};
  RunRing<Descriptor> ring;  // anybody takes

  // Owner only: of the last fork in vain.
  std::uint64_t starved_seen = 0;  // what others had
  std::int64_t patience_ns = 0, patient_ns = 0;
};

inline constexpr int kMaxWorkers = 256;

// What the workers of one process share, and what other processes use of it.
struct alignas(64) ProcessQueues {
  Queue ready;                                          // resumed threads; may be stolen by any process unless pinned
  Queue placed;                                         // Placement::kPlaced; may not be stolen
  Queue hinted;                                         // Placement::kHinted; may be stolen by any process
  alignas(64) std::atomic<Descriptor*> freed{nullptr};  // stacks of this process freed by others; linked through next
  alignas(64) Queue high;                               // T5. Of any placement; its count is looked at all the time
  alignas(64) std::atomic<std::uint32_t> sleepers{0};
  std::atomic<std::uint32_t> doorbell{0};
  base::SharedLock slots_lock;
  std::uint32_t next_fresh_slot = 0;    // Guarded by slots_lock.
  Descriptor* spare_threads = nullptr;  // Guarded by slots_lock: overflow of the workers' free lists
  std::uint32_t spare_count = 0;        // Guarded by slots_lock; read as a hint
  int workers = 0;
  Worker worker[];  // [kMaxWorkers], mapped lazily
};

}  // namespace ayatori::ult
