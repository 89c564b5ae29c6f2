// SPDX-License-Identifier: Apache-2.0
// What an OS thread keeps at hand: free objects of its process's arena, by class. In private memory of the process,
// made at the thread's first allocation, given back when the thread ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gas/heap/classes.hpp"

namespace ayatori::gas::heap {

struct Bin {
  std::uint32_t count;
  std::uint32_t capacity;
  void** objects;  // the first is the one that has lain here longest
};

// Arguments and result of a slow path: it may run on another stack, which must not read this one.
struct SlowCall {
  std::uint32_t size_class;
  std::size_t bytes, align;
  void* address;
  bool zero;
  int process;
};

struct ThreadCache {
  Bin bins[kClasses];
  std::uint32_t shard;
  SlowCall call;
};

// In a new member, on its only thread.
void prepare_caches();
// Of the calling OS thread, made if need be; never null (a process without 64 KiB left ends). Never inlined: see H6.
[[gnu::noinline]] ThreadCache* current_cache() noexcept;
namespace detail {
extern thread_local constinit ThreadCache* cache_of_thread [[gnu::tls_model("initial-exec")]];
}

}  // namespace ayatori::gas::heap
