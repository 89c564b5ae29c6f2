// SPDX-License-Identifier: Apache-2.0
#include "net/served/serve.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "base/check.hpp"

namespace ayatori::net::served {

bool PeerSink::on_frame(const Frame& frame) {
  switch (frame.header.kind) {
    case FrameKind::kMessage:
    case FrameKind::kRpc: return on_message(frame);
    case FrameKind::kReply: return on_reply(frame);
    case FrameKind::kRead: return on_read(frame);
    case FrameKind::kWrite: return on_write(frame);
    case FrameKind::kAtomic: return on_atomic(frame);
    case FrameKind::kAck: return on_ack(frame.header);
    case FrameKind::kGo: return on_go(frame.header);
    case FrameKind::kHeartbeat: return true;
    case FrameKind::kLeave:
      peer_.left = true;
      peer_.collective_calls = frame.header.total;
      return refused("it left");
    case FrameKind::kData: break;  // on_data()
  }
  return refused("a frame of unknown kind");
}

// --- target ---

bool PeerSink::on_message(const Frame& frame) {
  const FrameHeader& header = frame.header;
  Message message{peer_.process, frame.body, header.body_bytes, {}};
  if (header.kind == FrameKind::kRpc) message.token = {peer_.process, header.slot, header.serial};
  if (!net_.is_wires_own(header.handler)) net_.count(peer_.process, 0, 0, header.body_bytes);
  // release: pairs with try_fence() (D4)
  if (peer_.process == net_.self_) net_.self_messages_.fetch_sub(1, std::memory_order_release);
  ++work_.ran;
  return net_.deliver(header.handler, message);
}

bool PeerSink::answer(FrameKind kind, const FrameHeader& request, Outcome outcome, std::uint64_t value) {
  FrameHeader header;
  header.kind = kind;
  header.code = kind == FrameKind::kAck ? static_cast<std::uint8_t>(outcome) : std::uint8_t{0};
  header.slot = request.slot;
  header.serial = request.serial;
  header.total = value;
  if (kind == FrameKind::kGo) net_.await_long_data(peer_);
  {
    std::lock_guard lock(peer_.mutex);
    if (peer_.queue.push_reply(header) == nullptr) return refused("it asks for more answers than it may");
  }
  net_.kick(peer_);
  return true;
}

Outcome PeerSink::place_of(const Frame& frame, std::uint8_t rights, Walk* walk) const {
  const FrameHeader& header = frame.header;
  switch (static_cast<Shape>(header.code)) {
    case Shape::kContiguous:
    case Shape::kMessage: break;
    case Shape::kList: {
      std::vector<Piece> pieces(header.handler);
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const WirePiece wire = wire_piece(frame, i);
        pieces[i] = {wire.offset, nullptr, wire.bytes};
      }
      return net_.place_list(header.region, std::move(pieces), rights, walk);
    }
    case Shape::kStrided: {
      const WireStrides wire = wire_strides(frame);
      StridedParams params;
      params.remote = {net_.self_, header.region, header.offset};
      params.block_bytes = wire.block_bytes;
      params.levels = static_cast<int>(wire.levels);
      for (std::size_t level = 0; level < kStrideLevelsMax; ++level) params.counts[level] = wire.counts[level];
      params.remote_strides = wire.strides;
      return net_.place_strided(params, rights, walk);
    }
  }
  return net_.place(header.region, header.offset, header.total, rights, walk);
}

bool PeerSink::on_read(const Frame& frame) {
  const FrameHeader& request = frame.header;
  ++work_.served;
  Walk source;
  const Outcome outcome = place_of(frame, kReadable, &source);
  if (outcome != Outcome::kOk) return answer(FrameKind::kAck, request, outcome);
  {
    std::lock_guard lock(peer_.mutex);
    if (!is_inline(request, net_.limits_)) {
      SendQueue& lane = request.total > peer_.queue.segment_bytes() ? *peer_.long_queue : peer_.queue;
      if (lane.bulk_to_origin() == net_.limits_.requests_max) return refused("it asks for more answers than it may");
      lane.push_bulk({Way::kToOrigin, request.slot, request.serial, 0, std::move(source)});
    } else {
      FrameHeader header;
      header.kind = FrameKind::kData;
      header.code = static_cast<std::uint8_t>(Way::kToOrigin);
      header.slot = request.slot;
      header.serial = request.serial;
      header.body_bytes = static_cast<std::uint32_t>(request.total);
      std::byte* const body = peer_.queue.push_reply(header);
      if (body == nullptr) return refused("it asks for more answers than it may");
      gather(source, body, request.total, request.total <= kWholeWordBytesMax);
    }
  }
  net_.kick(peer_);
  return true;
}

