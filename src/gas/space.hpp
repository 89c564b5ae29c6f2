// SPDX-License-Identifier: Apache-2.0
// The space: one global address range at the same place in every process, its division into segments, and who owns
// which page (thesis 6.2.1: space, segment, page, manager, owner).
//
// Who calls it: reserve() in the first image before the members are forked; attach() in each member; the rest on any
// thread, signal handlers included (the look-ups take no lock but a slot's and allocate nothing).
//
// G1. The layout is constant after reserve() and equal in all members: they are forked from one image.
// G2. Each process backs the whole space with one sparse memfd, mapped twice: the user view at layout().base, under
//     access control, and the system view, always read-write. Every system view is mapped in every member; where processes
//     are apart(), its own alone.
// G3. The runtime touches space memory only through system views; the user view belongs to user threads.
// G4. The owner of a heap, globals or large page is a static function of the page (its segment's distribution); the
//     owner of a stack page is its slot's owner word, stable while the slot's lock is held.
//     It never changes: a page that once had an owner keeps it (a granule of the placed range gets one when it is first
//     part of a segment; the addresses of other segments are not used twice), so no process ever keeps a stale idea of it.
// G5. The manager of a page (who keeps its directory entry) is the process that owned it first. Entries lie in memory
//     mapped by all, so on one machine the manager need not be asked; where processes are apart(), each has its own idea of
//     them, which may be old (dsm/peers.hpp R1).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/shared_lock.hpp"

namespace ayatori::gas {

inline constexpr std::size_t kPageShift = 12;
inline constexpr std::size_t kPageBytes = std::size_t{1} << kPageShift;
inline constexpr int kMaxProcesses = 64;
inline constexpr std::size_t kGranulePages = 256;  // large segments start and end at multiples of this: 1 MiB

using PageIndex = std::uint32_t;  // offset in the space / kPageBytes; spaces up to 16 TiB
using SlotIndex = std::uint32_t;
inline constexpr SlotIndex kNoSlot = ~SlotIndex{0};

// Constant after reserve() (G1). Ranges in pages, in this order in the space: stacks, globals, arenas, large.
struct Layout {
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  std::size_t pages = 0;
  int processes = 1;
  int self = 0;  // set by attach()
  std::size_t slot_pages = 0;
  SlotIndex slots = 0;
  SlotIndex slots_per_process = 0;
  PageIndex stack_end = 0;  // stacks begin at page 0
  PageIndex globals_first = 0, globals_end = 0;
  PageIndex arena_first = 0, arena_end = 0;
  std::size_t arena_pages = 0;                               // of one process
  PageIndex large_first = 0, placed_end = 0, large_end = 0;  // placed segments end at placed_end
  std::size_t place_pages = kGranulePages;                   // distribution block of placed segments; 0: one a process
};

// A stack slot's directory entry.
struct SlotEntry {
  base::SharedLock lock;
  std::atomic<std::uint32_t> owner{0};  // Guarded by lock; a hint without it.
  std::uint32_t moves = 0;              // Guarded by lock. apart(): how often the slot had changed hands by then.
};

// kPlaced: the reusable range for large heap objects: one block a process, or blocks of Sizes::place_bytes, cyclic over
// the processes, by address.
enum class Distribution : std::uint32_t { kPlaced, kOnProcess, kBlock, kCyclic, kBlockCyclic };

struct Segment {
  PageIndex first = 0;
  std::uint32_t pages = 0;
  std::uint32_t block_pages = 1;  // distribution block
  Distribution distribution = Distribution::kPlaced;
  std::uint32_t process = 0;  // of the first block
};

struct Tables {
  std::byte* system_view[kMaxProcesses] = {};
  SlotEntry* slots = nullptr;
  std::atomic<std::uint32_t>* granule_segment =
      nullptr;                                         // segment number + 1 of each granule of the large range; 0: free
  std::atomic<std::uint8_t>* granule_owner = nullptr;  // of the placed range: owner + 1; 0: never used
  Segment* segments = nullptr;
  int user_fd = -1;
};

namespace detail {
extern Layout layout;  // constant after attach()
extern Tables tables;  // the pointers are constant after attach()
}  // namespace detail

struct Sizes {
  std::uintptr_t base;
  std::size_t space_bytes;
  std::size_t stack_bytes;  // of one thread's slot, guard included; a power of two
  std::size_t place_bytes;  // distribution block of placed segments; 0: one a process
};

// Processes that do not reach each other's memory: what is shared otherwise is then each process's own, and layers above ask
// the process that holds it. Before reserve().
void set_apart() noexcept;
namespace detail {
extern constinit bool is_apart;  // constant after reserve()
}
inline bool apart() noexcept { return detail::is_apart; }

// Maps everything; ends the process with status 125 and a clear message when the machine refuses. Once.
void reserve(int processes, const Sizes& sizes);
// In a member: maps the user view of process `self`, closes the memfds.
void attach(int self);

inline const Layout& layout() noexcept { return detail::layout; }
inline std::byte* system_view(int process) noexcept { return detail::tables.system_view[process]; }
inline std::byte* user_view() noexcept { return reinterpret_cast<std::byte*>(detail::layout.base); }

inline bool contains(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) - detail::layout.base < detail::layout.bytes;
}
inline std::size_t offset_of(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) - detail::layout.base;
}
inline PageIndex page_of(const void* address) noexcept {
  return static_cast<PageIndex>(offset_of(address) >> kPageShift);
}
inline std::byte* page_in(int process, PageIndex page) noexcept {
  return system_view(process) + (std::size_t{page} << kPageShift);
}
inline bool is_stack(PageIndex page) noexcept { return page < detail::layout.stack_end; }
inline SlotIndex slot_of(PageIndex page) noexcept {
  return is_stack(page) ? static_cast<SlotIndex>(page / detail::layout.slot_pages) : kNoSlot;
}
inline SlotEntry& slot_entry(SlotIndex slot) noexcept { return detail::tables.slots[slot]; }
inline PageIndex slot_first(SlotIndex slot) noexcept {
  return static_cast<PageIndex>(slot * detail::layout.slot_pages);
}

