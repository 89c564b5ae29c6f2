// SPDX-License-Identifier: Apache-2.0
// Fork, join and the workers' scheduler: child-first fork, continuation stealing inside the process, everything that
// crosses processes through hooks (thesis 6.1; design, ult). Knows nothing of coherence.
//
// U1. Operations that wait, lock, or reach other processes run on the worker's native stack: on_native() saves the
//     thread first (thesis 6.2.4: no runtime lock is held on a stack of the space).
// U2. A thread is put where others can find it only after its context is saved, from the native stack.
// U3. The fast path of fork and join (nobody steals) has one atomic read-modify-write: the exchange in Deque::pop.
// U4. Who makes a thread ready for its own worker wakes sleepers without a fence: one that goes to sleep at that moment may not
//     be woken, and finds the thread when its nap of 1 ms at most is over.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ult/switch.hpp"
#include "ult/thread.hpp"

namespace ayatori::ult {

// What the layer above provides. Called on native stacks.
struct Hooks {
  // Gives a continuation taken from another process, resident here and acquired; null when there is none.
  Descriptor* (*steal_remote)(Worker&) = nullptr;
  // A placed thread is about to start here: bring its stack.
  void (*bring_placed)(Descriptor*) = nullptr;
  // A thread that was resumed from another process is about to run: acquire.
  void (*acquire)() = nullptr;
  // What was ordered here must be visible to another process that resumes `d`, or waits for it: release.
  void (*release)() = nullptr;
  // The moment, in the order of fences, at which a thread ends here; null with one process.
  std::uint64_t (*tick)() = nullptr;
  // A joiner here joins what ended at `process`, at that moment.
  void (*pass_from)(int process, std::uint64_t ended) = nullptr;
  // Which process holds the thread's stack.
  int (*home)(const Descriptor*) = nullptr;
  // Descriptors of up to `count` fresh stacks for this process, or of some that others do not use, linked through next;
  // null when there are none.
  Descriptor* (*more_threads)(std::uint32_t count) = nullptr;
  // A worker that was asked for its free threads has given them back (T4). Null: nobody cares.
  void (*spilled)() = nullptr;
  // Where the runtime may write a stack address of a thread whose stack is here.
  void* (*writable)(void* stack_address) = nullptr;
  // The saved stack pointer of a thread that is being left lies below its stack. Ends the job, or is no concern.
  void (*out_of_stack)(const Descriptor*, const void* sp) = nullptr;
  // A thread that was suspended at `worker` of `process`, all of it here now, is about to run on another worker. Null: nobody
  // cares, and where threads were suspended is not noted.
  void (*moved)(const Descriptor*, int process, int worker) = nullptr;
  // On the stack of a thread with `has_values`, which ends; may wait, and resets that. May be called earlier by others.
  void (*thread_ends)() = nullptr;
  void (*root_ended)() = nullptr;  // the first thread has ended
  // This OS thread enters (true) or leaves (false) user-level threads; null: nobody cares.
  void (*user_mode)(bool) = nullptr;
  // A worker has found nothing for a while: time to tidy up.
  void (*tidy)() = nullptr;
  // Completes what has arrived from other processes; null: nothing ever does.
  void (*poll)() = nullptr;

