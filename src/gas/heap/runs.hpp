// SPDX-License-Identifier: Apache-2.0
// Runs of units of an arena: first fit by length, merged when freed, memory given back in batches. Called by arena.cpp
// with at most a class lock held, on threads of the arena's process. Rules A1, A4 of arena.hpp.
#pragma once

#include <cstdint>

#include "gas/heap/arena.hpp"

namespace ayatori::gas::heap {

enum class Growth { kNo, kYes };

// Number of a unit among those of all arenas.
inline std::size_t unit_number(int process, UnitIndex unit) noexcept {
  return static_cast<std::size_t>(process) * arena_tables.arena_units + unit;
}
inline Unit* unit_row(int process, UnitIndex unit) noexcept { return arena_tables.units + unit_number(process, unit); }

// A run of `units` for a slab or span of that class; kNoUnit: no room, or none but unused units where growth is no.
UnitIndex take_run(ArenaState& arena, int process, std::uint32_t units, std::uint32_t size_class,
                   Growth growth = Growth::kYes) noexcept;
// Frees the slab or span that begins at `first`; may give memory back to the machine.
void return_run(ArenaState& arena, int process, UnitIndex first) noexcept;

}  // namespace ayatori::gas::heap
