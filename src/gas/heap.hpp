// SPDX-License-Identifier: Apache-2.0
// The heap of the space. Small and medium objects come from the arena of the process that allocates them (which owns
// those pages), allocations of 1 MiB and more become segments dealt out over the processes (AYATORI_PLACE_BLOCK).
// Parts: heap/classes.hpp (sizes), heap/arena (slabs and runs of units), heap/cache (per OS thread), heap/pending
// (frees from other processes), heap/large (segments).
//
// Who calls it: reserve() in the first image before the members are forked, attach() in each member; allocate() and
// deallocate() on any OS thread and any stack, not in signal handlers; begin_release(), deliver_pending() by whoever
// runs a release of process p, holding p's process lock, in any process; tidy() on native stacks.
//
// H1. No allocator state lies in memory of the space: state, bitmaps and links lie in memory shared by all members,
//     thread caches in memory of the process. The heap never reads or writes the bytes of an object.
// H2. An object's home is the process in whose arena it lies; only threads of its home hand it out. Its owner's copy
//     is then the allocating process's own memory, so no stale copy can swallow the new object's first writes.
// H3. A free in the home is immediate. A free elsewhere, and of a segment anywhere, waits in the freeing process's
//     pending list for a release of that process that began after the free: no late diff can reach memory that has
//     been handed out again. With one process every free is immediate.
// H4. deliver_pending() and begin_release() take no lock: a thread may miss a page while it holds a lock of the heap.
// H5. Locks of the heap are leaves: nothing is called with one held but madvise(2). Hooks are called without.
// H6. malloc and free switch no threads on their own: only the hooks may, and no thread-local address lives across one.
#pragma once

#include <cstddef>

#include "gas/space.hpp"

namespace ayatori::gas::heap {

inline constexpr std::size_t kMinAlign = 16;
inline constexpr std::size_t kLargeBytes = std::size_t{1} << 20;    // from here on segments
inline constexpr std::size_t kPendingObjects = 256;                 // more than that, or than so many bytes: a release
inline constexpr std::size_t kPendingBytes = std::size_t{1} << 20;  // of this process is asked for

// What the layers above give; each may be null. Constant while user threads run.
struct Hooks {
  // Runs a release of this process (with begin_release before and deliver_pending after it) on a suitable stack.
  void (*request_release)() = nullptr;
  // Lets go of every copy of these pages that this process has cached, written or not: the pages were part of a freed
  // segment and are about to be handed out here.
  void (*forget_pages)(PageIndex first, std::size_t pages) = nullptr;
  // Calls function(argument) on the native stack of this OS thread: slow paths, which take locks, go through it.
  // `argument` does not lie in the space.
  void (*call_native)(void (*function)(void*), void* argument) = nullptr;

  // Where processes share no memory (gas::apart()): what another process does, asked for on native stacks. Objects of an
  // arena are asked of its process, segments of process 0.
  // Delivered frees: there, freed_elsewhere() is called.
  void (*free_elsewhere)(int process, void* const* objects, std::size_t count) = nullptr;
  std::size_t (*size_elsewhere)(int process, const void* object) = nullptr;  // usable_size() there
  void* (*take_large_elsewhere)(std::size_t bytes, std::size_t align, Segment* segment, bool* zero) = nullptr;
};

void reserve(int processes);  // after gas::reserve
void attach(int self);        // after gas::attach
void set_hooks(const Hooks& hooks) noexcept;
bool ready() noexcept;  // attached

// Null: no room. `align` is a power of two. Size 0 gives a unique address.
void* allocate(std::size_t bytes, std::size_t align = kMinAlign) noexcept;
// The same, filled with zeros: written through the user view by the caller, hence only on stacks that may fault.
void* allocate_zeroed(std::size_t bytes) noexcept;
// Keeps errno. Anything but null or a live allocation is a fatal error that names the address.
void deallocate(void* address) noexcept;
// Bytes that may be used at `address`, at least what was asked for. Fatal error as deallocate.
std::size_t usable_size(const void* address) noexcept;

// apart(): what another process asks of this one. Native stacks. An address that is no live allocation here is fatal.
void freed_elsewhere(void* const* objects, std::size_t count) noexcept;
// As allocate() of 1 MiB and more for `process`: null, or the segment too.
void* allocate_for(int process, std::size_t bytes, std::size_t align, Segment* segment, bool* zero) noexcept;

// Of process p, at the start of each of its releases: what was freed so far is delivered at the end of this one.
// Without the call it is delivered one release later.
void begin_release(int p) noexcept;
// Of process p, at the end of each of its releases: hands the frees that it covers to their homes.
void deliver_pending(int p) noexcept;
// Collects what other processes freed here and segments freed anywhere, so that their memory goes back to the machine
// although nobody allocates. Worth a call when a worker goes idle: costs two loads when there is nothing.
void tidy() noexcept;

struct Usage {                                 // of one process's arena; exact when nobody allocates
  std::size_t used_bytes;                      // units in slabs and spans
  std::size_t backed_bytes;                    // free units whose memory has not been given back
  std::size_t touched_bytes;                   // from the arena's start to the highest unit ever used
  std::size_t pending_objects, pending_bytes;  // freed by this process, not delivered
};
Usage usage(int process) noexcept;

}  // namespace ayatori::gas::heap
