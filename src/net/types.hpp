// SPDX-License-Identifier: Apache-2.0
// What a request to another process looks like (thesis 4.3.1, listing 4.1): addresses, requests, completions. Plain
// data without behaviour; built on any thread, copied by the transport before the try_* call returns.
//
// T1. A request is a struct of numbers and pointers; whoever issues it keeps the local buffers alive and unchanged (a
//     read's: untouched) until its completion was called.
// T2. Local buffers should lie in registered memory (thesis: the cost of registration is the caller's to see); one that
//     does not may cost an intermediate copy on hardware transports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ayatori::net {

using ProcessId = int;
inline constexpr int kMaxProcesses = 64;

using RegionId = std::uint32_t;
inline constexpr RegionId kNoRegion = ~RegionId{0};

enum Rights : std::uint8_t { kReadable = 1, kWritable = 2, kAtomic = 4, kAllRights = 7 };

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
  kTooLarge,    // payload or reply beyond its bound
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

// On one aligned 8-byte word. The completion carries the word's old value.
struct AtomicParams {
  ProcessId target_process = 0;
  RemoteAddress target;
  AtomicOp op = AtomicOp::kFetchAdd;
  std::uint64_t operand = 0;   // addend, mask, new value
  std::uint64_t expected = 0;  // kCompareSwap: stored only where the word equals this
  Callback on_complete;
};

using HandlerId = std::uint16_t;
inline constexpr HandlerId kHandlersMax = 256;
// Each layer numbers its handlers in its own range.
inline constexpr HandlerId kNetHandlers = 0;
inline constexpr HandlerId kGasHandlers = 16;
inline constexpr HandlerId kStoreHandlers = 48;
inline constexpr HandlerId kDsmHandlers = 80;
inline constexpr HandlerId kTasksHandlers = 128;
inline constexpr HandlerId kUserHandlers = 192;

// One-way active message. on_complete: `payload` may be reused and the message is on its way (not: it was handled).
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
