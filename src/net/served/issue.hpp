// SPDX-License-Identifier: Apache-2.0
// The way of every request from its caller to the peer's queue: ServedTransport::issue, for the sources that instantiate it.
#pragma once

#include "net/served/thread_state.hpp"
#include "net/served/transport.hpp"

namespace ayatori::net::served {

// Publishes the request in `slot`, which is filled in, pushes it by push(queue, header) under the peer's mutex, and sees it
// on its way or to its end. False: there was no room, nothing happened.
template <class Push>
bool ServedTransport::issue(std::uint32_t slot, Peer& peer, FrameHeader header, std::uint64_t sent_bytes, Push&& push,
                            bool counted) {
  header.slot = slot;
  header.serial = requests_.publish(slot);
  thread_state().last_serial = header.serial;
  bool pushed = false;
  {
    std::lock_guard lock(peer.mutex);
    pushed = (peer.open || peer.process == self_) && push(peer.queue, header);
  }
  if (pushed) kick(peer);
  // Either the peer's end is seen here, or retire() sees our request.
  const bool gone = is_gone(peer);
  if (pushed && !gone) {
    if (counted) count(peer.process, 1, sent_bytes, 0);
    return true;
  }
  if (!requests_.claim(slot, header.serial)) return true;  // completed already
  if (gone) {
    complete(slot, {Outcome::kPeerFailed, 0, 0});
    return true;
  }
  requests_.give_back(slot);
  return false;
}

}  // namespace ayatori::net::served
