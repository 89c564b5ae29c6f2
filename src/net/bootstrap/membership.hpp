// SPDX-License-Identifier: Apache-2.0
// What a process has to know of its job before it can talk to the others, however it learned it. Plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.hpp"
#include "net/bootstrap/job_control.hpp"

namespace ayatori::net::bootstrap {

struct Membership {
  int self = 0;
  int processes = 1;
  std::vector<Card> cards;  // of every process; empty in a job of one
  Secret secret{};
  std::uint64_t job = 0;
};

// Makes this process' card. `loopback`: that interface reaches all others. May run on a thread of its own.
using MakeCard = std::function<base::Status(bool loopback, Card* card)>;

// The processes of a job that `ayatori run` has started, on this machine and perhaps others: cards pass through the control
// memory. Waits for timeout_ns at most; a status (kTimeout) names who is missing.
base::Status join_launched(const MakeCard& make_card, std::int64_t timeout_ns, Membership* result);

}  // namespace ayatori::net::bootstrap