// Owner of a page that is no stack page (G4); kNobody where nothing was ever allocated: nobody may map that, or it would
// keep it when somebody gets it.
inline constexpr int kNobody = -1;
int static_owner(PageIndex page) noexcept;
// Pages from `page` on that have its owner and lie in its segment and, for large segments, its block; >= 1.
std::size_t owner_run(PageIndex page) noexcept;
inline int owner_of(PageIndex page) noexcept {
  if (is_stack(page))
    return static_cast<int>(detail::tables.slots[page / detail::layout.slot_pages].owner.load(
        std::memory_order_relaxed));  // stable under the slot's lock (G4)
  return static_owner(page);
}

// A large segment of at least `bytes`, owners by `distribution` in blocks of `block_bytes` (rounded up to pages; kPlaced
// ignores it) starting at `process` (kPlaced: only where there are fewer granules than processes). Returns its first byte (user view), or null when there is no room.
void* allocate_segment(std::size_t bytes, Distribution distribution, std::size_t block_bytes = 0,
                       int process = 0) noexcept;
// The segment that contains `address`, or null. Its memory is given back to the machine by free_segment; addresses of
// placed segments are used again, others are not (G4).
const Segment* find_segment(const void* address) noexcept;
void free_segment(void* first_byte) noexcept;
// Gives the pages' memory of process p back to the machine; they read as zero afterwards.
void punch(int process, PageIndex first, std::size_t pages) noexcept;
// Gives these pages of process p memory in one call, ahead of their first use through its system view. A hint: where the
// system cannot (Linux before 5.14), they get it one by one.
void populate(int process, PageIndex first, std::size_t pages) noexcept;

// apart(): asks, by a function that was set once, who owns a page of the large range that is not known here, and remembers
// it. False: nobody. Native stacks.
bool learn_owner(PageIndex page);
// A peer that knows says that this process owns the page. False: it cannot be so.
bool learn_own(PageIndex page) noexcept;
// apart(): what process 0 knows of the large range, which it deals out, and the others ask it for.
struct LargeHooks {
  int (*owner)(PageIndex page) = nullptr;                                    // of process 0: static_owner() there
  void (*punch)(int process, PageIndex first, std::size_t pages) = nullptr;  // done when it returns
};
void set_large_hooks(const LargeHooks& hooks) noexcept;

// Memory shared by all members, or (apart()) of each its own, at the same address; mapped before the fork, zeroed, lazily
// backed. Ends the process when refused.
void* shared_map(std::size_t bytes, const char* what);
// The system gives memory to what it writes into a core file, and the space and its tables are mostly holes: of them a
// core has what is named here (whole pages; of this process and of those that are forked from it), that is what a debugger
// needs to show threads.
void in_core(const void* first_byte, std::size_t bytes) noexcept;

}  // namespace ayatori::gas
