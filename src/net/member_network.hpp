// SPDX-License-Identifier: Apache-2.0
// How processes that were started apart become peers: each listens, its card says where, and what all cards say configures a
// transport. For net::open() and for jobs of threads on several machines. Start-up thread, or one that PMIx keeps waiting.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <ayatori/net/transport.hpp>
#include "base/status.hpp"
#include "net/bootstrap/membership.hpp"
#include "net/meeting.hpp"
#include "net/shm/world.hpp"
#include "net/tcp/config.hpp"

namespace ayatori::net {

// What this process' card names. Owned jointly: PMIx may be kept waiting on a thread that is given up.
struct Listening {
  tcp::Socket socket;
  std::string interface;  // empty: loopback
  Meeting meeting;        // opened by who wants to share memory with processes that were started apart
};
using SharedListening = std::shared_ptr<Listening>;

// `host`: what the others call this process' machine; empty: its own name.
bootstrap::MakeCard make_network_card(SharedListening listening, std::string host);

// Fits `config` to the job, but for its limits and times.
base::Status configure(const bootstrap::Membership& job, Listening& listening, tcp::TcpConfig* config);

// What the members of this machine share below the wire of a job with more; nullptr in a job of one process. First image,
// before the fork; maps the same in each image of a job, also for one that is alone on its machine, which does not use it.
// `payload_bytes`, `requests`: of the job's network.
base::Status make_neighbours(std::size_t payload_bytes, std::uint32_t requests, std::unique_ptr<shm::ShmWorld>* world);

// The same for members that were started apart, with room for `shared_bytes` of map_shared(), of the network of `config`, which
// gets it; it lives as long as the process. None where there are no others on this machine, or none that can (Meeting::meet).
base::Status meet_neighbours(const bootstrap::Membership& job, Listening& listening, std::size_t shared_bytes,
                             tcp::TcpConfig* config);

// A transport over UCX or tcp that has connected, not been started. `prepare` (may be empty) gets it before. `interface`: as in
// Listening.
base::Status connect_members(bool ucx, tcp::TcpConfig config, std::string interface,
                             const std::function<void(Transport&)>& prepare, std::unique_ptr<Transport>* result);

}  // namespace ayatori::net
