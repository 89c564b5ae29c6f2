// SPDX-License-Identifier: Apache-2.0
// Messages longer than a frame: a write into room that the receiver makes for it (D8 of transport.hpp). The thread that polls.
#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "net/served/serve.hpp"

namespace ayatori::net::served {

// One that was used before costs no page faults. False: there is no memory.
bool ServedTransport::make_room(OpenWrite& open) {
  const auto fits = [&](const Room& room) { return room.size >= open.total && room.size / 2 <= open.total; };
  // The one that was used last: the CPU's caches still have some of it.
  const auto spare = std::find_if(spare_rooms_.rbegin(), spare_rooms_.rend(), fits);
  if (spare != spare_rooms_.rend()) {
    open.room = std::move(*spare);
    spare_rooms_.erase(std::next(spare).base());
  } else {
    open.room = {std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[open.total]), open.total};
  }
  if (open.room.bytes == nullptr) return false;
  open.place = Walk(open.room.bytes.get(), open.total);
  return true;
}

void ServedTransport::keep_room(Room&& room) {
  if (room.bytes == nullptr || room.size > kSpareBytesMax) return;
  spare_rooms_.push_back(std::move(room));
  std::size_t bytes = 0;
  for (const Room& each : spare_rooms_) bytes += each.size;
  while (bytes > kSpareBytesMax || spare_rooms_.size() > kSpareRoomsMax) {
    bytes -= spare_rooms_.front().size;
    spare_rooms_.erase(spare_rooms_.begin());
  }
}

bool PeerSink::on_long_message(const Frame& frame) {
  const FrameHeader& header = frame.header;
  if (header.total > LongMessages::kBytesMax) return refused("a message too long");
  if (is_inline(header, net_.limits_)) {
    net_.count(peer_.process, 0, 0, header.total);
    ++work_.ran;
    return net_.deliver(header.handler, {peer_.process, frame.body, header.total, {}});
  }
  OpenWrite& open = peer_.open_writes[header.slot];
  if (open.serial != 0) return refused("a message in the slot of another");
  if (header.serial == 0) return refused("a message without a number");
  open = {};
  open.serial = header.serial;
  open.total = header.total;
  open.is_message = true;
  open.handler = header.handler;
  open.asked = header.total > peer_.queue.segment_bytes();
  if (!open.asked) return true;
  net_.asks_.push_back({peer_.process, header.slot});
  net_.grant_rooms();
  return true;
}

bool PeerSink::end_long_message(const FrameHeader& last, OpenWrite& open) {
  OpenWrite whole = std::exchange(open, {});
  net_.count(peer_.process, 0, 0, whole.total);
  ++work_.ran;
  const bool served = net_.deliver(whole.handler, {peer_.process, whole.room.bytes.get(), whole.total, {}});
  net_.keep_room(std::move(whole.room));
  if (whole.granted) {
    net_.granted_bytes_ -= whole.total;
    net_.grant_rooms();
  }
  return served && (!whole.asked || answer(FrameKind::kAck, last, Outcome::kOk));
}

void ServedTransport::grant_rooms() {
  while (!asks_.empty()) {
    const Ask ask = asks_.front();
    Peer& from = peer(ask.process);
    OpenWrite& open = from.open_writes[ask.slot];
    if (granted_bytes_ != 0 && granted_bytes_ + open.total > kGrantedBytesMax) return;
    asks_.pop_front();
    FrameHeader request;
    request.slot = ask.slot;
    request.serial = open.serial;
    if (make_room(open)) {
      granted_bytes_ += open.total;
      open.granted = true;
      from.data_came = true;
      PeerSink(*this, from).answer(FrameKind::kGo, request, Outcome::kOk);
    } else {
      open = {};
      PeerSink(*this, from).answer(FrameKind::kAck, request, Outcome::kTooLarge);
    }
  }
}

// Whoever has room and sends no data while others wait for theirs. Data for whatever counts: it comes in turns.
void ServedTransport::look_at_rooms(std::int64_t now_ns, bool was_away) {
  if (asks_.empty() || was_away) waits_since_ns_ = now_ns;
  for (const std::unique_ptr<Peer>& each : peers_) {
    Peer& from = *each;
    if (std::exchange(from.data_came, false) || was_away) from.last_data_ns = now_ns;
    if (!from.open || now_ns - std::max(from.last_data_ns, waits_since_ns_) <= served_.heartbeat_timeout_ns) continue;
    if (std::any_of(from.open_writes.begin(), from.open_writes.end(),
                    [](const OpenWrite& open) { return open.granted; }))
      accuse(from, "it keeps others' messages waiting: it has room for one and sends nothing");
  }
}

void ServedTransport::drop_rooms(Peer& of) {
  std::erase_if(asks_, [&](const Ask& ask) { return ask.process == of.process; });
  for (const OpenWrite& open : of.open_writes)
    if (open.granted) granted_bytes_ -= open.total;
  of.open_writes.clear();
  grant_rooms();
}

}  // namespace ayatori::net::served
