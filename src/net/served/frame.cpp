// SPDX-License-Identifier: Apache-2.0
#include "net/served/frame.hpp"

#include <cstring>

namespace ayatori::net::served {
namespace {

const char* check_descriptor(const Frame& frame) {
  const FrameHeader& header = frame.header;
  if (static_cast<Shape>(header.code) == Shape::kList) {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < header.handler; ++i) {
      const WirePiece piece = wire_piece(frame, i);
      if (piece.bytes > kRequestBytesMax - total) return "a list too long";
      total += piece.bytes;
    }
    if (total != header.total) return "a list whose pieces are not its total";
  } else if (static_cast<Shape>(header.code) == Shape::kStrided) {
    const WireStrides strides = wire_strides(frame);
    if (strides.levels > kStrideLevelsMax) return "a strided request of too many levels";
    std::uint64_t total = strides.block_bytes;
    bool overflow = false;
    for (std::size_t level = 0; level < strides.levels; ++level)
      overflow |= __builtin_mul_overflow(total, strides.counts[level], &total);
    if (overflow || total != header.total) return "a strided request whose blocks are not its total";
  }
  return nullptr;
}

// What the header alone tells, before memory is set aside or waited for the body.
const char* check_header(const FrameHeader& header, const FrameLimits& limits) {
  const std::uint32_t body = header.body_bytes;
  const bool has_slot =
      header.kind != FrameKind::kMessage && header.kind != FrameKind::kHeartbeat && header.kind != FrameKind::kLeave;
  if (has_slot && header.slot >= limits.requests_max) return "a slot out of range";
  switch (header.kind) {
    case FrameKind::kMessage:
    case FrameKind::kRpc:
      if (header.handler >= kHandlersMax) return "a handler out of range";
      [[fallthrough]];
    case FrameKind::kReply: return body <= limits.payload_bytes_max ? nullptr : "a payload too long";
    case FrameKind::kRead:
    case FrameKind::kWrite: {
      if (header.code > static_cast<std::uint8_t>(Shape::kMessage)) return "a request of unknown shape";
      if (static_cast<Shape>(header.code) == Shape::kMessage) {
        if (header.kind == FrameKind::kRead) return "a message that is read";
        if (header.handler >= kHandlersMax) return "a handler out of range";
      }
      if (header.total > kRequestBytesMax && static_cast<Shape>(header.code) != Shape::kContiguous)
        return "a request too long";
      if (static_cast<Shape>(header.code) == Shape::kList && header.handler > kPiecesMax) return "too many pieces";
      std::uint64_t expected = descriptor_bytes(header);
      if (header.kind == FrameKind::kWrite && is_inline(header, limits)) expected += header.total;
      return body == expected ? nullptr : "a request of wrong length";
    }
    case FrameKind::kAtomic:
      if (header.code > static_cast<std::uint8_t>(AtomicOp::kFetchAnd)) return "an unknown atomic";
      if (header.handler != 4 && header.handler != 8) return "an atomic of a strange width";
      return body == sizeof(std::uint64_t) ? nullptr : "an atomic of wrong length";
    case FrameKind::kData:
      if (header.code > static_cast<std::uint8_t>(Way::kToOrigin)) return "data for nowhere";
      return body <= kSegmentBytesMax ? nullptr : "too much data at once";
    case FrameKind::kAck:
      if (header.code > static_cast<std::uint8_t>(Outcome::kPeerFailed)) return "an unknown outcome";
      return body == 0 ? nullptr : "an acknowledgement with a body";
    case FrameKind::kGo:
    case FrameKind::kHeartbeat:
    case FrameKind::kLeave: return body == 0 ? nullptr : "a signal with a body";
  }
  return "a frame of unknown kind";
}

}  // namespace

std::size_t descriptor_bytes(const FrameHeader& header) noexcept {
  switch (static_cast<Shape>(header.code)) {
    case Shape::kContiguous:
    case Shape::kMessage: break;
    case Shape::kList: return header.handler * sizeof(WirePiece);
    case Shape::kStrided: return sizeof(WireStrides);
  }
  return 0;
}

WirePiece wire_piece(const Frame& frame, std::size_t index) noexcept {
  WirePiece piece;
  std::memcpy(&piece, frame.body + index * sizeof piece, sizeof piece);
  return piece;
}

WireStrides wire_strides(const Frame& frame) noexcept {
  WireStrides strides;
  std::memcpy(&strides, frame.body, sizeof strides);
  return strides;
}

Parsed parse_frame(std::span<const std::byte> stream, const FrameLimits& limits, Frame* frame, const char** reason) {
  if (stream.size() < kHeaderBytes) return Parsed::kMore;
  std::memcpy(&frame->header, stream.data(), kHeaderBytes);
  const FrameHeader& header = frame->header;
  *reason = check_header(header, limits);
  if (*reason != nullptr) return Parsed::kBad;
  if (header.kind == FrameKind::kData) {
    frame->body = nullptr;
    frame->bytes = kHeaderBytes;
    return Parsed::kFrame;
  }
  frame->bytes = frame_bytes(header.body_bytes);
  if (stream.size() < frame->bytes) return Parsed::kMore;
  frame->body = stream.data() + kHeaderBytes;
  if (header.kind == FrameKind::kRead || header.kind == FrameKind::kWrite) *reason = check_descriptor(*frame);
  return *reason == nullptr ? Parsed::kFrame : Parsed::kBad;
}

}  // namespace ayatori::net::served
