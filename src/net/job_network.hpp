// SPDX-License-Identifier: Apache-2.0
// The network of a job of threads whose members reach none of each other's memory: reserve() in the first image, attach()
// joins a member. Messages between members of one machine may go by memory that the network shares between them. On one
// machine all are forked from that image and inherit what they must know; on several their launcher tells them (kWide), and
// they must be alike (bootstrap/likeness.hpp).
//
// Start-up thread only, but for await_end_of_job().
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <ayatori/net/transport.hpp>
#include "base/status.hpp"
#include "net/transport_choice.hpp"

namespace ayatori::net {

// `choice`: has a wire. `settings`: what the layout of the space depends on.
base::Status reserve_job_network(const TransportChoice& choice, std::span<const std::uint64_t> settings);
// Not started yet. Once a member. On several machines it waits for the members of the others, however late they come, and
// connects; the launcher ends the job when one never does.
base::Status attach_job_network(std::unique_ptr<Transport>* transport);

// `process` (-1: one of them) is gone, and so is what was to be had from it: waits for the launcher to end the job, and ends
// this process where nobody does. On native stacks.
[[noreturn]] void await_end_of_job(ProcessId process);

}  // namespace ayatori::net
