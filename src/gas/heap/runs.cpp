// SPDX-License-Identifier: Apache-2.0
#include "gas/heap/runs.hpp"

#include <algorithm>
#include <mutex>

#include "base/check.hpp"

namespace ayatori::gas::heap {
namespace {

// Backed free memory that is kept in any case, and the part of the used memory that may be kept beyond.
constexpr std::uint32_t kKeepUnits = 64;  // 4 MiB
constexpr std::uint32_t kKeepPart = 8;

std::uint32_t list_of(std::uint32_t units) noexcept { return std::min(units, kRunLists) - 1; }

// The run lock is held in all of these but the last.

void link_run(ArenaState& arena, Unit* units, UnitIndex first, std::uint32_t length, std::uint32_t backed) noexcept {
  Unit& row = units[first];
  Unit& last = units[first + length - 1];
  row.kind = last.kind = UnitKind::kFree;
  row.first = last.first = first;
  row.units = last.units = length;
  row.backed_units = backed;
  UnitIndex& head = arena.runs[list_of(length)];
  row.previous = kNoUnit;
  row.next = head - 1;  // 0 - 1 is kNoUnit
  if (head != 0) units[head - 1].previous = first;
  head = first + 1;
}

void unlink_run(ArenaState& arena, Unit* units, UnitIndex first) noexcept {
  const Unit& row = units[first];
  if (row.previous == kNoUnit)
    arena.runs[list_of(row.units)] = row.next + 1;
  else
    units[row.previous].next = row.next;
  if (row.next != kNoUnit) units[row.next].previous = row.previous;
}

// Puts [first, first + length) with its neighbours into the lists (A4).
void merge_run(ArenaState& arena, Unit* units, UnitIndex first, std::uint32_t length, std::uint32_t backed) noexcept {
  arena.backed_free += backed;
  if (first > 0 && units[first - 1].kind == UnitKind::kFree) {
    const UnitIndex before = units[first - 1].first;
    unlink_run(arena, units, before);
    length += units[before].units;
    backed += units[before].backed_units;
    first = before;
  }
  const UnitIndex after = first + length;
  if (after < arena.bump && units[after].kind == UnitKind::kFree) {
    unlink_run(arena, units, after);
    length += units[after].units;
    backed += units[after].backed_units;
  }
  link_run(arena, units, first, length, backed);
}

// The shortest run that fits, the most recently freed of its length; kNoUnit: none.
UnitIndex find_run(const ArenaState& arena, const Unit* units, std::uint32_t wanted) noexcept {
  for (std::uint32_t list = list_of(wanted); list < kRunLists; ++list)
    for (UnitIndex at = arena.runs[list] - 1; at != kNoUnit; at = units[at].next)
      if (units[at].units >= wanted) return at;
  return kNoUnit;
}

// Gives the memory of free runs back if more than `keep` units of them are backed. Called without the run lock.
void punch_free_runs(ArenaState& arena, int process, std::uint32_t keep) noexcept {
  Unit* const units = unit_row(process, 0);
  // The runs are taken out of the lists first: madvise takes long and need not hold up the others.
  UnitIndex taken = kNoUnit;
  {
    const std::lock_guard guard(arena.run_lock);
    if (arena.backed_free <= keep) return;
    for (UnitIndex& head : arena.runs) {
      for (UnitIndex at = head - 1; at != kNoUnit;) {
        const UnitIndex next = units[at].next;
        if (units[at].backed_units != 0) {
          unlink_run(arena, units, at);
          units[at].kind = units[at + units[at].units - 1].kind = UnitKind::kBeingPunched;
          arena.backed_free -= units[at].backed_units;
          units[at].next = taken;
          taken = at;
        }
        at = next;
      }
    }
  }
  const PageIndex arena_page =
      layout().arena_first + static_cast<PageIndex>(layout().arena_pages * static_cast<std::size_t>(process));
  while (taken != kNoUnit) {
    const UnitIndex first = taken, end = first + units[first].units;
    taken = units[first].next;
    for (UnitIndex u = first; u < end;) {
      const UnitIndex from = u;
      while (u < end && units[u].backed) units[u++].backed = false;
      if (u > from) punch(process, arena_page + from * static_cast<PageIndex>(kUnitPages), (u - from) * kUnitPages);
      while (u < end && !units[u].backed) ++u;
    }
    const std::lock_guard guard(arena.run_lock);
    merge_run(arena, units, first, end - first, 0);
  }
}

}  // namespace

UnitIndex take_run(ArenaState& arena, int process, std::uint32_t wanted, std::uint32_t size_class,
                   Growth growth) noexcept {
  Unit* const units = unit_row(process, 0);
  const std::lock_guard guard(arena.run_lock);
  UnitIndex first = find_run(arena, units, wanted);
  if (first != kNoUnit) {
    unlink_run(arena, units, first);
    const std::uint32_t length = units[first].units;
    std::uint32_t backed = 0;
    for (UnitIndex u = first; u < first + wanted; ++u) backed += units[u].backed ? 1 : 0;
    arena.backed_free -= backed;
    if (length > wanted) link_run(arena, units, first + wanted, length - wanted, units[first].backed_units - backed);
  } else {
    if (growth == Growth::kNo || wanted > arena_tables.arena_units - arena.bump) return kNoUnit;
    first = arena.bump;
    arena.bump += wanted;
  }
  for (UnitIndex u = first; u < first + wanted; ++u) {
    units[u].kind = UnitKind::kInside;
    units[u].first = first;
    units[u].backed = true;
  }
  units[first].kind = UnitKind::kFirst;
  units[first].units = wanted;
  units[first].size_class = static_cast<std::uint8_t>(size_class);
  arena.used_units += wanted;
  return first;
}

void return_run(ArenaState& arena, int process, UnitIndex first) noexcept {
  Unit* const units = unit_row(process, 0);
  std::uint32_t keep;
  {
    const std::lock_guard guard(arena.run_lock);
    AYT_CHECK(units[first].kind == UnitKind::kFirst,
              "the heap of process {} is corrupt: unit {} is freed but not in use", process, first);
    const std::uint32_t length = units[first].units;
    arena.used_units -= length;
    merge_run(arena, units, first, length, length);
    keep = std::max(kKeepUnits, arena.used_units / kKeepPart);
    if (arena.backed_free <= keep) return;
  }
  punch_free_runs(arena, process, keep);
}

}  // namespace ayatori::gas::heap