bool PeerSink::on_write(const Frame& frame) {
  const FrameHeader& request = frame.header;
  ++work_.served;
  if (static_cast<Shape>(request.code) == Shape::kMessage) return on_long_message(frame);
  Walk target;
  const Outcome outcome = place_of(frame, kWritable, &target);
  if (is_inline(request, net_.limits_)) {
    if (outcome == Outcome::kOk)
      scatter(target, frame.body + descriptor_bytes(request), request.total, request.total <= kWholeWordBytesMax);
    return answer(FrameKind::kAck, request, outcome);
  }
  const bool asks = request.total > kSegmentBytesMax;
  if (asks && outcome != Outcome::kOk) return answer(FrameKind::kAck, request, outcome);
  OpenWrite& open = peer_.open_writes[request.slot];
  if (open.serial != 0) return refused("a write in the slot of another");
  if (request.serial == 0) return refused("a write without a number");
  open.serial = request.serial;
  open.total = request.total;
  open.received = 0;
  open.arriving = false;
  open.outcome = outcome;
  open.place = std::move(target);
  return !asks || answer(FrameKind::kGo, request, Outcome::kOk);
}

bool PeerSink::on_atomic(const Frame& frame) {
  const FrameHeader& header = frame.header;
  ++work_.served;
  AtomicParams params;
  params.target = {net_.self_, header.region, header.offset};
  params.op = static_cast<AtomicOp>(header.code);
  params.operand = header.total;
  params.width_bytes = static_cast<std::uint8_t>(header.handler);
  std::memcpy(&params.expected, frame.body, sizeof params.expected);
  std::uint64_t value = 0;
  const Outcome outcome = net_.apply(params, &value);
  return answer(FrameKind::kAck, header, outcome, value);
}

// --- data, both ways ---

bool PeerSink::on_data(const FrameHeader& header, DataPlace* place) {
  ++work_.served;
  peer_.data_came = true;
  if (static_cast<Way>(header.code) == Way::kToTarget) {
    OpenWrite& open = peer_.open_writes[header.slot];
    if (open.serial == 0 || open.serial != header.serial) return refused("data of a write that it did not announce");
    if (header.offset != open.received || header.body_bytes == 0 || header.body_bytes > open.total - open.received)
      return refused("data of a write out of order");
    if (open.arriving) return refused("data within data");
    if (open.asked && !open.granted) return refused("a message without leave");
    if (open.is_message && !open.asked && header.body_bytes != open.total)
      return refused("a short message in pieces");  // D8: one room a peer
    if (open.is_message && open.room.bytes == nullptr && !net_.make_room(open))
      base::fatal("{}: no memory for a message of {} bytes of process {}", net_.name_, open.total, peer_.process);
    if (open.outcome == Outcome::kOk) place->walk = &open.place;
    open.arriving = true;
    return true;
  }
  Request* request = net_.requests_.find(header.slot, header.serial, peer_.process);
  if (request == nullptr || request->kind.load(std::memory_order_relaxed) != Request::Kind::kRead)  // see find()
    return refused("data that nobody asked for");
  const std::uint64_t left = request->total - request->received;
  if (header.offset != request->received || header.body_bytes > left || (header.body_bytes == 0 && left != 0))
    return refused("data out of order");
  if (request->arriving) return refused("data within data");
  request->arriving = true;
  place->walk = &request->local;
  place->whole_words = request->total <= kWholeWordBytesMax;
  return true;
}

bool PeerSink::on_data_end(const FrameHeader& header) {
  if (static_cast<Way>(header.code) == Way::kToTarget) {
    OpenWrite& open = peer_.open_writes[header.slot];
    open.arriving = false;
    open.received += header.body_bytes;
    if (open.received != open.total) return true;
    if (open.is_message) return end_long_message(header, open);
    open.serial = 0;
    open.place = Walk();
    return answer(FrameKind::kAck, header, open.outcome);
  }
  Request& request = net_.requests_[header.slot];
  request.arriving = false;
  request.received += header.body_bytes;
  if (request.received != request.total) return true;
  return complete(header, {}, request.total);
}