  // Where processes share no memory (Config::apart); each works on threads and queues of its own.
  // `self`, suspended, waits for `child`, whose stack another process holds: it is made ready when that has ended.
  void (*join_apart)(Descriptor* self, Descriptor* child) = nullptr;
  void (*detach_apart)(Descriptor* child) = nullptr;
  // Wakes the thread that a proxy stands for; `ended`: the thread that it joins, or null. Frees the proxy.
  void (*wake_apart)(Descriptor* proxy, Descriptor* ended) = nullptr;
  void (*free_apart)(Descriptor* d, int process) = nullptr;  // the stack of `d` is held there, nobody uses it any more
  void (*place_apart)(Descriptor* child, int process) = nullptr;
  void (*start_placed)(Descriptor*) = nullptr;  // as bring_placed, of a thread that place_apart sent here
};

// What a worker does that has found nothing (docs/design/idle-workers.md). All but kSleep keep a CPU busy.
enum class Backoff : std::uint8_t { kSleep, kNone, kFixed, kRandom };

struct Config {
  int process = 0;
  int processes = 1;
  int workers = 1;
  bool apart = false;                      // processes share no memory
  ProcessQueues* const* queues = nullptr;  // of every process
  Descriptor* threads = nullptr;           // of every slot
  std::uint32_t thread_count = 0;
  std::byte* stacks = nullptr;  // user view of slot 0
  std::size_t stack_bytes = 0;
  std::size_t stack_room_bytes = SIZE_MAX;         // of these what threads may use: less the guard
  std::uint32_t keep_threads = 256;                // free threads that a worker keeps
  std::atomic<std::uint32_t>* finished = nullptr;  // non-zero: all workers of all processes leave
  Backoff backoff = Backoff::kSleep;
  bool joiners_move = false;  // who waits for a thread goes on in the process where that has ended
  Hooks hooks;
  std::uint64_t done_here = 0;  // set by configure(): the join word of what ended here
};

extern Config the_config;  // constant after configure()
inline const Config& config() noexcept { return the_config; }
void configure(const Config& config);

inline ProcessQueues& queues_of(int process) noexcept { return *config().queues[process]; }
inline std::byte* stack_top(const Descriptor* d) noexcept {
  return config().stacks + (std::size_t{d->slot} + 1) * config().stack_bytes;
}

// Runs worker `number` on the calling OS thread until the job is finished. `first`: a thread to start with, or null.
void run_worker(int number, Descriptor* first);

// Runs op(worker, current thread, argument) on the native stack; op returns the context to resume: self->sp (after
// possibly long) or schedule(). On a user-level thread only.
using Operation = void* (*)(Worker&, Descriptor* self, void* argument);
void on_native(Operation op, void* argument) noexcept;
// Runs f(argument), which switches to no other thread, on the native stack. On a user-level thread only. errno stays.
void call_on_native(void (*f)(void*), void* argument) noexcept;

// Native stack: the next context to run on this worker; comes back with the worker's own context at the end of the job.
void* schedule(Worker& worker) noexcept;
// Native stack: makes `d` current and returns its context.
void* resume_here(Worker& worker, Descriptor* d) noexcept;
// Native stack, any OS thread of this process: `d`, not in any queue, may run. Goes to the process that holds its stack;
// when that is another one, this process's writes are released first (pass `released` if that was done).
void make_ready(Descriptor* d, bool released) noexcept;
// Any process: wakes a sleeping worker of `process`, if any.
void ring(int process) noexcept;

// Takes one continuation of a worker of `victim`, or a resumed thread, for another process; or one that has not begun, which
// `placement` says and whose stack is with its home().
Descriptor* take_across(int victim, std::uint64_t start) noexcept;
// Does `victim` seem to have something for take_across()? A hint.
bool worth_a_look(int victim) noexcept;

struct Room {
  Descriptor* thread;
  void* object;
};
// allocate(), fork(), join(), join_and_reap(): fast.hpp
void reap(Descriptor* child) noexcept;  // after join: the descriptor is free
void abandon(Descriptor* d) noexcept;
void free_thread(Descriptor* d) noexcept;  // its stack is held here, nobody uses it any more; any OS thread
// An exception left a detached thread: as std::terminate does, with its message.
[[noreturn]] void terminate_with(Descriptor* d) noexcept;
// Begins on that process; kHinted: unless another one begins it first.
void fork_placed(Descriptor* child, void (*invoke)(void*), int process, Placement placement) noexcept;
// A thread that has not begun, held here from now on: where it waits.
void push_placed(Descriptor* child, int process) noexcept;
// True: the thread will free itself, or did end and is free. False: it has ended with an error, which is left in it.
bool detach(Descriptor* child) noexcept;
// Ends the current thread from any of its frames; nothing is unwound.
[[noreturn]] void end_thread() noexcept;
void yield() noexcept;
void sleep(std::int64_t ns) noexcept;
// Native stack: at the time, expired(d, tag) is called by a worker of this process, and d is made ready if it returns
// true; without a function d (suspended, in no queue) is simply made ready. Timers are not cancelled: expired() decides.
void add_timer(Descriptor* d, std::int64_t when_ns, bool (*expired)(Descriptor*, std::uint64_t tag), std::uint64_t tag);

// Prepares the first thread: room on its stack from outside any thread (start-up).
Room allocate_first(Worker& worker, std::size_t align, std::size_t bytes) noexcept;
void prepare_first(Descriptor* d, void (*invoke)(void*)) noexcept;

// The caller's next fork leaves its continuation where a thief looks first, and its process is one of the upper half.
bool upper_first() noexcept;
// The caller's worker has no continuation for thieves. A hint.
bool nothing_to_steal() noexcept;

// Asked for from outside: a detached thread of this process, pinned while invoke(*this) runs, which throws nothing. The
// asker's memory until then; `acquire`: what was released elsewhere is seen there.
struct Start {
  void (*invoke)(Start& start) = nullptr;
  bool acquire = false;
  Start* next = nullptr;
};
// Native stack, any OS thread of this process, also before its workers run: one of them starts it when it looks for work,
// first come first served, and as soon as there is a stack.
void start_here(Start& start) noexcept;

std::uint64_t number_of(const Descriptor* d) noexcept;
// `d` has been asked to end: if it waits for a thread that is held here, at a cancellation point, it goes on, timed out.
// Native stack.
void end_cancelled_join(Descriptor* d) noexcept;
Worker& worker_of(int number) noexcept;

}  // namespace ayatori::ult
