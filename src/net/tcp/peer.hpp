// SPDX-License-Identifier: Apache-2.0
// One connection of a TcpTransport. Whoever sends has set `sending` under the mutex and sends the batch outside it (E1, E2 of
// net/served/peer.hpp).
#pragma once

#include "net/served/peer.hpp"
#include "net/tcp/receiver.hpp"
#include "net/tcp/socket.hpp"

namespace ayatori::net::tcp {

struct TcpPeer final : served::Peer {
  TcpPeer(ProcessId number, const FrameLimits& limits, std::size_t request_bytes, std::size_t reply_bytes)
      : Peer(number, limits, request_bytes, reply_bytes, served::kSegmentBytesMax, served::SendQueue::kSegmentsMax),
        receiver(limits) {}

  // Guarded by mutex.
  Socket socket;  // none: gone, or the process itself
  bool sending = false;
  std::atomic<bool> wants_out{false};  // epoll tells when there is room again; read without the mutex as a hint
  bool deaf = false;                   // it takes no more; that it is gone shows when we receive
  bool has_sent = false;               // since heartbeat() looked
  std::int64_t last_look_ns = 0;       // when it did
  std::int64_t last_sent_ns = 0;       // or a little later

  Receiver receiver;  // the polling thread only
};

}  // namespace ayatori::net::tcp
