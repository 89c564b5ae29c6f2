// SPDX-License-Identifier: Apache-2.0
// The network of a job whose members are forked from one image but reach none of each other's memory: reserve() in the first
// image makes what all must know, attach() joins a member to it. What members of several machines would be told by their
// launcher is inherited here.
//
// Start-up thread only, but for await_end_of_job().
#pragma once

#include <memory>
#include <string_view>

#include <ayatori/net/transport.hpp>
#include "base/status.hpp"

namespace ayatori::net {

// Listening sockets on the loopback interface and a fresh secret; `transport`: "tcp" or "ucx".
base::Status reserve_job_network(std::string_view transport, int processes);
// Not started yet. Once a member.
base::Status attach_job_network(ProcessId self, std::unique_ptr<Transport>* transport);

// `process` is gone, and so is what was to be had from it: waits for the launcher to end the job, and ends this process where
// nobody does. On native stacks.
[[noreturn]] void await_end_of_job(ProcessId process);

}  // namespace ayatori::net
