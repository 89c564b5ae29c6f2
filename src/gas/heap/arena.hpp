// SPDX-License-Identifier: Apache-2.0
// Arenas: each process's part of the space, dealt out as runs of 64 KiB units, a run being a slab of equal objects, a
// span (one object over 64 KiB) or free. All of it is metadata in memory shared by the members (H1).
//
// Who calls it: threads of the arena's process, through native-stack slow paths of the heap; post() and the look-ups
// by any process.
//
// A1. A unit is the first of a slab or span, inside one, in a free run, or not used yet (beyond `bump`). First and last
//     unit of a free run say how long it is and where it begins.
// A2. What a unit's header says of its slab is constant while an object of the slab is allocated, cached or pending.
// A3. A free from elsewhere sets the object's bit in `posted_bits`, then its word's bit in `posted`; who finds `posted`
//     empty puts the slab into the inbox. The collector reads the link before it empties `posted`: from then on the
//     slab may be posted again. A posted slab whose bits have been taken already is legal and may be no slab any more.
// A4. Free runs never touch (they are merged), so each pair of neighbours has something allocated between it.
// A5. Locks: a class's, then the arena's run lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/shared_lock.hpp"
#include "gas/heap/classes.hpp"
#include "gas/space.hpp"

namespace ayatori::gas::heap {

using UnitIndex = std::uint32_t;  // in its arena
inline constexpr UnitIndex kNoUnit = ~UnitIndex{0};

enum class UnitKind : std::uint8_t { kUnused, kFree, kFirst, kInside, kBeingPunched };

struct alignas(64) Unit {
  // Guarded by the run lock; constant while in use (A2).
  UnitKind kind;
  std::uint8_t size_class;
  std::uint8_t shard;          // whose list the slab belongs to
  bool backed;                 // touched since its memory was last given back
  UnitIndex first;             // of the run that it is in (first and last unit of a free run; all units of a slab)
  std::uint32_t units;         // of the run (the same)
  std::uint32_t backed_units;  // of a free run, in its first unit
  // Links of a free run's list (run lock) or of a class's list of slabs with free objects (class lock).
  UnitIndex next, previous;
  // Guarded by the class lock.
  std::uint32_t free_objects;
  std::uint32_t hint;  // no word of free bits below it is non-zero
  // A3.
  std::atomic<UnitIndex> inbox_next;
  std::atomic<std::uint64_t> posted;
};

using Bits = std::uint64_t[kBitWords];
using PostedBits = std::atomic<std::uint64_t>[kBitWords];

struct alignas(64) ClassList {
  base::SharedLock lock;
  UnitIndex partial;    // Guarded by lock: slabs with free objects, + 1; 0: none
  std::uint32_t empty;  // Guarded by lock: how many of these are wholly free
};

// Each class has several lists, so that workers seldom wait for each other; a thread takes from one of them and makes
// slabs for it, what it frees returns to where it came from.
inline constexpr std::uint32_t kShards = 8;

inline constexpr std::uint32_t kRunLists = 16;  // runs of 1, 2 .. 15 units, and of 16 and more

struct ArenaState {
  ClassList classes[kShards][kClasses];
  alignas(64) base::SharedLock run_lock;
  UnitIndex runs[kRunLists];                 // Guarded by run_lock: first unit + 1; 0: none
  UnitIndex bump;                            // Guarded by run_lock: units from here on were never used
  std::uint32_t used_units;                  // Guarded by run_lock
  std::uint32_t backed_free;                 // Guarded by run_lock: backed units in free runs
  alignas(64) std::atomic<UnitIndex> inbox;  // slabs with posted bits, first unit + 1, linked by inbox_next (A3)
};

// What an object's first 16 bytes say in the table of grains.
enum : std::uint8_t { kGrainNone = 0, kGrainPending = 0xfe, kGrainFreed = 0xff };  // else: allocated, class + 1

// Constant after attach(); the tables lie in shared memory.
struct ArenaTables {
  std::uintptr_t base = 0;      // user address of the first arena
  std::size_t bytes = 0;        // of all arenas
  std::size_t arena_bytes = 0;  // of one
  std::uintptr_t home = 0;      // user address of this process's arena
  std::uint32_t arena_units = 0;
  int self = 0;
  std::atomic<std::uint8_t>* grains = nullptr;  // of all arenas, one an object's possible start
  ArenaState* arenas = nullptr;
  Unit* units = nullptr;
  Bits* free_bits = nullptr;  // Guarded by the class lock: objects in slabs that nobody has
  PostedBits* posted_bits = nullptr;
};
extern ArenaTables arena_tables;

void reserve_arenas(int processes);
void attach_arena(int self);

// Takes up to `wanted` objects of a class from this process's arena, at first from a shard; 0: there is no more room.
std::uint32_t take_objects(std::uint32_t size_class, std::uint32_t shard, void** objects,
                           std::uint32_t wanted) noexcept;
// Gives back objects of this process's arena; their grains say freed already.
void return_objects(std::uint32_t size_class, void* const* objects, std::uint32_t count) noexcept;
// An object over 64 KiB, up to 1 MiB; null: no room.
void* take_span(std::size_t bytes) noexcept;
void return_span(void* object) noexcept;
// Frees in this process's arena what others have posted.
void collect_posted() noexcept;

// Any process: tells the home of the object that it is free. Lock-free (H4).
void post(void* object) noexcept;

inline std::atomic<std::uint8_t>& grain_of(std::size_t arena_offset) noexcept {
  return arena_tables.grains[arena_offset >> kGrainShift];
}
inline std::size_t arena_offset(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) - arena_tables.base;
}
// Bytes of the live object of that class (its grain less 1).
std::size_t object_bytes(const void* object, std::uint32_t size_class) noexcept;

}  // namespace ayatori::gas::heap
