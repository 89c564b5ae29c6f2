// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the checking mode only (check_mode.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/symbols.hpp"

namespace ayatori::api::check_mode {

inline constexpr int kLinesMax = 100;  // of each part; the rest is counted

void say(const std::string& text);             // one line on standard error: "ayatori: check: TEXT"
std::string list_of(std::uint64_t processes);  // "process 1", "processes 0, 2"
// Of the C and C++ libraries, the loader or a sanitizer.
bool is_system_library(const std::string& path);
// Names that no program may define: reserved to the implementation, or ours.
bool is_ours(std::string_view name);

void reserve_globals(base::Symbols& symbols, int processes);
void begin_globals(int self);
void publish_globals(int self);
void report_globals(std::uint64_t published);  // set of processes

void reserve_locks(base::Symbols& symbols);
void report_locks(base::Symbols& symbols);

void reserve_thread_locals(base::Symbols& symbols, int processes);
void report_thread_locals(base::Symbols& symbols);

}  // namespace ayatori::api::check_mode
