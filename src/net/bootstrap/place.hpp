// SPDX-License-Identifier: Apache-2.0
// Where a process runs, as a text that others compare with theirs: two processes with equal places reach each other by
// loopback, and are on one machine. Members and the launcher; any thread.
#pragma once

#include <string>

namespace ayatori::net::bootstrap {

std::string place_of_this_process();  // boot of the machine and network namespace
std::string host_of_this_process();   // the machine's name, for messages

}  // namespace ayatori::net::bootstrap
