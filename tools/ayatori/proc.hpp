// SPDX-License-Identifier: Apache-2.0
// What /proc tells about other processes. Everything may be gone by the time it is read: then the answer is "no".
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ayatori::tool {

std::string proc_path(pid_t pid, const char* file);
pid_t parent_of(pid_t pid);             // 0: no such process
bool descends_from_self(pid_t pid);     // a child, or a child of one ...; true too when /proc cannot be read
bool catches(pid_t pid, int signal);    // has it a handler?
std::vector<pid_t> children_of_self();  // orphans given to this process included

}  // namespace ayatori::tool
