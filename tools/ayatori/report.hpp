// SPDX-License-Identifier: Apache-2.0
// Statistics of a job that has ended: JSON into a file, or a table on standard error.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "net/bootstrap/job_control.hpp"

namespace ayatori::tool {

using StatsRow = std::array<std::uint64_t, net::bootstrap::kStats>;  // in the order of kStatNames
// Of this machine's processes; of one that was killed before it told, zeros.
std::vector<StatsRow> stats_of(const net::bootstrap::JobControl& control);

// Row p: of process p. 0, or an exit status after a line. `file` empty: the table.
int report_stats(const std::vector<StatsRow>& rows, const std::string& program, const std::string& file);
// Can the file be written? Asked before the job starts; 0, or an exit status after a line.
int check_stats_file(const std::string& file);

}  // namespace ayatori::tool
