// SPDX-License-Identifier: Apache-2.0
// Slabs and spans of an arena; what a process frees of another's. Rules: arena.hpp. Runs of units: runs.cpp.
#include "gas/heap/arena.hpp"

#include <algorithm>
#include <mutex>

#include "base/check.hpp"
#include "gas/heap/runs.hpp"

namespace ayatori::gas::heap {

constinit ArenaTables arena_tables;

namespace {

constexpr ArenaTables& tables = arena_tables;

ArenaState& own() noexcept { return tables.arenas[tables.self]; }
Unit* own_units() noexcept { return unit_row(tables.self, 0); }

std::uint64_t* free_bits(UnitIndex unit) noexcept { return tables.free_bits[unit_number(tables.self, unit)]; }

std::byte* unit_address(UnitIndex unit) noexcept {
  return reinterpret_cast<std::byte*>(tables.home + (std::size_t{unit} << kUnitShift));
}

// ---- a class's list of slabs with free objects; the class lock is held

void link_slab(ClassList& list, UnitIndex slab) noexcept {
  Unit* const units = own_units();
  units[slab].previous = kNoUnit;
  units[slab].next = list.partial - 1;  // 0 - 1 is kNoUnit
  if (list.partial != 0) units[list.partial - 1].previous = slab;
  list.partial = slab + 1;
}

void unlink_slab(ClassList& list, UnitIndex slab) noexcept {
  Unit* const units = own_units();
  const UnitIndex next = units[slab].next, previous = units[slab].previous;
  if (previous == kNoUnit)
    list.partial = next + 1;
  else
    units[previous].next = next;
  if (next != kNoUnit) units[next].previous = previous;
}

// A new slab, not linked; kNoUnit: no room. Called without the class lock: nobody knows the slab yet.
UnitIndex make_slab(std::uint32_t size_class, std::uint32_t shard) noexcept {
  const SizeClass& row = kSizeClasses[size_class];
  const UnitIndex slab = take_run(own(), tables.self, row.units, size_class);
  if (slab == kNoUnit) return kNoUnit;
  std::uint64_t* const bits = free_bits(slab);
  for (std::uint32_t word = 0, left = row.capacity; word < kBitWords; ++word) {
    const std::uint32_t here = std::min(left, 64u);
    bits[word] = here == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1;
    left -= here;
    if (left == 0) break;
  }
  Unit& header = own_units()[slab];
  header.free_objects = row.capacity;
  header.hint = 0;
  header.shard = static_cast<std::uint8_t>(shard);
  return slab;
}

std::uint32_t take_from_slab(UnitIndex slab, const SizeClass& row, void** objects, std::uint32_t wanted) noexcept {
  Unit& header = own_units()[slab];
  std::uint64_t* const bits = free_bits(slab);
  std::byte* const base = unit_address(slab);
  std::uint32_t word = header.hint, taken = 0;
  const std::uint32_t count = std::min(wanted, header.free_objects);
  while (taken < count) {
    std::uint64_t left = bits[word];
    if (left == 0) {
      ++word;
      continue;
    }
    while (left != 0 && taken < count) {
      const auto bit = static_cast<std::uint32_t>(__builtin_ctzll(left));
      left &= left - 1;
      objects[taken++] = base + std::size_t{word * 64 + bit} * row.bytes;
    }
    bits[word] = left;
  }
  header.hint = word;
  header.free_objects -= taken;
  return taken;
}

// Frees one object of a slab whose class lock is held. Returns the slab if it is to be given back: it is unlinked then.
UnitIndex return_to_slab(ClassList& list, std::uint32_t size_class, UnitIndex slab, std::uint32_t index) noexcept {
  Unit& header = own_units()[slab];
  const std::uint32_t word = index / 64;
  const std::uint64_t bit = std::uint64_t{1} << index % 64;
  AYT_CHECK((free_bits(slab)[word] & bit) == 0, "the heap of process {} is corrupt: object {} of unit {} is free twice",
            tables.self, index, slab);
  free_bits(slab)[word] |= bit;
  header.hint = std::min(header.hint, word);
  if (++header.free_objects == 1) link_slab(list, slab);
  if (header.free_objects < kSizeClasses[size_class].capacity) return kNoUnit;
  // One empty slab a class stays, so that a program at the edge of a slab does not make and unmake it at each step.
  if (list.empty == 0) {
    list.empty = 1;
    return kNoUnit;
  }
  unlink_slab(list, slab);
  return slab;
}

// Gives the empty slab of a list back. Returns whether there was one.
bool return_empty_slab(ClassList& list, std::uint32_t capacity) noexcept {
  UnitIndex found = kNoUnit;
  {
    const std::lock_guard guard(list.lock);
    if (list.empty == 0) return false;
    for (UnitIndex slab = list.partial - 1; slab != kNoUnit && found == kNoUnit; slab = own_units()[slab].next)
      if (own_units()[slab].free_objects == capacity) found = slab;
    unlink_slab(list, found);
    list.empty = 0;
  }
  return_run(own(), tables.self, found);
  return true;
}

bool return_empty_slabs() noexcept {
  bool any = false;
  for (auto& shard : own().classes)
    for (std::uint32_t c = 0; c < kClasses; ++c) any |= return_empty_slab(shard[c], kSizeClasses[c].capacity);
  return any;
}

std::uint32_t take_linked(std::uint32_t size_class, std::uint32_t shard, void** objects,
                          std::uint32_t wanted) noexcept {
  const SizeClass& row = kSizeClasses[size_class];
  ClassList& list = own().classes[shard][size_class];
  std::uint32_t taken = 0;
  const std::lock_guard guard(list.lock);
  while (taken < wanted && list.partial != 0) {
    const UnitIndex slab = list.partial - 1;
    const bool was_empty = own_units()[slab].free_objects == row.capacity;
    taken += take_from_slab(slab, row, objects + taken, wanted - taken);
    if (was_empty) list.empty = 0;
    if (own_units()[slab].free_objects == 0) unlink_slab(list, slab);
  }
  return taken;
}

// Frees objects of one slab, given as bits of one word, for collect_posted.
void return_word(UnitIndex slab, std::uint32_t word, std::uint64_t bits) noexcept {
  const std::uint32_t size_class = own_units()[slab].size_class;  // stable: the objects are not free yet (A2)
  if (size_class == kSpanClass) {
    return_run(own(), tables.self, slab);
    return;
  }
  ClassList& list = own().classes[own_units()[slab].shard][size_class];
  UnitIndex empty = kNoUnit;
  {
    const std::lock_guard guard(list.lock);
    for (; bits != 0; bits &= bits - 1)
      empty = return_to_slab(list, size_class, slab, word * 64 + static_cast<std::uint32_t>(__builtin_ctzll(bits)));
  }
  if (empty != kNoUnit) return_run(own(), tables.self, empty);
}

}  // namespace

void reserve_arenas(int processes) {
  const Layout& l = layout();
  const auto n = static_cast<std::size_t>(processes);
  tables.base = l.base + (std::size_t{l.arena_first} << kPageShift);
  tables.arena_bytes = l.arena_pages << kPageShift;
  tables.bytes = tables.arena_bytes * n;
  tables.arena_units = static_cast<std::uint32_t>(tables.arena_bytes >> kUnitShift);
  AYT_CHECK(tables.base % kUnitBytes == 0, "the arenas begin at {:#x}", tables.base);
  const std::size_t units = tables.arena_units * n;
  const char* const what = "the tables of the heap";
  tables.grains = static_cast<std::atomic<std::uint8_t>*>(shared_map(tables.bytes >> kGrainShift, what));
  tables.arenas = static_cast<ArenaState*>(shared_map(sizeof(ArenaState) * n, what));
  tables.units = static_cast<Unit*>(shared_map(sizeof(Unit) * units, what));
  tables.free_bits = static_cast<Bits*>(shared_map(sizeof(Bits) * units, what));
  tables.posted_bits = static_cast<PostedBits*>(shared_map(sizeof(PostedBits) * units, what));
}

void attach_arena(int self) {
  tables.self = self;
  tables.home = tables.base + tables.arena_bytes * static_cast<std::size_t>(self);
}

std::uint32_t take_objects(std::uint32_t size_class, std::uint32_t shard, void** objects,
                           std::uint32_t wanted) noexcept {
  const SizeClass& row = kSizeClasses[size_class];
  std::uint32_t taken = take_linked(size_class, shard, objects, wanted);
  if (taken > 0) return taken;
  collect_posted();  // before the arena grows
  taken = take_linked(size_class, shard, objects, wanted);
  if (taken > 0) return taken;
  UnitIndex slab = make_slab(size_class, shard);
  if (slab == kNoUnit && return_empty_slabs()) slab = make_slab(size_class, shard);
  if (slab == kNoUnit) {
    for (std::uint32_t other = 0; other < kShards && taken == 0; ++other)
      taken = take_linked(size_class, other, objects, wanted);
    return taken;
  }
  taken = take_from_slab(slab, row, objects, wanted);
  ClassList& list = own().classes[shard][size_class];
  const std::lock_guard guard(list.lock);
  if (own_units()[slab].free_objects != 0) link_slab(list, slab);
  return taken;
}

void return_objects(std::uint32_t size_class, void* const* objects, std::uint32_t count) noexcept {
  constexpr std::uint32_t kAtOnce = 8;
  UnitIndex empty[kAtOnce];
  const auto slab_of = [](const void* object) {
    return own_units()[(reinterpret_cast<std::uintptr_t>(object) - tables.home) >> kUnitShift].first;
  };
  for (std::uint32_t i = 0; i < count;) {
    const std::uint8_t shard = own_units()[slab_of(objects[i])].shard;
    ClassList& list = own().classes[shard][size_class];
    std::uint32_t empties = 0;
    {
      const std::lock_guard guard(list.lock);
      for (; i < count && empties < kAtOnce; ++i) {
        const UnitIndex slab = slab_of(objects[i]);
        if (own_units()[slab].shard != shard) break;
        const std::size_t inside =
            reinterpret_cast<std::uintptr_t>(objects[i]) - tables.home - (std::size_t{slab} << kUnitShift);
        const UnitIndex gone = return_to_slab(list, size_class, slab, index_in_slab(size_class, inside));
        if (gone != kNoUnit) empty[empties++] = gone;
      }
    }
    for (std::uint32_t e = 0; e < empties; ++e) return_run(own(), tables.self, empty[e]);
  }
}

void* take_span(std::size_t bytes) noexcept {
  const auto units = static_cast<std::uint32_t>((bytes + kUnitBytes - 1) >> kUnitShift);
  UnitIndex first = kNoUnit;
  // First without growing, then after a look at what others freed, at last with what the classes keep.
  for (int attempt = 0; attempt < 3 && first == kNoUnit; ++attempt) {
    if (attempt == 1) collect_posted();
    if (attempt == 2 && !return_empty_slabs()) break;
    first = take_run(own(), tables.self, units, kSpanClass, attempt == 0 ? Growth::kNo : Growth::kYes);
  }
  return first == kNoUnit ? nullptr : unit_address(first);
}

void return_span(void* object) noexcept {
  return_run(own(), tables.self,
             static_cast<UnitIndex>((reinterpret_cast<std::uintptr_t>(object) - tables.home) >> kUnitShift));
}

void post(void* object) noexcept {
  const std::size_t offset = arena_offset(object);
  const auto home = static_cast<int>(offset / tables.arena_bytes);
  const std::size_t in_arena = offset % tables.arena_bytes;
  const UnitIndex slab = unit_row(home, static_cast<UnitIndex>(in_arena >> kUnitShift))->first;
  Unit& header = *unit_row(home, slab);
  const std::uint32_t index = index_in_slab(header.size_class, in_arena - (std::size_t{slab} << kUnitShift));
  const std::uint32_t word = index / 64;
  grain_of(offset).store(kGrainFreed, std::memory_order_relaxed);  // ordered by the next line
  // release: pairs with the collector's acquire exchanges; the diffs of the object's bytes were sent before (H3)
  tables.posted_bits[unit_number(home, slab)][word].fetch_or(std::uint64_t{1} << index % 64, std::memory_order_release);
  if (header.posted.fetch_or(std::uint64_t{1} << word, std::memory_order_acq_rel) != 0) return;  // A3
  std::atomic<UnitIndex>& inbox = tables.arenas[home].inbox;
  UnitIndex top = inbox.load(std::memory_order_relaxed);
  do header.inbox_next.store(top, std::memory_order_relaxed);
  while (!inbox.compare_exchange_weak(top, slab + 1, std::memory_order_release, std::memory_order_relaxed));
}

void collect_posted() noexcept {
  ArenaState& arena = own();
  if (arena.inbox.load(std::memory_order_relaxed) == 0) return;
  // acquire: pairs with post()'s release
  UnitIndex at = arena.inbox.exchange(0, std::memory_order_acquire);
  while (at != 0) {
    const UnitIndex slab = at - 1;
    Unit& header = own_units()[slab];
    at = header.inbox_next.load(std::memory_order_relaxed);  // before `posted` is emptied (A3)
    for (std::uint64_t words = header.posted.exchange(0, std::memory_order_acq_rel); words != 0; words &= words - 1) {
      const auto word = static_cast<std::uint32_t>(__builtin_ctzll(words));
      const std::uint64_t bits =
          tables.posted_bits[unit_number(tables.self, slab)][word].exchange(0, std::memory_order_acquire);
      if (bits != 0) return_word(slab, word, bits);
    }
  }
}

std::size_t object_bytes(const void* object, std::uint32_t size_class) noexcept {
  if (size_class != kSpanClass) return kSizeClasses[size_class].bytes;
  const std::size_t offset = arena_offset(object);
  const auto home = static_cast<int>(offset / tables.arena_bytes);
  const auto unit = static_cast<UnitIndex>(offset % tables.arena_bytes >> kUnitShift);
  return std::size_t{unit_row(home, unit)->units} << kUnitShift;
}

}  // namespace ayatori::gas::heap
