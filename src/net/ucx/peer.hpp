// SPDX-License-Identifier: Apache-2.0
// Another process as a UcxTransport sees it. All of it but what served::Peer guards by its mutex belongs to whoever holds the
// poll lock: UCX's worker does too.
#pragma once

#include "net/served/peer.hpp"
#include "net/ucx/control.hpp"
#include "net/ucx/inbox.hpp"

namespace ayatori::net::ucx {

struct UcxPeer final : served::Peer {
  UcxPeer(ProcessId number, const served::FrameLimits& limits, std::size_t request_bytes, std::size_t reply_bytes)
      : Peer(number, limits, request_bytes, reply_bytes, kSegmentBytes), line(limits), inbox(limits) {}
  static constexpr std::uint32_t kSegmentBytes = 256 * 1024;  // of bulk data in one batch

  Line line;
  int misses = 0;           // looks at the line that found no data, in a row
  Card card;                // its: where it is reached, what our batches to it carry
  std::uint64_t token = 0;  // what its batches to us carry

  bool greeted = false;       // by this process: U5
  bool has_greeted = false;   // it, this process
  bool wired = false;         // batches may go
  bool sending = false;       // UCX has not sent the last batch yet
  bool deaf = false;          // UCX takes no more for it; it has been accused
  std::uint64_t batches = 0;  // sent
  std::int64_t last_beat_ns = 0;
  std::int64_t last_line_ns = 0;  // when something came on its line

  Inbox inbox;
  bool said_leave = false;  // it, and it will have sent `leave_batches`
  std::uint64_t leave_batches = 0;
  std::int64_t leave_ns = 0;  // when, or when the last batch came
  bool hung_up = false;       // after that
};

}  // namespace ayatori::net::ucx
