// SPDX-License-Identifier: Apache-2.0
// Shared by the files of this folder only: the one state object of the bootstrap and small functions around system calls.
#pragma once

#include <string_view>

#include "net/bootstrap/bootstrap.hpp"

namespace ayatori::net::bootstrap::internal {

// Written by the start-up thread before the member has another one (job, socket_fd), except where noted.
struct State {
  Job job;
  int socket_fd = -1;        // to the launcher, shared by all members; -1 without a launcher
  bool forked = false;       // fork_members() was called
  bool exit_hooked = false;  // set_phase() has registered the exit handler
  void (*exit_hook)() noexcept = nullptr;
};
State& state() noexcept;

// This member's row of the control memory.
MemberControl& self() noexcept;
// Not a member: forked by the program itself (S4).
bool is_stray() noexcept;

// Tells the launcher to look at the control memory. Async-signal-safe.
void notify_launcher() noexcept;

// Without a launcher: can the file of AYATORI_STATS be written? If not, start-up fails.
void check_stats_file();

// One line on standard error, "ayatori: WHAT[: error text]", and _exit(125).
[[noreturn]] void fail_start(std::string_view what, int error_number = 0) noexcept;

}  // namespace ayatori::net::bootstrap::internal
