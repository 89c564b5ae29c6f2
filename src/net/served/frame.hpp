// SPDX-License-Identifier: Apache-2.0
// What travels between the processes of a served transport, and the parser that bytes of a peer must pass first. Pure
// functions, any thread: a fuzzer calls them as the transports do. The peer has proved the job's secret
// (net/tcp/handshake.hpp) but may be broken: nothing that it sends is believed.
//
// F1. A frame is a header of 40 bytes and a body, padded to a multiple of 8: bodies of a stream that begins 8-aligned are
//     8-aligned. Numbers are little-endian.
// F2. A frame that passes has a known kind, a body of exactly the length that its kind and its descriptor ask for, within the
//     limits that both sides agreed on, and sums that do not overflow. Whether slots, regions and bounds mean something is
//     the receiver's question (serve.cpp).
// F3. The body of kData is not looked at: it may be received straight into memory. Every other frame is parsed whole.
// F4. A list's or strided request's descriptor comes before all its data, so it is checked whole (transport.hpp N9).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include <ayatori/net/types.hpp>

namespace ayatori::net::served {

static_assert(std::endian::native == std::endian::little, "F1");

enum class FrameKind : std::uint8_t {
  kMessage = 1,  // handler; body: payload
  kRpc,          // handler, slot, serial; body: payload
  kReply,        // slot, serial; body: answer of an RPC
  kRead,         // slot, serial, region, offset, total, code: Shape; body: descriptor
  kWrite,  // as kRead; the data follows in the body where total is inline_bytes_max at most, else as kData. Also a long
           // message, as a write into room of the receiver's (Shape::kMessage): handler
  kAtomic,  // slot, serial, region, offset, total: operand, code: AtomicOp, handler: width; body: expected
  kData,    // slot, serial, offset: in the request's bytes, code: Way; body: data
  kAck,     // slot, serial, code: Outcome, total: value of an atomic
  kGo,      // slot, serial: a long write may send its data
  kHeartbeat,
  kLeave,  // total: collective operations begun
};
enum class Shape : std::uint8_t { kContiguous, kList, kStrided, kMessage };
enum class Way : std::uint8_t { kToTarget, kToOrigin };  // of kData: of a write, of a read

struct FrameHeader {
  FrameKind kind{};
  std::uint8_t code = 0;
  std::uint16_t handler = 0;  // of a list: the number of pieces
  std::uint32_t body_bytes = 0;
  std::uint32_t slot = 0;
  RegionId region = 0;
  std::uint64_t serial = 0;
  std::uint64_t offset = 0;
  std::uint64_t total = 0;
};
inline constexpr std::size_t kHeaderBytes = 40;
static_assert(sizeof(FrameHeader) == kHeaderBytes);

// Descriptors: a list is `handler` WirePieces, a strided request one WireStrides, a contiguous one nothing.
struct WirePiece {
  std::uint64_t offset;
  std::uint64_t bytes;
};
struct WireStrides {
  std::uint64_t block_bytes;
  std::uint64_t levels;
  std::array<std::uint64_t, kStrideLevelsMax> counts;
  std::array<std::int64_t, kStrideLevelsMax> strides;
};
static_assert(sizeof(WirePiece) == 16 && sizeof(WireStrides) == 64);

// Agreed on in the handshake.
struct FrameLimits {
  std::uint32_t payload_bytes_max = 0;
  std::uint32_t inline_bytes_max = 0;
  std::uint32_t requests_max = 0;
};
inline constexpr std::uint32_t kSegmentBytesMax = 512 * 1024;  // of one kData
inline constexpr std::uint64_t kRequestBytesMax = std::uint64_t{1} << 59;

constexpr std::size_t padded(std::size_t bytes) noexcept { return (bytes + 7) & ~std::size_t{7}; }
constexpr std::size_t frame_bytes(std::size_t body_bytes) noexcept { return kHeaderBytes + padded(body_bytes); }
// The longest frame but kData.
constexpr std::size_t frame_bytes_max(const FrameLimits& limits) noexcept {
  const std::size_t write = kPiecesMax * sizeof(WirePiece) + limits.inline_bytes_max;
  return frame_bytes(write > limits.payload_bytes_max ? write : limits.payload_bytes_max);
}

struct Frame {
  FrameHeader header;
  const std::byte* body = nullptr;  // nullptr for kData
  std::size_t bytes = 0;            // of the stream that are used up: the padded frame; of kData the header
};

enum class Parsed : std::uint8_t { kFrame, kMore, kBad };
// The first frame of `stream`. kMore: it is not there whole; kBad: `reason` says why no frame begins like this.
Parsed parse_frame(std::span<const std::byte> stream, const FrameLimits& limits, Frame* frame, const char** reason);

// Of a kRead or kWrite that passed: the length of its descriptor, the descriptor itself, the data behind it.
std::size_t descriptor_bytes(const FrameHeader& header) noexcept;
WirePiece wire_piece(const Frame& frame, std::size_t index) noexcept;
WireStrides wire_strides(const Frame& frame) noexcept;
inline bool is_inline(const FrameHeader& header, const FrameLimits& limits) noexcept {
  return header.total <= limits.inline_bytes_max;
}

}  // namespace ayatori::net::served
