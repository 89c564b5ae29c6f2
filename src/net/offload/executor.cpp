// SPDX-License-Identifier: Apache-2.0
#include "net/offload/executor.hpp"

#include <bit>
#include <mutex>

#include "base/check.hpp"

namespace ayatori::net::offload {

static_assert(kMaxProcesses <= 64, "peers_waiting_ has a bit a peer");

bool Executor::accept(Request& request) noexcept {
  bool wake = false;
  const bool pushed = ring_.try_push(&request, &wake);
  AYT_CHECK(pushed, "a command ring is full: it has fewer slots than there are tags");
  return wake;
}

Executor::Turn Executor::drain() {
  if (idle()) return {};
  const std::unique_lock lock(lock_, std::try_to_lock);  // E1
  if (!lock.owns_lock()) return {};
  below_.begin_batch();  // E5
  Turn turn{retry_lanes()};
  if (batch_next_ == batch_end_) {
    batch_next_ = 0;
    batch_end_ = ring_.pop(batch_.data(), kBatch);
  }
  for (; batch_next_ != batch_end_; ++batch_next_) {
    if (batch_next_ + kPrefetch < batch_end_) {  // the records lie in their requesters' caches
      const auto* ahead = reinterpret_cast<const std::byte*>(batch_[batch_next_ + kPrefetch]);
      __builtin_prefetch(ahead, 1);
      __builtin_prefetch(ahead + 64);
    }
    Request& request = *batch_[batch_next_];
    const Lane lane = request.lane;
    if (lane == kEveryLane) {
      if (peers_waiting_ != 0 || !request.issue(below_, request)) break;  // E4
      ++turn.issued;
    } else if (!waits(lane) && request.issue(below_, request)) {
      ++turn.issued;
    } else {
      keep(lane, request);
    }
  }
  below_.end_batch();
  const bool keeps = peers_waiting_ != 0 || waits(kCollectivesLane) || batch_next_ != batch_end_;
  turn.began_to_keep = keeps && !kept();
  kept_.store(keeps, std::memory_order_relaxed);  // written under the lock; sleepers: transport.hpp F6
  return turn;
}

void Executor::keep(Lane lane, Request& request) noexcept {
  Queue& queue = lanes_[static_cast<std::size_t>(lane)];
  request.next.store(nullptr, std::memory_order_relaxed);  // ours (request.hpp Q1)
  if (queue.first == nullptr)
    queue.first = &request;
  else
    queue.last->next.store(&request, std::memory_order_relaxed);
  queue.last = &request;
  if (lane != kCollectivesLane) peers_waiting_ |= std::uint64_t{1} << lane;
}

// Goes on with a lane as far as there is room.
std::size_t Executor::retry(Lane lane) {
  Queue& queue = lanes_[static_cast<std::size_t>(lane)];
  std::size_t issued = 0;
  while (queue.first != nullptr) {
    Request& request = *queue.first;
    Request* next = request.next.load(std::memory_order_relaxed);
    if (!request.issue(below_, request)) return issued;
    queue.first = next;
    ++issued;
  }
  if (lane != kCollectivesLane) peers_waiting_ &= ~(std::uint64_t{1} << lane);
  return issued;
}

std::size_t Executor::retry_lanes() {
  std::size_t issued = retry(kCollectivesLane);
  for (std::uint64_t lanes = peers_waiting_; lanes != 0; lanes &= lanes - 1)
    issued += retry(static_cast<Lane>(std::countr_zero(lanes)));
  return issued;
}

}  // namespace ayatori::net::offload
