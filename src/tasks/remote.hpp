// SPDX-License-Identifier: Apache-2.0
// Threads between processes that share no memory (docs/design/between-machines.md): who holds a stack slot works on its
// thread, and is asked by messages; a continuation that is stolen travels with its descriptor and stack in the answer.
//
// Who calls it: the hooks of ult on native stacks; what is asked of this process runs on the serving thread (net/calls.hpp)
// or, where it neither waits nor takes the process's lock, in handlers.
// Q1. A descriptor is valid where its slot is held. What names a thread elsewhere is a Waiter.
// Q2. A thread leaves in this order: release, slot handed over, join word moved out, answer sent; it arrives in the
//     other: descriptor and join word, then the slot. Who asks in between is sent round until it has arrived.
// Q3. The join of a thread that another process holds is a message that follows the slot's holders; its answer, when the
//     thread has ended and its process has released, carries what the thread left.
// Q4. Who tells another process of something ordered before (an unlock, an arrival, an end) has released; who is woken by a
//     message acquires before it runs.
#pragma once

#include <cstdint>

#include "gas/heap.hpp"
#include "net/calls.hpp"
#include "tasks/names.hpp"
#include "tasks/sync.hpp"
#include "ult/scheduler.hpp"

namespace ayatori::tasks::remote {

// A suspended thread, wherever it is.
struct Waiter {
  std::int32_t process;
  std::uint32_t index;  // its stack slot, or the number of its OS thread's descriptor
  std::uint32_t os;     // which of the two
};

// Joins this member to the job's network, once: when the run begins, or before, when main first needs another process (all
// members must come so far).
void connect();
void attach();              // in a member, once: it stays at its exit until the others need nothing of it any more
void mark_left() noexcept;  // it does not: for a member that ends by _exit
bool active() noexcept;
bool connected() noexcept;

Waiter waiter_of(const ult::Descriptor* d) noexcept;
// What stands for that thread here: itself, or a proxy that lives until it is woken.
ult::Descriptor* local_for(const Waiter& waiter);
// A proxy whose thread waits elsewhere from now on is free; anything else is left alone.
void retire(ult::Descriptor* d);
// Wakes it, with its timed_out and barrier_last; a proxy is free then. Whose writes it must see have been released.
void wake(ult::Descriptor* d);
// An operation on an object of tasks/sync, at the process that holds it.
void ask(int process, const sync::Call& call);
std::uint64_t ask_value(int process, const sync::Call& call);
names::Answer ask_names(const names::Request& request);  // of process 0; native stack
// What is known of a thread where it is held.
struct ThreadFacts {
  std::uint64_t number;  // ult::number_of()
  void (*invoke)(void*);
  std::uint64_t join;  // a done word, JoinWord::kRunning or kDetached; kMoved: somebody waits for its end
  bool root;
  bool high;
};
ThreadFacts facts_of(const ult::Descriptor* d);  // wherever it is held; any stack
// Asks the thread to end at its next cancellation point (ult/cancellation.hpp), wherever it is held. Also where memory is
// shared; any stack.
void cancel(const ult::Descriptor* d, std::uint32_t generation);
// Of that thread, wherever it is held. From the next time on that it becomes ready. Any stack.
void set_priority(const ult::Descriptor* d, std::uint32_t generation, bool high);
// Is that the thread which waits for the end of `d`, which runs here?
bool is_waiter(const ult::Descriptor* thread, const ult::Descriptor* d) noexcept;
struct CThreads {
  std::uint64_t begun, ended;  // of the C interface, on one process
};
CThreads c_threads(int process);  // any stack

// Free threads whose stacks that process held, `count` at most, linked through next; this process holds them now. `surplus`: of
// those that it has too many of. Null: it has none. Native stack.
ult::Descriptor* spare_threads(int process, std::uint32_t count, bool surplus);
// For runtime.cpp, before the run: how ult and the heap reach other processes.
void set_hooks(ult::Hooks& hooks);
void set_heap_hooks(gas::heap::Hooks& hooks);
void look_for_lost();  // now and then: ends the job when a process has been lost and nobody else does
void await_all();      // a barrier of members of several machines, after connect(); nothing on one
// The job has finished: wakes all others. Native stack, once.
void tell_finished();
net::Counters counters() noexcept;  // of this process' transport; 0 before connect()

}  // namespace ayatori::tasks::remote
