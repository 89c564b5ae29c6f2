// SPDX-License-Identifier: Apache-2.0
// The Executor of thesis 4.4.2: takes commands out of its ring, and out of its requesters' submission queues, and hands them
// to the transport below. Requesters call accept() and queue() on any thread; drain() is called by its thread, where it has
// one, and by whoever makes progress or waits.
//
// E1. One thread at a time drains; the lock is only tried, so a completion that runs meanwhile may take any lock.
// E2. All requests to one peer go through one executor, a fence and a flush among them, which reach the transport below in
//     their place: behind what was accepted before and before what is accepted afterwards (E6 for the queues). So N10
//     (net/transport.hpp) is that transport's affair.
// E3. A command that finds no room below waits in the lane of its peer, and so do those to that peer behind it. Others pass:
//     a peer that takes nothing holds up nobody else. What waits for such has three quarters of the records (E7), and one more
//     for each further peer; then it waits in its queue, and what its thread asked for later behind it, unless a fence wants
//     it. Collectives have a lane of their own (their order is the caller's).
// E4. A fence or flush to all peers waits until all lanes of peers are empty, and the ring behind it with it.
// E5. A batch is at most kBatch commands, and what fences in it wait for; the transport below may send it together. Between
//     two it makes progress.
// E6. Order between ring and queues. Whoever puts a fence or flush with ring ticket t into the ring leaves t + 1 in stamp_
//     before it returns; what is pushed to a queue carries the stamp of that time and is issued when as many commands of the
//     ring were (issued, or kept in a lane). What was pushed before carries at most t, and is visible to whoever takes the
//     fence: the fence waits for it. It waits for no more than that (SubmissionQueue::limit), or it might wait for ever.
// E7. What comes from a queue gets its record from the executor, which has as many as its share of the tags. While they are
//     all under way or kept, queues wait, and so does a fence behind them. They come back when what they stand for completes,
//     for which those in lanes need room below, but nothing from a queue or the ring.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/shared_lock.hpp"
#include "net/offload/command_ring.hpp"
#include "net/offload/request.hpp"
#include "net/offload/sleep_gate.hpp"
#include "net/offload/submission_queue.hpp"
#include "net/offload/tags.hpp"

namespace ayatori::net::offload {

class Executor {
 public:
  static constexpr std::size_t kBatch = 64;
  static constexpr std::size_t kQueueSlotsMax = 256;

  // slots: at least as many as there are tags. Then the ring is never full (each command in it holds one). records: of E7.
  Executor(Transport& below, TagPools& tags, std::size_t slots, std::uint32_t records);

  // True: the caller owes a wake-up (command_ring.hpp G3).
  [[nodiscard]] bool accept(Request& request) noexcept;

  // The queue of a seat (TagPools::seat()), for the thread that has it; nullptr for none.
  SubmissionQueue* queue(int seat) {
    if (seat < 0) return nullptr;
    SubmissionQueue* made = queues_[static_cast<std::size_t>(seat)].get();
    return made != nullptr ? made : make_queue(static_cast<std::size_t>(seat));
  }
  // Waits for room in the queue of a seat, if it is full. False: it is not, or there is none.
  bool wait_for_room(int seat, std::int64_t timeout_ns) noexcept;
  std::uint64_t stamp() const noexcept {
    return stamp_.load(std::memory_order_relaxed);
  }  // coherence: not below the caller's
  // After each push to a queue. True: the caller owes a wake-up (sleep_gate.hpp S2).
  [[nodiscard]] bool pushed() noexcept { return gate_.open_after_push(); }

  struct Turn {
    std::size_t issued = 0;
    bool began_to_keep = false;  // commands wait for room that did not before
  };
  // Issues up to a batch, those that waited for room first.
  Turn drain();
  // Any thread, hints: commands wait, for room, records or those before a fence; there is nothing for drain() to do.
  bool kept() const noexcept { return kept_.load(std::memory_order_acquire); }  // pairs with drain()
  bool idle() const noexcept { return ring_.nothing_visible() && !kept() && !queues_visible(); }

  // Announces that whoever would drain goes to sleep. False: there are commands that it could issue. True may be because of
  // commands that wait: good for a nap if kept(), which is to be asked first, as it may end meanwhile.
  bool prepare_sleep() noexcept;
  void cancel_sleep() noexcept {
    ring_.cancel_sleep();
    gate_.open();
  }

  // Its own thread, once a turn; any thread: how often so far.
  void beat() noexcept { beats_.store(beats() + 1, std::memory_order_relaxed); }
  std::uint32_t beats() const noexcept { return beats_.load(std::memory_order_relaxed); }

  // The end, while nobody drains and no new request is let in: all records of E7 are at home; then, nothing is in queues.
  bool records_home() noexcept;
  bool queues_visible() const noexcept;

 private:
  struct Queue {
    Request* first = nullptr;
    Request* last = nullptr;
  };
  static constexpr int kPrefetch = 4;

  SubmissionQueue* make_queue(std::size_t seat);
  template <class Predicate>
  bool any_queue(Predicate&& predicate) const;
  bool queues_wait() const noexcept;
  std::size_t drain_queues(std::size_t* left);
  std::size_t drain_ring(std::size_t* left);
  bool catch_up(std::size_t* issued);
  bool issue_or_keep(Request& request);
  Request* take_record() noexcept;
  static Lane lane_of(const SubmissionQueue::Slot& slot) noexcept;
  static void write_down(const SubmissionQueue::Slot& slot, Request& request) noexcept;
  void keep(Lane lane, Request& request) noexcept;
  std::size_t retry(Lane lane);
  std::size_t retry_lanes();
  bool waits(Lane lane) const noexcept { return lanes_[static_cast<std::size_t>(lane)].first != nullptr; }

  Transport& below_;
  CommandRing<Request> ring_;
  base::SharedLock lock_;
  const std::size_t queue_slots_;

  // What each push to a queue looks at, and hardly anybody writes.
  alignas(64) std::atomic<std::uint64_t> stamp_{0};  // E6
  SleepGate gate_;
  std::array<std::unique_ptr<SubmissionQueue>, TagPools::kPools> queues_;  // made by the seat's thread, see seats_used_

  static_assert(TagPools::kPools <= 64);
  alignas(64) std::atomic<std::uint64_t> seats_used_{0};  // bit: a queue
  alignas(64) std::atomic<std::uint32_t> beats_{0};

  // Guarded by lock_.
  std::array<Queue, kMaxProcesses + 1> lanes_;
  std::uint64_t peers_waiting_ = 0;  // bit p: lane p is not empty
  std::array<Request*, kBatch> batch_;
  std::size_t batch_next_ = 0;
  std::size_t batch_end_ = 0;
  std::uint64_t ring_done_ = 0;     // commands of the ring that were issued or kept
  bool holding_ = false;            // a fence at batch_next_: queues go as far as their limits
  bool ring_first_ = false;         // for the queues used the last batch up
  int first_seat_ = 0;              // the queue whose turn it is
  int first_lane_ = 0;              // the peer whose turn it is
  std::uint32_t records_kept_ = 0;  // in lanes

  std::atomic<bool> kept_{false};
  // What is visible in queues has to wait: behind a fence; for records; in some queues, for a lane (E3).
  std::atomic<bool> held_up_{false};
  std::atomic<bool> starved_{false};
  std::atomic<bool> clogged_{false};

  // E7.
  const std::uint32_t records_kept_max_;
  const std::uint32_t record_count_;
  const std::unique_ptr<Request[]> records_;
  Pool record_pool_;  // its `idle` is guarded by lock_
};

}  // namespace ayatori::net::offload
