// SPDX-License-Identifier: Apache-2.0
// Part of the public interface, <ayatori/net.hpp>. What a request to another process looks like (thesis 4.3.1, listing 4.1):
// addresses, requests, completions. Sizes and offsets are in bytes. Plain data without behaviour; built on any thread, copied by the transport before the try_* call returns.
//
// T1. A request is a struct of numbers and pointers; whoever issues it keeps the local buffers alive and unchanged (a
//     read's: untouched) until its completion was called.
// T2. Local buffers should lie in registered memory (thesis: the cost of registration is the caller's to see); one that
//     does not may cost an intermediate copy on hardware transports.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ayatori::net {

using ProcessId = int;
inline constexpr int kMaxProcesses = 64;
inline constexpr ProcessId kAllProcesses = -1;  // where a call takes one process or all of them

using RegionId = std::uint32_t;
inline constexpr RegionId kNoRegion = ~RegionId{0};

enum Rights : std::uint8_t { kReadable = 1, kWritable = 2, kAtomic = 4, kAllRights = 7 };
// Beside them: pages of that memory are mapped anew while it is registered, so no adapter may keep hold of them.
inline constexpr std::uint8_t kRemapped = 8;

// Memory that its process registered. Users move within a region by changing `offset` only.
struct RemoteAddress {
  ProcessId process = 0;
  RegionId region = kNoRegion;
  std::uint64_t offset = 0;

  RemoteAddress plus(std::uint64_t bytes) const noexcept { return {process, region, offset + bytes}; }
  friend bool operator==(const RemoteAddress&, const RemoteAddress&) = default;
};

// Memory of the calling process; the region spares a look-up where the transport needs one (T2).
struct LocalAddress {
  void* pointer = nullptr;
  RegionId region = kNoRegion;

  LocalAddress() noexcept = default;
  LocalAddress(void* where, RegionId of = kNoRegion) noexcept : pointer(where), region(of) {}  // NOLINT: implicit
};

enum class Outcome : std::uint8_t {
  kOk,
  kBadAddress,  // no such process or region, out of its bounds, or misaligned atomic
  kNoRights,    // the region does not allow this
  kTooLarge,    // payload or reply beyond its bound or the receiver's memory
  kPeerFailed,  // the other process is gone; whether the request took effect is not known
};
std::string_view outcome_name(Outcome outcome) noexcept;

struct Completion {
  Outcome outcome = Outcome::kOk;
  std::uint32_t reply_bytes = 0;  // of an RPC
  std::uint64_t value = 0;        // of an atomic: the word before it

  bool ok() const noexcept { return outcome == Outcome::kOk; }
};

// Called exactly once per accepted request; see transport.hpp N3-N5 for when and on which thread.
struct Callback {
  void (*function)(void* data, Completion completion) = nullptr;  // nullptr: nobody wants to know
  void* data = nullptr;

  void operator()(Completion completion) const {
    if (function != nullptr) function(data, completion);
  }
};

struct ReadParams {
  ProcessId source_process = 0;
  RemoteAddress source;
  LocalAddress destination;
  std::size_t size_bytes = 0;
  Callback on_complete;
};

struct WriteParams {
  ProcessId destination_process = 0;
  RemoteAddress destination;
  LocalAddress source;
  std::size_t size_bytes = 0;
  Callback on_complete;
};

enum class AtomicOp : std::uint8_t { kFetchAdd, kCompareSwap, kSwap, kFetchOr, kFetchAnd };

// On one aligned word of 4 or 8 bytes. The completion carries the word's old value; what does not fit into a word of 4
// bytes is cut off, what comes from one is zero-extended.
struct AtomicParams {
  ProcessId target_process = 0;
  RemoteAddress target;
  AtomicOp op = AtomicOp::kFetchAdd;
  std::uint64_t operand = 0;   // addend, mask, new value
  std::uint64_t expected = 0;  // kCompareSwap: stored only where the word equals this
  Callback on_complete;
  std::uint8_t width_bytes = 8;
};

// Scatter/gather: many pieces of one region in one request (transport.hpp N9).
struct Piece {
  std::uint64_t offset = 0;  // in the remote region
  void* local = nullptr;
  std::size_t size_bytes = 0;
};
inline constexpr std::size_t kPiecesMax = 4096;

struct ListParams {
  ProcessId process = 0;
  RegionId region = kNoRegion;
  const Piece* pieces = nullptr;  // unchanged until the completion
  std::size_t count = 0;          // more than kPiecesMax: kTooLarge
  Callback on_complete;
};

// Blocks at regular distances, up to kStrideLevelsMax dimensions of them, in one request (transport.hpp N9). Block
// (i, j, k), 0 <= i < counts[0], ..., begins at remote + i * remote_strides[0] + j * remote_strides[1] + ... and at
// local + i * local_strides[0] + ...; strides are in bytes and may be negative.
inline constexpr int kStrideLevelsMax = 3;
struct StridedParams {
  RemoteAddress remote;  // of block (0, 0, 0)
  LocalAddress local;
  std::size_t block_bytes = 0;
  int levels = 0;  // 0: one block
  std::array<std::size_t, kStrideLevelsMax> counts{};
  std::array<std::int64_t, kStrideLevelsMax> remote_strides{};
  std::array<std::int64_t, kStrideLevelsMax> local_strides{};
  Callback on_complete;
};

using HandlerId = std::uint16_t;
inline constexpr HandlerId kHandlersMax = 256;
// Each layer numbers its handlers in its own range; programs take those from kUserHandlers to kHandlersMax - 1.
inline constexpr HandlerId kNetHandlers = 0;
inline constexpr HandlerId kGasHandlers = 16;
inline constexpr HandlerId kStoreHandlers = 48;
inline constexpr HandlerId kDsmHandlers = 80;
inline constexpr HandlerId kTasksHandlers = 128;
inline constexpr HandlerId kUserHandlers = 192;

// One-way active message. on_complete: `payload` may be reused and the message is on its way (not: it was handled); of a long
// one that the receiver has no memory for: kTooLarge. Without on_complete the payload is copied before the call returns; one
// longer than Limits::payload_bytes_max needs an on_complete.
struct MessageParams {
  ProcessId destination = 0;
  HandlerId handler = 0;
  const void* payload = nullptr;
  std::size_t size_bytes = 0;
  Callback on_complete;
};

// Active message whose handler (or whoever it passes the token to) answers once with Transport::reply.
struct RpcParams {
  ProcessId destination = 0;
  HandlerId handler = 0;
  const void* payload = nullptr;  // may be reused when try_rpc_async returns true
  std::size_t size_bytes = 0;
  LocalAddress reply;  // room for the answer
  std::size_t reply_bytes_max = 0;
  Callback on_complete;
};

// The right and duty to answer one RPC; copied freely, used once.
struct ReplyToken {
  ProcessId process = -1;  // -1: a one-way message, nobody waits
  std::uint32_t slot = 0;
  std::uint64_t serial = 0;

  bool wanted() const noexcept { return process >= 0; }
};

struct Message {
  ProcessId source;
  const std::byte* payload;  // 8-aligned, valid while the handler runs
  std::size_t size_bytes;
  ReplyToken token;
};

}  // namespace ayatori::net
