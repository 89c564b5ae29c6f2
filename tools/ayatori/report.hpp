// SPDX-License-Identifier: Apache-2.0
// Statistics of a job that has ended: JSON into a file, or a table on standard error.
#pragma once

#include <string>

#include "net/bootstrap/job_control.hpp"

namespace ayatori::tool {

// 0, or an exit status after a line. `file` empty: the table.
int report_stats(const net::bootstrap::JobControl& control, const std::string& program, const std::string& file);
// Can the file be written? Asked before the job starts; 0, or an exit status after a line.
int check_stats_file(const std::string& file);

}  // namespace ayatori::tool
