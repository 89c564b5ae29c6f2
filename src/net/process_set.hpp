// SPDX-License-Identifier: Apache-2.0
// Sets of processes: a bit each.
#pragma once

#include <cstdint>

#include <ayatori/net/types.hpp>

namespace ayatori::net {

constexpr std::uint64_t bit_of(ProcessId process) noexcept { return std::uint64_t{1} << process; }
// Of `count` processes, 1 to kMaxProcesses, from 0 on.
constexpr std::uint64_t first_processes(int count) noexcept { return ~std::uint64_t{0} >> (kMaxProcesses - count); }

}  // namespace ayatori::net
