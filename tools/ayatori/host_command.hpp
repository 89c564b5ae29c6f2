// SPDX-License-Identifier: Apache-2.0
// The command by which a host is reached (`--rsh`), and the `ayatori` that it starts there. Used by `ayatori run --hosts` and
// `ayatori doctor --hosts`, on their only thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "system.hpp"

namespace ayatori::tool {

std::string own_path();  // of this executable, as its folder names it; the same on every host

std::string working_folder();

// The template with {host} and {command} replaced by words for a shell.
std::string fill_template(std::string_view text, std::string_view host, std::string_view command);

// The template for `ayatori WORD` on the host.
std::string command_for(std::string_view text, std::string_view host, std::string_view word);

// Starts it by sh, as a process group of its own that dies with the caller. Its standard input and output are `to` and
// `from`, which do not block.
base::Status start_command(const std::string& command, pid_t* pid, Fd* to, Fd* from);

// "ended with status 1", of what waitpid() has told.
std::string status_text(int status);

}  // namespace ayatori::tool
