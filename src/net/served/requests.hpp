// SPDX-License-Identifier: Apache-2.0
// The requests of this process that wait for an answer, each in a slot whose number travels with it. Any thread.
//
// R1. A request owns its slot from take() to give_back(). Its `state` decides by CAS who completes it: the answer, the
//     failure of its peer, the caller who could not send it, or (unanswered) whoever saw the wire take it.
// R2. Serials grow and are never used twice: an answer to a request that is over is recognised.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "net/served/config.hpp"
#include "net/served/walk.hpp"

namespace ayatori::net::served {

struct Request {
  enum class Kind : std::uint8_t { kRead, kWrite, kAtomic, kRpc, kMessage };  // kMessage: a long one
  // Read by flushes while the slot may change hands: then the state has changed too, or the answer errs to "wait longer".
  std::atomic<std::uint64_t> state{0};  // serial * 2 + 1 while it waits (R1)
  std::atomic<ProcessId> process{0};
  std::atomic<Kind> kind{Kind::kRead};
  // No answer of the peer belongs to it: carried out by the wire itself, or a message that is not acknowledged (transport.hpp
  // D10, D8). Written by release, so that find() sees that the slot has changed hands.
  std::atomic<bool> unanswered{false};

  // Written before the state, read by who has claimed, and, unless it is unanswered, by who holds the transport's poll lock.
  Walk local;  // of a read: where it goes on; of a write that waits for kGo: its data; of an RPC: room for the answer
  std::uint64_t total = 0;
  std::uint64_t received = 0;
  bool is_bulk = false;
  bool awaits_go = false;
  bool data_apart = false;  // a write's, by Peer::long_queue
  bool arriving = false;    // a read's: a kData of it has begun and not ended; the polling thread's while it waits
  Callback on_complete;
};

class RequestTable {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  explicit RequestTable(std::uint32_t slots);

  // `hint`: threads with different hints seldom meet. kNone: no slot is free.
  std::uint32_t take(std::uint32_t hint) noexcept;
  void give_back(std::uint32_t slot) noexcept;
  // The request is filled in: from now on it can be completed. Returns its serial.
  std::uint64_t publish(std::uint32_t slot) noexcept;
  bool claim(std::uint32_t slot, std::uint64_t serial) noexcept;  // R1

  Request& operator[](std::uint32_t slot) noexcept { return requests_[slot]; }
  // The request that an answer of `process` belongs to; nullptr: there is none.
  Request* find(std::uint32_t slot, std::uint64_t serial, ProcessId process) noexcept;
  std::uint32_t slots() const noexcept { return slots_; }
  std::uint64_t next_serial() const noexcept {
    return next_serial_.load(std::memory_order_relaxed);
  }  // the caller's own
  // Whether a one-sided request to `peer` (or anybody) with a smaller serial waits.
  bool one_sided_waits(ProcessId peer, std::uint64_t serial) const noexcept;

 private:
  const std::uint32_t slots_;
  std::unique_ptr<Request[]> requests_;
  std::array<std::atomic<std::uint64_t>, kRequestsLimit / 64> free_{};  // bit: free
  std::atomic<std::uint64_t> next_serial_{1};
};

}  // namespace ayatori::net::served
