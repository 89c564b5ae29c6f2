// SPDX-License-Identifier: Apache-2.0
// Progress, waiting, and what is sent to this process itself.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "net/served/serve.hpp"
#include "net/served/thread_state.hpp"
#include "net/served/transport.hpp"
#include "net/shm/transport.hpp"

namespace ayatori::net::served {

namespace {

bool runs_here(const ThreadState& thread) noexcept {
  return thread.polls != nullptr || thread.completions.running() || shm::ShmTransport::runs_here();
}

}  // namespace

bool ServedTransport::polls() const noexcept { return thread_state().polls == this; }

bool ServedTransport::may_wait() noexcept { return !runs_here(thread_state()) && thread_state().batches == nullptr; }

void ServedTransport::kick(Peer& to) {
  if (to.process == self_) {
    self_news_.store(true, std::memory_order_seq_cst);  // Sleepers Z1
    ring_all();
  } else if (polls()) {
    dirty_ |= bit_of(to.process);  // D3
  } else if (ThreadState& thread = thread_state(); thread.batches == this) {
    thread.batched |= bit_of(to.process);  // D3
  } else {
    pump(to);
  }
}

void ServedTransport::begin_batch() noexcept {
  AYT_CHECK(thread_state().batches == nullptr, "a batch within a batch");
  thread_state().batches = this;
}

void ServedTransport::end_batch() {
  ThreadState& thread = thread_state();
  thread.batches = nullptr;
  for (std::uint64_t peers = std::exchange(thread.batched, 0); peers != 0; peers &= peers - 1) {
    Peer& to = peer(std::countr_zero(peers));
    pump(to);
  }
}

void ServedTransport::pump_dirty() {
  while (dirty_ != 0) {
    Peer& to = peer(std::countr_zero(dirty_));
    dirty_ &= dirty_ - 1;
    pump(to);
  }
}

bool ServedTransport::has_ended_some(Peer& to) {
  const bool ack_waited = std::exchange(to.ack_waits, false);
  const std::vector<HandedOver>& over = to.queue.handed_over();
  return ack_waited || over.size() > 1 || (over.size() == 1 && over[0].serial != thread_state().own_message);
}

void ServedTransport::batch_ended(bool some) {
  if (!some) return;
  some_sent_.store(true, std::memory_order_seq_cst);  // Sleepers Z1
  if (!polls()) ring_all();
}

void ServedTransport::ring_if_ended() {
  if (some_sent_.load(std::memory_order_relaxed)) ring_all();  // of this thread, or whoever set it rings, too
}

void ServedTransport::await_long_data(const Peer& from) noexcept {
  if (from.has_long_way()) long_data_awaited_.fetch_or(bit_of(from.process), std::memory_order_relaxed);
}

void ServedTransport::ring_all() {
  if (janitor_.any()) janitor_.ring();
  if (waiters_.any()) waiters_.ring();
}

// Messages, RPCs and answers of this process to itself: as if they had travelled.
std::size_t ServedTransport::drain_self() {
  if (!self_news_.exchange(false, std::memory_order_seq_cst))
    return 0;  // before the queue is looked at; pairs with kick()
  Peer& home = peer(self_);
  {
    std::lock_guard lock(home.mutex);
    if (!home.queue.compose()) return 0;
  }
  PeerSink sink(*this, home);
  std::size_t bytes = 0;
  for (const iovec& part : home.queue.batch()) {  // frames lie whole in each part
    std::span<const std::byte> stream(static_cast<const std::byte*>(part.iov_base), part.iov_len);
    bytes += part.iov_len;
    while (!stream.empty()) {
      Frame frame;
      const char* why = nullptr;
      AYT_CHECK(parse_frame(stream, limits_, &frame, &why) == Parsed::kFrame && sink.on_frame(frame),
                "a message of this process to itself: {}",
                why != nullptr ? why : home.accused.load(std::memory_order_relaxed));
      stream = stream.subspan(frame.bytes);
    }
  }
  std::lock_guard lock(home.mutex);
  home.queue.advance(bytes);
  if (!home.queue.idle()) self_news_.store(true, std::memory_order_seq_cst);
  return sink.work().ran;
}

// What waited for the end of a batch: acknowledged writes (D5), messages (D8).
std::size_t ServedTransport::end_sent() {
  if (!some_sent_.load(std::memory_order_relaxed)) return 0;  // a hint, the exchange decides
  some_sent_.exchange(false, std::memory_order_seq_cst);  // before the look at the batches; pairs with batch_ended()
  std::size_t ran = 0;
  std::vector<HandedOver> messages;
  for (const std::unique_ptr<Peer>& each : peers_) {
    PeerSink sink(*this, *each);
    sink.retry_late_acks();
    ran += sink.work().ran;
    {
      std::lock_guard lock(each->mutex);
      each->queue.take_handed_over(&messages);
    }
    for (const HandedOver& message : messages) end_message(message.slot, message.serial);
    ran += messages.size();
    messages.clear();
  }
  return ran;
}

std::size_t ServedTransport::end_flushes() {
  if (flush_count_.load(std::memory_order_seq_cst) == 0) return 0;  // pairs with try_flush_async()
  std::vector<Flush> over;
  {
    std::lock_guard lock(flush_mutex_);
    const auto due = std::partition(flushes_.begin(), flushes_.end(), [this](const Flush& flush) {
      return requests_.one_sided_waits(flush.peer, flush.serial);
    });
    over.assign(due, flushes_.end());
    flushes_.erase(due, flushes_.end());
    flush_count_.store(static_cast<std::uint32_t>(flushes_.size()), std::memory_order_relaxed);  // under the mutex
  }
  for (const Flush& flush : over) {
    const bool gone = flush.peer != kAllProcesses && is_gone(peer(flush.peer));
    thread_state().completions.run(flush.on_complete, {gone ? Outcome::kPeerFailed : Outcome::kOk, 0, 0});
  }
  return over.size();
}

// --- progress and waiting ---

std::size_t ServedTransport::progress() {
  std::size_t did = 0;
  std::int64_t now_ns = 0;
  make_progress(&did, &now_ns);
  return did;
}

// When it began; false: another thread has the poll lock, or nothing is to be done here and now.
bool ServedTransport::make_progress(std::size_t* did, std::int64_t* now_ns) {
  ThreadState& thread = thread_state();
  // acquire: pairs with start()
  if (runs_here(thread) || !started_.load(std::memory_order_acquire)) return false;
  Work work;
  std::size_t& ran = work.ran;
  const bool polls = poll_lock_.try_lock();
  if (polls) {
    thread.polls = this;
    *now_ns = base::real_now_ns();
    work += poll(*now_ns);
    if (near_ != nullptr) ran += serve_neighbours();  // after the look at the doorbell
    ran += drain_self();
    ran += end_sent();
    look_at_peers(*now_ns);
    ran += retire_accused();
    ran += end_flushes();
    pump_dirty();
    ran += end_sent();
    pump_dirty();
    thread.polls = nullptr;
    poll_lock_.unlock();
    ring_if_ended();
    polled();
    polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // a hint (D6)
    // Otherwise the kernel would wake it for each message that the caller takes, and let it sleep on.
    if (work.ran + work.served != 0 && watches_alone_.load(std::memory_order_relaxed) &&
        watches_alone_.exchange(false, std::memory_order_seq_cst))  // before the look who sleeps (Sleepers Z1)
      janitor_.ring();
  }
  if (services_.pending()) ran += services_.progress();
  if (ran != 0 && waiters_.any()) waiters_.ring();
  *did = work.ran + work.served;
  return polls;
}

bool ServedTransport::flush_is_due() const {
  if (flush_count_.load(std::memory_order_seq_cst) == 0) return false;  // pairs with try_flush_async()
  std::lock_guard lock(flush_mutex_);
  return std::any_of(flushes_.begin(), flushes_.end(),
                     [this](const Flush& flush) { return !requests_.one_sided_waits(flush.peer, flush.serial); });
}

bool ServedTransport::work_waits() const {
  // seq_cst: after the sleeper said so (Sleepers Z1), pairs with kick(), batch_ended() and accuse()
  return self_news_.load(std::memory_order_seq_cst) || some_sent_.load(std::memory_order_seq_cst) ||
         accusations_.load(std::memory_order_seq_cst) || wire_news_.load(std::memory_order_seq_cst) || flush_is_due();
}

void ServedTransport::sleep(bool (*until)(void*), void* data, std::int64_t limit_ns) {
  struct Sleep {
    const ServedTransport& net;
    bool (*until)(void*);
    void* data;
  } mine{*this, until, data};
  watchers_.fetch_add(1, std::memory_order_seq_cst);
  waiters_.sleep(
      epoll_.fd(), limit_ns,
      [](void* sleep) {
        const auto& s = *static_cast<Sleep*>(sleep);
        return s.until(s.data) || s.net.work_waits() || s.net.disarmed();
      },
      &mine);
  // seq_cst: before the look who sleeps; pairs with progress_thread_main() (D6)
  if (watchers_.fetch_sub(1, std::memory_order_seq_cst) == 1 && janitor_.any()) janitor_.ring();
}

bool ServedTransport::wait(bool (*until)(void* data), void* data, std::int64_t timeout_ns) {
  ThreadState& thread = thread_state();
  AYT_CHECK(!runs_here(thread), "a handler or completion must not wait");  // N4, N6
  if (until(data)) return true;
  const std::int64_t start_ns = base::real_now_ns();
  std::int64_t spin_until_ns = start_ns + kSpinNs;
  std::int64_t nap_ns = kNapNsMin;
  int misses = 0;
  while (true) {
    std::size_t did = 0;
    std::int64_t now_ns = 0;
    const bool polled = make_progress(&did, &now_ns);
    if (until(data)) return true;
    if (did != 0 || !polled) now_ns = base::real_now_ns();
    if (did != 0) {
      spin_until_ns = now_ns + kSpinNs;
      nap_ns = kNapNsMin;
      misses = 0;
    }
    if (timeout_ns != kNoTimeout && now_ns - start_ns >= timeout_ns) return until(data);
    if (now_ns < spin_until_ns) {
      for (int i = 0; i < kPausesPerMiss; ++i) base::cpu_pause();
      if (++misses % kMissesPerYield == 0) sched_yield();
      continue;
    }
    std::int64_t limit_ns = std::min(kSleepSliceNs, served_.heartbeat_interval_ns / 4);
    if (timeout_ns != kNoTimeout) limit_ns = std::min(limit_ns, timeout_ns - (now_ns - start_ns));
    if (services_.pending()) {  // waits for room, of which nobody tells
      limit_ns = std::min(limit_ns, nap_ns);
      nap_ns = std::min(nap_ns * 2, kNapNsMax);
    }
    limit_ns = std::min(limit_ns, arm_all());
    if (limit_ns > 0) sleep(until, data, limit_ns);
  }
}

void ServedTransport::progress_thread_main() {
  pthread_setname_np(pthread_self(), "ayatori-net");
  const std::int64_t slice_ns = std::min(kSleepSliceNs, served_.heartbeat_interval_ns / 4);
  const auto told_to_stop = [](void* self) {
    return static_cast<ServedTransport*>(self)->stop_.load(std::memory_order_seq_cst);  // pairs with the destructor
  };
  const auto stopped = [](void* self) {
    auto& net = *static_cast<ServedTransport*>(self);
    return net.stop_.load(std::memory_order_seq_cst) || net.work_waits();  // pairs with the destructor
  };
  const auto stopped_or_disarmed = [](void* self) {
    auto& net = *static_cast<ServedTransport*>(self);
    return net.stop_.load(std::memory_order_seq_cst) || net.work_waits() || net.disarmed() ||
           !net.watches_alone_.load(std::memory_order_seq_cst);  // pairs with make_progress()
  };
  const auto unwatched = [](void* self) {
    auto& net = *static_cast<ServedTransport*>(self);
    return net.stop_.load(std::memory_order_seq_cst) || net.work_waits() ||
           net.watchers_.load(std::memory_order_seq_cst) == 0;  // pairs with sleep()
  };
  std::int64_t nap_ns = kNapNsMin;
  std::uint32_t polls = 0;
  while (!stop_.load(std::memory_order_acquire)) {  // pairs with the destructor
    // Somebody polled since the last look: a look of ours would only take the CPU and the poll lock from him (D6).
    const std::uint32_t before = std::exchange(polls, polls_.load(std::memory_order_relaxed));
    const bool others_poll = polls != before;
    std::size_t did = 0;
    std::int64_t now_ns = 0;
    if (others_poll && !work_waits()) {
      janitor_.sleep(-1, nap_ns, stopped, this);
      nap_ns = std::min(nap_ns * 2, kNapNsMax / 2);  // the last poll may have been at the beginning of a nap
      continue;
    }
    nap_ns = kNapNsMin;
    if (!make_progress(&did, &now_ns)) {  // whoever has the lock may have lost the CPU to us, or run a long handler
      janitor_.sleep(-1, nap_ns, told_to_stop, this);
      continue;
    }
    const bool alone = polls_.load(std::memory_order_relaxed) == polls + 1;
    ++polls;
    if (did != 0 || !alone) continue;
    if (watchers_.load(std::memory_order_seq_cst) != 0) {
      janitor_.sleep(-1, slice_ns, unwatched, this);
    } else if (services_.pending()) {  // waits for room, of which nobody tells
      janitor_.sleep(-1, kNapNsMin, stopped, this);
    } else {
      const std::int64_t limit_ns = std::min(slice_ns, arm_all());
      watches_alone_.store(true, std::memory_order_seq_cst);
      if (limit_ns > 0) janitor_.sleep(epoll_.fd(), limit_ns, stopped_or_disarmed, this);
      watches_alone_.store(false, std::memory_order_relaxed);
    }
  }
}

}  // namespace ayatori::net::served
