// SPDX-License-Identifier: Apache-2.0
// Another process as a UcxTransport sees it. All of it but what served::Peer guards by its mutex belongs to whoever holds the
// poll lock: UCX's worker does too.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "net/served/peer.hpp"
#include "net/served/transport.hpp"
#include "net/ucx/control.hpp"
#include "net/ucx/inbox.hpp"
#include "net/ucx/memory.hpp"

namespace ayatori::net::ucx {

struct KeyAsk;

// What processes tell each other about a region of the sender, or (kAskHandler) of the receiver.
struct RegionWord {
  RegionId region;
  std::uint32_t round;  // of its unregistering; of an answer to that word
};

// What this process knows of a region of another (transport.hpp U6).
struct KnownRegion {
  enum class State : std::uint8_t { kUnknown, kAsked, kServed, kReached };  // kServed: UCX does not reach it
  State state = State::kUnknown;
  std::uint8_t atomics = 0;  // Reach::atomics
  std::uint32_t rights = 0;
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  void* key = nullptr;
  std::unique_ptr<KeyAsk> ask;
};

struct UcxPeer final : served::Peer {
  UcxPeer(ProcessId number, const served::FrameLimits& limits, std::size_t request_bytes, std::size_t reply_bytes);
  ~UcxPeer() override;
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

  // U6. Guarded by the mutex: what is known, and what waits to be started.
  std::array<KnownRegion, served::kRegionsMax> regions;
  MemoryOp* first_op = nullptr;
  MemoryOp* last_op = nullptr;
  std::vector<void*> old_keys;  // of regions that are no more

  std::uint32_t ops_under_way = 0;
  bool broken_off = false;
  std::int64_t let_go_ns = 0;  // when that began
};

}  // namespace ayatori::net::ucx
