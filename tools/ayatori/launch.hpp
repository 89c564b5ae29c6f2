// SPDX-License-Identifier: Apache-2.0
// Makes what a job shares with its launcher and execs the program's first image. Launcher's only thread.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "labels.hpp"
#include "net/bootstrap/job_control.hpp"
#include "options.hpp"
#include "program.hpp"
#include "system.hpp"
#include "wide.hpp"

namespace ayatori::tool {

// Signals as they were when the launcher was started; the program gets them back.
struct SignalState {
  sigset_t mask;
  struct sigaction hup, interrupt, quit, tstp, child, pipe;
};

// The control memory and the socket to the members.
struct Channel {
  net::bootstrap::JobControl* control = nullptr;
  Fd control_fd;
  Fd socket;          // the launcher's end
  Fd members_socket;  // closed after the first image has it
};
// 0, or an exit status after a line.
int open_channel(const RunOptions& options, std::uint32_t flags, const WideJob* wide, Channel& channel);

struct FirstImage {
  pid_t pid = -1;
  bool own_group = false;  // the members are in a process group of their own
};
// Forks and execs; returns 0 when the exec has succeeded. With labels, the pipes of process 0, whose number in the job is
// `number`, are added to `labels`.
int start_first_image(const RunOptions& options, const Program& program, const SignalState& signals, int number,
                      Channel& channel, LabelMux& labels, FirstImage& first);

}  // namespace ayatori::tool
