// SPDX-License-Identifier: Apache-2.0
// Where a debugger finds threads, by names: tools/gdb/ayatori_gdb.py reads it from a stopped process or a core, without type
// information of the library. Constant but for the workers' OS threads, which dump.cpp enters.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ayatori::tasks {

struct DebugEntry {
  char name[32];
  std::uint64_t value;  // an address, an offset, or a number
};

struct DebugTable {
  char magic[8];  // "AYTDBG1"
  std::uint64_t count;
  const void* config;       // ult::the_config
  const void* layout;       // gas::detail::layout
  const void* tables;       // gas::detail::tables
  const void* sync;         // sync::state
  const void* worker_tids;  // int of each worker of this process, 0: none; null before the run
  DebugEntry entries[64];
};

}  // namespace ayatori::tasks

extern "C" ayatori::tasks::DebugTable ayt_debug_table;
