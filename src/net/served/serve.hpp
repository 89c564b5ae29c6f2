// SPDX-License-Identifier: Apache-2.0
// What arrived from one peer, frame by frame: its requests are checked and served, answers are brought to the requests of this
// process. Used by the thread that polls (transport.hpp D1); a frame that makes no sense fails the peer (D2).
#pragma once

#include <cstddef>

#include "net/served/peer.hpp"
#include "net/served/sink.hpp"
#include "net/served/transport.hpp"

namespace ayatori::net::served {

class PeerSink final : public FrameSink {
 public:
  PeerSink(ServedTransport& net, Peer& peer) : net_(net), peer_(peer) {}

  bool on_frame(const Frame& frame) override;
  bool on_data(const FrameHeader& header, DataPlace* place) override;
  bool on_data_end(const FrameHeader& header) override;
  void refuse(const char* why) override { net_.accuse(peer_, why); }

  void retry_late_acks();
  Work work() const noexcept { return work_; }

 private:
  friend class ServedTransport;  // rooms.cpp

  bool refused(const char* why) {
    refuse(why);
    return false;
  }
  // Of the target.
  bool on_message(const Frame& frame);
  bool on_read(const Frame& frame);
  bool on_write(const Frame& frame);
  bool on_atomic(const Frame& frame);
  bool on_long_message(const Frame& frame);                         // rooms.cpp
  bool end_long_message(const FrameHeader& last, OpenWrite& open);  // rooms.cpp
  Outcome place_of(const Frame& frame, std::uint8_t rights, Walk* walk) const;
  bool answer(FrameKind kind, const FrameHeader& request, Outcome outcome, std::uint64_t value = 0);
  // Of the origin.
  bool on_reply(const Frame& frame);
  bool on_ack(const FrameHeader& header);
  bool on_go(const FrameHeader& header);
  bool complete(const FrameHeader& header, Completion completion, std::uint64_t received_bytes);

  ServedTransport& net_;
  Peer& peer_;
  Work work_;
};

}  // namespace ayatori::net::served