// --- origin ---

// An answer to a request that find() found.
bool PeerSink::complete(const FrameHeader& header, Completion completion, std::uint64_t received_bytes) {
  Request& request = net_.requests_[header.slot];
  const bool ends_bulk = request.is_bulk && (request.awaits_go || request.data_apart ||
                                             request.kind.load(std::memory_order_relaxed) == Request::Kind::kRead);
  if (!net_.requests_.claim(header.slot, header.serial)) return true;  // its issuer saw the peer's end first
  if (ends_bulk) {
    {
      std::lock_guard lock(peer_.mutex);
      peer_.queue.end_bulk();
    }
    net_.kick(peer_);  // a fence may have waited for it
  }
  net_.count(peer_.process, 0, 0, received_bytes);
  net_.complete(header.slot, completion);
  ++work_.ran;
  return true;
}

bool PeerSink::on_reply(const Frame& frame) {
  const FrameHeader& header = frame.header;
  Request* request = net_.requests_.find(header.slot, header.serial, peer_.process);
  if (request == nullptr || request->kind.load(std::memory_order_relaxed) != Request::Kind::kRpc)  // see find()
    return refused("an answer that nobody waits for");
  Completion completion;
  completion.reply_bytes = header.body_bytes;
  if (header.body_bytes > request->local.left())
    completion.outcome = Outcome::kTooLarge;
  else if (header.body_bytes != 0)
    std::memcpy(request->local.front(header.body_bytes).data(), frame.body, header.body_bytes);
  return complete(header, completion, header.body_bytes);
}

bool PeerSink::on_ack(const FrameHeader& header) {
  Request* request = net_.requests_.find(header.slot, header.serial, peer_.process);
  if (request == nullptr) return refused("an acknowledgement that nobody waits for");
  const auto outcome = static_cast<Outcome>(header.code);
  switch (request->kind.load(std::memory_order_relaxed)) {  // see find()
    case Request::Kind::kRpc: return refused("an acknowledgement of an RPC");
    case Request::Kind::kRead:
      if (outcome == Outcome::kOk || request->received != 0 || request->arriving)
        return refused("a read without its data");
      break;
    case Request::Kind::kWrite:
    case Request::Kind::kMessage: {
      if (!request->is_bulk) break;
      if (request->awaits_go && outcome == Outcome::kOk) return refused("a write without its data");
      std::lock_guard lock(peer_.mutex);
      SendQueue& lane = request->data_apart ? *peer_.long_queue : peer_.queue;
      const bool is_in_batch = lane.batch_holds(header.slot);
      if (lane.waits_bulk(header.slot) || (request->data_apart && is_in_batch))
        return refused("an acknowledgement before the data");  // D5
      if (!is_in_batch) break;
      // The thread that sends the last data may not have come back yet: it will tell.
      for (const FrameHeader& late : peer_.late_acks)
        if (late.slot == header.slot) return refused("a write acknowledged twice");
      peer_.late_acks.push_back(header);
      peer_.ack_waits = true;
      return true;
    }
    case Request::Kind::kAtomic: break;
  }
  return complete(header, {outcome, 0, header.total}, 0);
}

void PeerSink::retry_late_acks() {
  std::vector<FrameHeader> late;
  late.swap(peer_.late_acks);
  for (const FrameHeader& header : late)
    if (!on_ack(header)) return;
}

bool PeerSink::on_go(const FrameHeader& header) {
  Request* request = net_.requests_.find(header.slot, header.serial, peer_.process);
  const auto waits = [&] {
    const Request::Kind kind = request->kind.load(std::memory_order_relaxed);  // see find()
    return (kind == Request::Kind::kWrite || kind == Request::Kind::kMessage) && request->is_bulk && request->awaits_go;
  };
  if (request == nullptr || !waits()) return refused("leave for a write that does not wait for it");
  request->awaits_go = false;
  {
    std::lock_guard lock(peer_.mutex);
    request->data_apart = peer_.has_long_way();
    peer_.long_queue->push_bulk({Way::kToTarget, header.slot, header.serial, 0, std::move(request->local), true});
  }
  net_.kick(peer_);
  return true;
}

}  // namespace ayatori::net::served
