// SPDX-License-Identifier: Apache-2.0
// Connects every process of the job with every other at start, whoever else knocks. Blocks its caller, the start-up
// thread, for start_timeout_ns at most.
//
// M1. A process calls those above itself and is called by those below. A call that breaks off is made again.
// M2. Accepted connections that have not proved themselves: kGuestsMax at most, each for handshake_timeout_ns at most; the
//     oldest makes room for a new one, so neither a flood nor a stall keeps a peer out for long.
// M3. The first guest that is dropped is logged with the reason, the others are only counted (debug): strangers cannot fill
//     a log.
// M4. The listener is closed when the mesh stands: from then on the job has no open port.
#pragma once

#include <vector>

#include "net/tcp/config.hpp"

namespace ayatori::net::tcp {

inline constexpr std::size_t kGuestsMax = 128;

// `sockets`: a connected one per process; none for this process itself and for those that were not reached in time, which the
// status names (kTimeout).
base::Status connect_mesh(const TcpConfig& config, Socket listener, std::vector<Socket>* sockets);

// A transport's way into its mesh, between its construction and the end of its start().
class Entrance {
 public:
  // `config`: the transport's own. Takes its listener now, and wipes its secret when it has connected.
  explicit Entrance(TcpConfig& config);

  base::Status connect();      // connect_mesh()
  std::vector<Socket> take();  // what that made; connects, unless that has been done, and logs who was not reached

 private:
  TcpConfig& config_;
  Socket listener_;
  std::vector<Socket> connected_;
};

}  // namespace ayatori::net::tcp
