// SPDX-License-Identifier: Apache-2.0
// A barrier of all members in the control memory, for start-up and shut-down code. Called by one OS thread of each
// member, on native stacks.
//
// B1. One word holds generation (high half) and arrivals (low half): who arrives last starts the next generation by one
//     compare-and-swap, and who gives up takes its arrival back by another, so that nothing is left half done.
// B2. Nobody waits on a job that ends: waits are cut every 100 ms to look at JobControl::ending.
// B3. What a member wrote before it arrived is visible to all after they leave (acq_rel on the word).
#pragma once

#include <cstdint>

#include "net/bootstrap/job_control.hpp"

namespace ayatori::net::bootstrap {

enum class BarrierResult {
  kPassed,
  kTimeout,  // the caller's arrival was taken back
  kEnding,   // the job ends; taken back too
};

// timeout_ns < 0: no limit but the end of the job.
BarrierResult barrier_wait(JobControl& control, std::int64_t timeout_ns = -1) noexcept;

}  // namespace ayatori::net::bootstrap
