// SPDX-License-Identifier: Apache-2.0
// Resolves faults that have to ask another process, on a thread of its own: a fault handler may neither wait for messages nor
// take memory, as the code that it interrupted may hold the C library's locks.
//
// Who calls it: start() once; add() anywhere, also in fault handlers: it takes a lock that is held for a few instructions
// by code that does not fault, and allocates nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/shared_lock.hpp"

namespace ayatori::dsm {

struct Fetch {
  void* address = nullptr;
  bool write = false;
  void* ticket = nullptr;  // a suspended thread that is woken; then the fetch was made by new and is deleted
  bool found = true;       // false: nothing was ever allocated there
  std::atomic<std::uint32_t> done{0};
  Fetch* next = nullptr;
};

class Fetcher {
 public:
  // resolve() returns false where nothing was ever allocated.
  void start(bool (*resolve)(void* address, bool write), void (*wake)(void* ticket));  // ends with the process
  void add(Fetch& fetch) noexcept;
  // add(), and waits until it is done.
  bool run(void* address, bool write) noexcept;

 private:
  void main(bool (*resolve)(void*, bool), void (*wake)(void*));

  base::SharedLock lock_;
  Fetch* first_ = nullptr;  // Guarded by lock_.
  Fetch* last_ = nullptr;   // Guarded by lock_.
  std::atomic<std::uint32_t> bell_{0};
};

}  // namespace ayatori::dsm
