// SPDX-License-Identifier: Apache-2.0
// What the files of the fault engine share among themselves; not for other folders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "dsm/fault/engine.hpp"

namespace ayatori::dsm::fault {

// Start one mechanism on the attached user view; null and a reason when the system refuses it.
const Engine* start_uffd(int processes, std::string* refusal);
const Engine* start_mprotect(int processes, std::string* refusal);

// Guards in the page tables (MADV_GUARD_INSTALL, Linux 6.15 for shared memory), which split no mapping: for stacks of a
// process whose view is otherwise plainly accessible, and of the mprotect engine.
bool light_guards_work() noexcept;
bool light_guard(gas::PageIndex first, std::size_t pages) noexcept;

inline std::uintptr_t address_of(gas::PageIndex page) noexcept {
  return gas::layout().base + (std::size_t{page} << gas::kPageShift);
}
inline void* pointer_to(gas::PageIndex page) noexcept { return reinterpret_cast<void*>(address_of(page)); }
inline std::size_t bytes_of(std::size_t pages) noexcept { return pages << gas::kPageShift; }

// Mappings that the kernel grants a process (vm.max_map_count).
std::size_t map_count_limit() noexcept;

// signal.cpp
void install_handlers(const FaultHooks& hooks, int fault_signal);

}  // namespace ayatori::dsm::fault
