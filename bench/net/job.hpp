// SPDX-License-Identifier: Apache-2.0
// Runs one measured job: forks its members, collects what process 0 finds, sees to it that nothing is left. Driver's
// only thread.
//
// J1. Members are the driver's children and nobody else's; each dies with it (parent-death signal) and blocks the signals
//     that end a program: on Ctrl-C the driver alone decides.
// J2. The first member that ends badly, a job that finds nothing for kSilenceS, or a signal ends the job: all members
//     are killed and reaped before run_job() returns.
// J3. Of several members that ended badly at once, one that was killed by a signal is named before one that merely
//     noticed (Member E2).
#pragma once

#include <csignal>
#include <functional>
#include <string>

#include "member.hpp"

namespace bench {

inline constexpr int kSilenceS = 120;

// SIGINT, SIGTERM and SIGHUP, which are held back while it lives.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  int fd() const noexcept { return fd_; }  // readable: one of them, or SIGCHLD, has come
  int taken() noexcept;                    // the first that came, 0: none

 private:
  int fd_ = -1;
  int first_ = 0;
  sigset_t before_;
};

using Found = std::function<void(const Point& point, Quantity quantity, double ns)>;
using Begins = std::function<void(const Point& point)>;

// kTimeout: J2. Interrupted: the status is of no interest, interrupts.taken() says so.
base::Status run_job(const Variant& variant, int processes, const Plan& plan, const Clock& clock,
                     Interrupts& interrupts, const Begins& begins, const Found& found);

}  // namespace bench
