// SPDX-License-Identifier: Apache-2.0
// The counters of a process: their order in JobControl::stats and their names in the JSON. The library writes them, the
// launcher reads them; both are built from this list.
//
// N1. New counters are added at the end: a launcher prints the slots that it knows.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace ayatori::net::bootstrap {

inline constexpr std::array<const char*, 21> kStatNames = {
    "threads_forked", "steals_local",       "steals_remote",  "joins_remote",  "read_faults", "write_faults",
    "blocks_fetched", "bytes_sent",         "bytes_received", "messages_sent", "diffs_sent",  "diff_bytes",
    "invalidations",  "releases",           "acquires",       "compute_ns",    "idle_ns",     "fault_ns",
    "steal_ns",       "messages_by_memory", "steals_beyond",
};
inline constexpr std::size_t kStats = kStatNames.size();
inline constexpr std::size_t kStatSlots = 32;  // room in the control memory
static_assert(kStats <= kStatSlots);

// Slot of a counter, kStats when there is none of that name; for tables that are checked when compiled.
constexpr std::size_t stat_slot(std::string_view name) noexcept {
  std::size_t slot = 0;
  while (slot < kStats && name != kStatNames[slot]) ++slot;
  return slot;
}

}  // namespace ayatori::net::bootstrap
