// SPDX-License-Identifier: Apache-2.0
// The Executor of thesis 4.4.2: takes commands out of its ring and hands them to the transport below. Requesters call
// accept() on any thread; drain() is called by its thread, where it has one, and by whoever makes progress or waits.
//
// E1. One thread at a time drains; the lock is only tried, so a completion that runs meanwhile may take any lock.
// E2. All requests to one peer go through one ring, so its commands reach the transport below in the order in which they
//     were accepted: a fence, too, which makes N10 (net/transport.hpp) that transport's affair, and a flush likewise.
// E3. A command that finds no room below waits in the lane of its peer, and so do those to that peer behind it. Others pass:
//     a peer that takes nothing holds up nobody else. Collectives have a lane of their own (their order is the caller's).
// E4. A fence or flush to all peers waits until all lanes of peers are empty, and the ring behind it with it.
// E5. A batch is at most kBatch commands, which the transport below may send together; between two it makes progress.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/shared_lock.hpp"
#include "net/offload/command_ring.hpp"
#include "net/offload/request.hpp"

namespace ayatori::net::offload {

class Executor {
 public:
  static constexpr std::size_t kBatch = 64;

  // slots: at least as many as there are tags. Then the ring is never full (each command in it holds one).
  Executor(Transport& below, std::size_t slots) : below_(below), ring_(slots) {}

  // True: the caller owes a wake-up (command_ring.hpp G3).
  [[nodiscard]] bool accept(Request& request) noexcept;

  struct Turn {
    std::size_t issued = 0;
    bool began_to_keep = false;  // commands wait for room that did not before
  };
  // Issues up to a batch, those that waited for room first.
  Turn drain();
  // Any thread, hints: commands wait for room; there is something for drain() to do.
  bool kept() const noexcept { return kept_.load(std::memory_order_relaxed); }
  bool idle() const noexcept { return ring_.nothing_visible() && !kept(); }

  // Announces that whoever would drain goes to sleep. False: the ring is not empty.
  bool prepare_sleep() noexcept { return ring_.prepare_sleep(); }
  void cancel_sleep() noexcept { ring_.cancel_sleep(); }

 private:
  struct Queue {
    Request* first = nullptr;
    Request* last = nullptr;
  };
  static constexpr int kPrefetch = 4;

  void keep(Lane lane, Request& request) noexcept;
  std::size_t retry(Lane lane);
  std::size_t retry_lanes();
  bool waits(Lane lane) const noexcept { return lanes_[static_cast<std::size_t>(lane)].first != nullptr; }

  Transport& below_;
  CommandRing<Request> ring_;
  base::SharedLock lock_;

  // Guarded by lock_.
  std::array<Queue, kMaxProcesses + 1> lanes_;
  std::uint64_t peers_waiting_ = 0;  // bit p: lane p is not empty
  std::array<Request*, kBatch> batch_;
  std::size_t batch_next_ = 0;
  std::size_t batch_end_ = 0;

  std::atomic<bool> kept_{false};
};

}  // namespace ayatori::net::offload
