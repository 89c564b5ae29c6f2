// SPDX-License-Identifier: Apache-2.0
// Threads over the space: connects ult with dsm by the fences of protocol.hpp; stealing between processes, placed
// threads, stack slots, start and end of the run.
//
// R1. A steal between processes never depends on the victim's worker: the thief takes the continuation, runs the
//     victim's release, acquires, and copies the used part of the stack, all by itself through shared memory.
// R2. A stack slot's owner word says which process holds the thread; it changes only under both process locks.
// R3. Nothing here runs on a stack of the space but what says so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dsm/dsm.hpp"
#include "tasks/protocol.hpp"
#include "ult/scheduler.hpp"

namespace ayatori::tasks {

using RealFences = Fences<dsm::RealEnv>;
RealFences& fences() noexcept;

void reserve(int processes);  // before the fork, after gas::reserve and dsm::reserve
// For who watches threads; null: nobody does.
struct Watch {
  void (*moved)(const ult::Descriptor*, int process, int worker) = nullptr;  // of ult::Hooks
  void (*worker_enters)(int worker) = nullptr;                               // its OS thread, before it runs threads
};
void attach(int self, int workers, const Watch& watch);  // after dsm::attach

int self() noexcept;
int processes() noexcept;
int workers() noexcept;

// Runs the job in this member: process 0 makes the first thread from the callable. Returns the job's status.
struct Root {
  void (*construct)(void* where, void* from);
  int (*invoke)(void* call, void* object, int argc, char** argv);
  void* call;
  void (*destroy)(void* object);
  void* from;
  std::size_t align, bytes;
  int argc;
  char** argv;
};
int run(const Root& root);
bool running() noexcept;
bool first_to_overflow() noexcept;  // of the job's threads; where processes share no memory, of the process's
bool finished() noexcept;           // the first thread has ended, as far as this process knows

struct StatsRow {
  std::uint64_t threads_forked, steals_local, steals_remote, joins_remote;
  std::uint64_t compute_ns, idle_ns, steal_ns, steals_beyond;
};
StatsRow worker_stats() noexcept;  // sums over this process's workers

// For remote.hpp: whom to steal from next, -1 in a job of one process; where the objects of a slot's thread end; free stacks
// of this process, linked through next; the job's end as this process sees it.
int next_victim(ult::Worker& w) noexcept;
void asked_victim(const ult::Worker& w, int victim, bool found) noexcept;  // what came of it
std::byte* fresh_stack_top(gas::SlotIndex slot) noexcept;
ult::Descriptor* own_spare_threads(std::uint32_t count);
ult::Descriptor* own_surplus_threads(std::uint32_t count);  // of those that this process has too many of
void finish_here() noexcept;

// Runs f(argument) on the native stack when on a user-level thread, at once elsewhere.
void call_native(void (*f)(void*), void* argument);

}  // namespace ayatori::tasks
