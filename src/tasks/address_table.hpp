// SPDX-License-Identifier: Apache-2.0
// Synchronisation objects that are known by their address: those of an initialiser, which nobody had made before their
// first use, and those in the program's static data, which are one object for all processes although the bytes there are
// each process's own (members come from one image, so addresses are the same in all). Their bytes are never written:
// they would reach the other processes at acquires only.
//
// Who calls it: the C interface and sync.cpp for objects of C++, on any thread and stack: nothing here locks.
// O1. An entry, once its address is written, keeps it for the life of the job; only its handle changes.
// O2. No process keeps a handle that it found here: the object may be destroyed and made anew by another one. Objects of
//     C++ do: they have users (Y6 of sync.hpp).
#pragma once

#include "tasks/sync.hpp"

namespace ayatori::tasks::address_table {

void reserve();  // before the fork

// Is this static data of the program or of one of its libraries?
bool is_static(const void* address) noexcept;
// The object at this address; 0: none.
sync::Handle find(const void* address) noexcept;
// Makes `handle` the object at this address if `before` is (0: none). Returns what is there then: `handle`, or another
// one that somebody else put there; 0: no room.
sync::Handle replace(const void* address, sync::Handle before, sync::Handle handle) noexcept;
// Returns what was there.
sync::Handle erase(const void* address) noexcept;

}  // namespace ayatori::tasks::address_table
