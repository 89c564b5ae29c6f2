// SPDX-License-Identifier: Apache-2.0
// The tags of an offloading transport and their recycling without a lock: what thesis 4.4.1 left open ("each thread has a
// MPSC queue of its own"). Called by requesters (take) and by whichever thread runs a completion (give_back).
//
// A bounded number of records lies in the common stock. A thread that issues requests holds a pool; the tags that it takes
// become the pool's own, up to a share, and come home to it whoever completes them.
//
// A1. Pool::idle is the holder's alone. Pool::returned is a stack that any thread pushes to and that the holder only ever
//     takes whole: so no pop by CAS, no ABA.
// A2. The stock is a stack popped by CAS by any thread; its head carries a version that grows with every change, and `next`
//     of a record is read by poppers that lost it, hence atomic. (A popper would have to sleep through exactly 2^32 changes.)
// A3. A pool keeps the tags that it got, at most `share`; all pools together keep at most half of the tags, so a thread can
//     starve because of requests under way, never because of idle threads only. Tags beyond go back to the stock.
// A4. A thread that ends leaves its pool to the next that needs one, with the tags in it and those still under way. Where
//     there are more threads than pools, the others live on the stock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "net/offload/request.hpp"

namespace ayatori::net::offload {

struct alignas(64) Pool {
  std::atomic<bool> held{false};
  // The holder's; handed on with `held`.
  Request* idle = nullptr;
  std::uint32_t owned = 0;  // tags whose home this is

  alignas(64) std::atomic<Request*> returned{nullptr};
};

class TagPools : public std::enable_shared_from_this<TagPools> {
 public:
  static constexpr std::size_t kPools = 32;
  static constexpr std::uint32_t kAdoptedAtOnce = 16;  // so that a thread seldom looks for what came home

  // Shared with the threads that hold a pool of it: they may end after the transport did.
  static std::shared_ptr<TagPools> create(std::uint32_t tags, std::size_t payload_bytes_max);

  // This thread's seat, below kPools, which no other thread has meanwhile: the number of its pool. -1: it has none, or closed.
  int seat();
  Request* take();  // nullptr: every tag is under way, or idle in another thread's pool; or it is closed
  // No thread takes now; from here on none gets any.
  void close() noexcept { closed_.store(true, std::memory_order_relaxed); }
  void give_back(Request& request) noexcept;

  // Bytes that stay until the request completes; `payload` itself where it is longer than payload_bytes_max: that of a long
  // message stays the caller's, that of an RPC is refused unread below.
  const void* keep(Request& request, const void* payload, std::size_t bytes) noexcept;

  std::uint32_t tags() const noexcept { return tags_; }
  // The end: takes what is at home out of use and says whether that is all. One thread, while no other takes.
  bool collect_all() noexcept;

 private:
  struct Seat;
  struct Seats;

  TagPools(std::uint32_t tags, std::size_t payload_bytes_max);
  Pool* pool_of_this_thread();
  Pool* find_pool();
  void refill(Pool& pool) noexcept;
  Request* pop_stock() noexcept;
  void push_stock(Request& request) noexcept;
  std::uint32_t number(const Request& request) const noexcept {
    return static_cast<std::uint32_t>(&request - requests_.get());
  }

  // Constant after construction.
  const std::uint32_t tags_;
  const std::uint32_t share_;
  const std::size_t payload_bytes_max_;
  const std::uint64_t serial_;  // no other TagPools of this process ever had it
  const std::unique_ptr<Request[]> requests_;
  const std::unique_ptr<std::byte[]> payloads_;  // payload_bytes_max a tag, untouched until used

  alignas(64) std::atomic<std::uint64_t> stock_;  // version << 32 | number + 1; low half 0: empty
  std::array<Pool, kPools> pools_;
  std::atomic<bool> closed_{false};
  std::uint32_t collected_ = 0;
};

}  // namespace ayatori::net::offload
