// SPDX-License-Identifier: Apache-2.0
// Keys of thread-specific data and the values that threads have for them. Called on user-level threads and OS threads of
// the program, on stacks that may fault.
//
// K1. A key names a place in the table of the job (or, gas::apart(), of process 0) and how often that was given: an old
//     key finds other threads' values no more than a wrong one. 0 is none.
// K2. A key at an address of the program's static data is one for all processes; its users are the processes that have
//     created it there and not deleted it. One that creates it again gets a new one.
// K3. A thread's values lie in the space (an OS thread's on the C library's heap) and are touched by that thread alone,
//     so a look at them asks nobody.
// K4. With the values lies what a thread holds of robust mutexes: they are left to others when it ends, after its
//     destructors.
#pragma once

#include <cstdint>

#include "tasks/sync.hpp"
#include "ult/thread.hpp"

namespace ayatori::tasks::keys {

using Key = std::uint32_t;
using Destructor = void (*)(void*);
inline constexpr std::uint32_t kKeys = 1024;
inline constexpr int kRounds = 4;  // of destructors that set values again

void reserve();  // before the fork

Key create(const void* where, Destructor destructor) noexcept;  // 0: none is left
bool erase(Key key) noexcept;                                   // false: no such key

void* get(Key key) noexcept;  // null: no value, no such key
enum class Set { kDone, kNoKey, kNoMemory };
Set set(Key key, void* value) noexcept;

// What the calling thread does when it ends, after all destructors: run(list), unless list is null, which it is from then on.
struct AtExit {
  void* list;
  void (*run)(void* list);
};
AtExit* at_exit() noexcept;  // null: no memory
// K4. Room for one more; false: no memory. Before the mutex is locked.
bool reserve_robust() noexcept;
void add_robust(sync::Handle mutex) noexcept;
void remove_robust(sync::Handle mutex) noexcept;

// Runs the destructors of the calling user-level thread's values, frees what held them.
void end_values() noexcept;

// What process 0 does for others, gas::apart(). `argument`: an address and then a destructor in `more`, or a key.
Key create_here(std::uintptr_t where, Destructor destructor, int process) noexcept;
bool erase_here(Key key, int process) noexcept;
std::uint64_t find_here(Key key) noexcept;  // 0: no such key; 1: without destructor; else that

}  // namespace ayatori::tasks::keys
