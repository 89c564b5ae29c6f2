// SPDX-License-Identifier: Apache-2.0
#include "net/offload/executor.hpp"

#include <algorithm>
#include <bit>
#include <mutex>

#include "base/check.hpp"

namespace ayatori::net::offload {

static_assert(kMaxProcesses <= 64, "peers_waiting_ has a bit a peer");

Executor::Executor(Transport& below, TagPools& tags, std::size_t slots, std::uint32_t records)
    : below_(below),
      ring_(slots),
      queue_slots_(std::min(kQueueSlotsMax, slots)),
      records_kept_max_(records - std::max(records / 4, 1u)),
      record_count_(records),
      records_(std::make_unique<Request[]>(records)) {
  for (std::uint32_t i = 0; i < records; ++i) {
    records_[i].pools = &tags;
    records_[i].home = &record_pool_;
    records_[i].next.store(record_pool_.idle, std::memory_order_relaxed);  // before threads exist
    record_pool_.idle = &records_[i];
  }
}

bool Executor::accept(Request& request) noexcept {
  const bool orders = request.orders;  // pushed, it may be somebody else's
  bool wake = false;
  std::uint64_t ticket = 0;
  const bool pushed = ring_.try_push(&request, &wake, &ticket);
  AYT_CHECK(pushed, "a command ring is full: it has fewer slots than there are tags");
  if (orders) {  // E6. relaxed: who is ordered behind this call does not see less, by coherence
    std::uint64_t stamp = stamp_.load(std::memory_order_relaxed);
    while (stamp < ticket + 1 && !stamp_.compare_exchange_weak(stamp, ticket + 1, std::memory_order_relaxed)) {
    }
  }
  return wake;
}

bool Executor::records_home() noexcept {
  std::uint32_t home = 0;
  // acquire: pairs with TagPools::give_back(), and so with whatever their completions pushed
  for (const Request* first : {record_pool_.idle, record_pool_.returned.load(std::memory_order_acquire)})
    for (; first != nullptr; ++home) first = first->next.load(std::memory_order_relaxed);
  return home == record_count_;
}

// --- queues ---

SubmissionQueue* Executor::make_queue(std::size_t seat) {
  queues_[seat] = std::make_unique<SubmissionQueue>(queue_slots_);
  seats_used_.fetch_or(std::uint64_t{1} << seat, std::memory_order_release);  // pairs with any_queue(), drain_queues()
  return queues_[seat].get();
}

bool Executor::wait_for_room(int seat, std::int64_t timeout_ns) noexcept {
  SubmissionQueue* queue = seat >= 0 ? queues_[static_cast<std::size_t>(seat)].get() : nullptr;
  if (queue == nullptr || !queue->full()) return false;
  queue->wait_for_room(timeout_ns);
  return true;
}

template <class Predicate>
bool Executor::any_queue(Predicate&& predicate) const {
  // acquire: pairs with make_queue()
  for (std::uint64_t seats = seats_used_.load(std::memory_order_acquire); seats != 0; seats &= seats - 1)
    if (predicate(*queues_[static_cast<std::size_t>(std::countr_zero(seats))])) return true;
  return false;
}

bool Executor::queues_visible() const noexcept {
  return any_queue([](const SubmissionQueue& queue) { return !queue.nothing_visible(); });
}

// All that is visible in queues has to wait. A hint: who sleeps because of it naps (kept()).
bool Executor::queues_wait() const noexcept {
  if (starved_.load(std::memory_order_relaxed)) return record_pool_.returned.load(std::memory_order_relaxed) == nullptr;
  return held_up_.load(std::memory_order_relaxed);
}

bool Executor::prepare_sleep() noexcept {
  if (!ring_.prepare_sleep()) return false;
  if (queues_wait()) return true;  // the gate stays open: pushes could not be served now
  gate_.shut();
  return clogged_.load(std::memory_order_relaxed) || !queues_visible();
}

Request* Executor::take_record() noexcept {
  Pool& pool = record_pool_;
  if (pool.idle == nullptr) {
    if (pool.returned.load(std::memory_order_relaxed) == nullptr) return nullptr;  // spares an exchange
    pool.idle = pool.returned.exchange(nullptr, std::memory_order_acquire);        // pairs with TagPools::give_back()
  }
  Request* request = pool.idle;
  pool.idle = request->next.load(std::memory_order_relaxed);  // ours now
  if (pool.idle != nullptr) __builtin_prefetch(pool.idle, 1);
  return request;
}

Lane Executor::lane_of(const SubmissionQueue::Slot& slot) noexcept {
  return slot.kind() == ShortKind::kAtomic ? slot.atomic.lane : slot.move.lane;
}

void Executor::write_down(const SubmissionQueue::Slot& slot, Request& request) noexcept {
  const auto from = [&](const auto& what) {
    request.on_complete = what.on_complete;
    request.lane = what.lane;
    return RemoteAddress{what.process, what.region, what.offset};
  };
  const ShortMove& move = slot.move;
  switch (slot.kind()) {
    case ShortKind::kRead:
      request.write_down(ReadParams{move.process, from(move), {move.local, move.local_region}, move.size_bytes, {}});
      break;
    case ShortKind::kWrite:
      request.write_down(WriteParams{move.process, from(move), {move.local, move.local_region}, move.size_bytes, {}});
      break;
    case ShortKind::kAtomic: {
      const ShortAtomic& atomic = slot.atomic;
      request.write_down(AtomicParams{
          atomic.process, from(atomic), atomic.op, atomic.operand, atomic.expected, {}, atomic.width_bytes});
      break;
    }
  }
}

// Up to *left commands, each queue's in order.
std::size_t Executor::drain_queues(std::size_t* left) {
  std::size_t issued = 0;
  const std::uint64_t used = seats_used_.load(std::memory_order_acquire);  // pairs with make_queue()
  const int first = first_seat_;
  bool starved = false;
  for (std::uint64_t turns = std::rotr(used, first); turns != 0 && *left != 0; turns &= turns - 1) {
    const int seat = (std::countr_zero(turns) + first) % 64;
    SubmissionQueue& queue = *queues_[static_cast<std::size_t>(seat)];
    const std::uint64_t from = queue.head();
    for (; *left != 0; --*left) {
      if (holding_ && queue.head() == queue.limit) break;
      const SubmissionQueue::Slot* slot = queue.front(ring_done_);
      if (slot == nullptr) break;
      // Not while a fence waits: it waits for as little as possible.
      if (!holding_ && records_kept_ >= records_kept_max_ && waits(lane_of(*slot))) {
        clogged_.store(true, std::memory_order_relaxed);
        break;
      }
      Request* request = take_record();
      if (request == nullptr) {
        starved = true;
        starved_.store(true, std::memory_order_relaxed);
        break;
      }
      write_down(*slot, *request);
      queue.pop();
      issued += issue_or_keep(*request);
    }
    if (queue.head() != from) queue.tell_room();
    if (starved) {  // who got some lets others go first
      first_seat_ = queue.head() != from ? (seat + 1) % 64 : seat;
      break;
    }
    if (*left == 0) first_seat_ = (seat + 1) % 64;
  }
  return issued;
}

// --- the ring ---

// E6: before the fence at batch_next_. False: some of the commands that it waits for are still in their queues.
bool Executor::catch_up(std::size_t* issued) {
  if (!holding_) {
    holding_ = true;
    any_queue([&](SubmissionQueue& queue) {
      queue.limit = queue.end(ring_done_);
      return false;
    });
  }
  std::size_t all = ~std::size_t{0};
  *issued += drain_queues(&all);
  // Both are 0 where the queue is younger than the fence.
  return !any_queue([](const SubmissionQueue& queue) { return queue.head() != queue.limit; });
}

std::size_t Executor::drain_ring(std::size_t* left) {
  std::size_t issued = 0;
  if (batch_next_ == batch_end_) {
    batch_next_ = 0;
    batch_end_ = ring_.pop(batch_.data(), *left);
    *left -= batch_end_;
  }
  for (; batch_next_ != batch_end_; ++batch_next_, ++ring_done_) {
    if (batch_next_ + kPrefetch < batch_end_) {  // the records lie in their requesters' caches
      const auto* ahead = reinterpret_cast<const std::byte*>(batch_[batch_next_ + kPrefetch]);
      __builtin_prefetch(ahead, 1);
      __builtin_prefetch(ahead + 64);
    }
    Request& request = *batch_[batch_next_];
    if (!request.orders) {
      issued += issue_or_keep(request);
      continue;
    }
    if (!catch_up(&issued)) break;
    if (request.lane != kEveryLane) {
      issued += issue_or_keep(request);
    } else {
      if (peers_waiting_ != 0 || !request.issue(below_, request)) break;  // E4
      ++issued;
    }
    holding_ = false;
  }
  return issued;
}

Executor::Turn Executor::drain() {
  if (idle()) return {};
  const std::unique_lock lock(lock_, std::try_to_lock);  // E1
  if (!lock.owns_lock()) return {};
  below_.begin_batch();  // E5
  Turn turn{retry_lanes()};
  std::size_t left = kBatch;
  starved_.store(false, std::memory_order_relaxed);
  clogged_.store(false, std::memory_order_relaxed);
  const std::uint64_t ring_done = ring_done_;
  const bool ring_first = ring_first_;
  if (ring_first) turn.issued += drain_ring(&left);
  turn.issued += drain_queues(&left);
  ring_first_ = !ring_first && left == 0;
  if (!ring_first) turn.issued += drain_ring(&left);
  if (ring_done_ != ring_done) turn.issued += drain_queues(&left);  // what waited for a fence
  below_.end_batch();
  const bool keeps =
      peers_waiting_ != 0 || waits(kCollectivesLane) || holding_ || starved_.load(std::memory_order_relaxed);
  turn.began_to_keep = keeps && !kept();
  held_up_.store(holding_, std::memory_order_relaxed);  // written under the lock, as starved_, clogged_ and kept_
  kept_.store(keeps, std::memory_order_release);        // pairs with kept()
  return turn;
}

// --- lanes ---

// False: it is kept.
bool Executor::issue_or_keep(Request& request) {
  const Lane lane = request.lane;  // issued, it may be somebody else's
  if (!waits(lane) && request.issue(below_, request)) return true;
  keep(lane, request);
  return false;
}

void Executor::keep(Lane lane, Request& request) noexcept {
  Queue& queue = lanes_[static_cast<std::size_t>(lane)];
  request.next.store(nullptr, std::memory_order_relaxed);  // ours (request.hpp Q1)
  if (queue.first == nullptr)
    queue.first = &request;
  else
    queue.last->next.store(&request, std::memory_order_relaxed);
  queue.last = &request;
  records_kept_ += request.home == &record_pool_;
  if (lane != kCollectivesLane) peers_waiting_ |= std::uint64_t{1} << lane;
}

// Goes on with a lane as far as there is room.
std::size_t Executor::retry(Lane lane) {
  Queue& queue = lanes_[static_cast<std::size_t>(lane)];
  std::size_t issued = 0;
  while (queue.first != nullptr) {
    Request& request = *queue.first;
    Request* next = request.next.load(std::memory_order_relaxed);
    const bool ours = request.home == &record_pool_;
    if (!request.issue(below_, request)) return issued;
    records_kept_ -= ours;
    queue.first = next;
    ++issued;
  }
  if (lane != kCollectivesLane) peers_waiting_ &= ~(std::uint64_t{1} << lane);
  return issued;
}

// Each time another peer first: room below may be common to all.
std::size_t Executor::retry_lanes() {
  std::size_t issued = retry(kCollectivesLane);
  const int first = first_lane_;
  for (std::uint64_t turns = std::rotr(peers_waiting_, first); turns != 0; turns &= turns - 1) {
    const Lane lane = (std::countr_zero(turns) + first) % 64;
    if (first_lane_ == first) first_lane_ = (lane + 1) % 64;
    issued += retry(lane);
  }
  return issued;
}

}  // namespace ayatori::net::offload
