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
      records_kept_max_(records - records / 4),
      record_count_(records),
      records_(std::make_unique<Request[]>(records)) {
  for (std::uint32_t i = 0; i < records; ++i) {
    records_[i].pools = &tags;
    records_[i].home = &record_pool_;
    records_[i].next.store(record_pool_.idle, std::memory_order_relaxed);  // before threads exist
    record_pool_.idle = &records_[i];
  }
}

Executor::~Executor() {
  each_queue([](SubmissionQueue& queue) {
    delete &queue;
    return true;
  });
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
  for (Request* request = record_pool_.idle; request != nullptr; ++home)
    request = request->next.load(std::memory_order_relaxed);
  // acquire: pairs with TagPools::give_back(), and so with whatever their completions pushed
  for (const Request* request = record_pool_.returned.load(std::memory_order_acquire); request != nullptr; ++home)
    request = request->next.load(std::memory_order_relaxed);
  return home == record_count_;
}

// --- queues ---

SubmissionQueue* Executor::make_queue(std::size_t seat) {
  auto* made = new SubmissionQueue(queue_slots_);
  queues_[seat].store(made, std::memory_order_relaxed);
  seats_used_.fetch_or(std::uint64_t{1} << seat, std::memory_order_release);  // pairs with each_queue()
  return made;
}

bool Executor::wait_for_room(int seat, std::int64_t timeout_ns) noexcept {
  SubmissionQueue* queue =
      seat >= 0 ? queues_[static_cast<std::size_t>(seat)].load(std::memory_order_relaxed) : nullptr;  // as in queue()
  if (queue == nullptr || !queue->full()) return false;
  queue->wait_for_room(timeout_ns);
  return true;
}

template <class Visit>
void Executor::each_queue(Visit&& visit) const {
  for (std::uint64_t seats = seats_used_.load(std::memory_order_acquire); seats != 0; seats &= seats - 1)
    if (!visit(*queues_[static_cast<std::size_t>(std::countr_zero(seats))].load(std::memory_order_relaxed))) return;
}

bool Executor::queues_visible() const noexcept {
  bool any = false;
  each_queue([&](const SubmissionQueue& queue) {
    any = !queue.nothing_visible();
    return !any;
  });
  return any;
}

// What is visible in queues has to wait. A hint: who sleeps because of it naps (kept()).
bool Executor::queues_wait() const noexcept {
  if (starved_.load(std::memory_order_relaxed)) return record_pool_.returned.load(std::memory_order_relaxed) == nullptr;
  return held_up_.load(std::memory_order_relaxed);
}

bool Executor::prepare_sleep() noexcept {
  if (!ring_.prepare_sleep()) return false;
  if (queues_wait()) return true;  // the gate stays open: no push could be served before the nap's end
  gate_.shut();
  return !queues_visible();
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
  for (std::uint64_t turns = std::rotr(used, first); turns != 0 && *left != 0; turns &= turns - 1) {
    const int seat = (std::countr_zero(turns) + first) % 64;
    SubmissionQueue& queue = *queues_[static_cast<std::size_t>(seat)].load(std::memory_order_relaxed);
    const std::uint64_t from = queue.head();
    for (; *left != 0; --*left) {
      if (holding_ && queue.head() == queue.limit) break;
      const SubmissionQueue::Slot* slot = queue.front(ring_done_);
      if (slot == nullptr) break;
      if (records_kept_ >= records_kept_max_ && waits(lane_of(*slot))) {
        clogged_ = true;
        break;
      }
      Request* request = take_record();
      if (request == nullptr) {
        starved_.store(true, std::memory_order_relaxed);
        break;
      }
      write_down(*slot, *request);
      queue.pop();
      issued += issue_or_keep(*request);
    }
    if (queue.head() != from) queue.tell_room();
    if (starved_.load(std::memory_order_relaxed)) {  // who got some lets others go first
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
    each_queue([&](SubmissionQueue& queue) {
      queue.limit = queue.end(ring_done_);
      return true;
    });
  }
  std::size_t all = ~std::size_t{0};
  *issued += drain_queues(&all);
  bool reached = true;
  each_queue([&](const SubmissionQueue& queue) {
    reached = queue.head() == queue.limit;  // 0, both, where it is younger than the fence
    return reached;
  });
  return reached;
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
  clogged_ = false;
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
  held_up_.store(holding_ || clogged_, std::memory_order_relaxed);  // written under the lock, as starved_ and kept_
  kept_.store(keeps, std::memory_order_release);                    // pairs with kept()
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

std::size_t Executor::retry_lanes() {
  std::size_t issued = retry(kCollectivesLane);
  for (std::uint64_t lanes = peers_waiting_; lanes != 0; lanes &= lanes - 1)
    issued += retry(static_cast<Lane>(std::countr_zero(lanes)));
  return issued;
}

}  // namespace ayatori::net::offload
