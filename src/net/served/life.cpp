// SPDX-License-Identifier: Apache-2.0
// Life and death: begin and end, the end of peers, heartbeats.
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "net/served/transport.hpp"
#include "net/shm/transport.hpp"

namespace ayatori::net::served {

// --- begin and end ---

void ServedTransport::watch(int descriptor, std::uint32_t events, ProcessId process) {
  epoll_event event{};
  event.events = events;
  event.data.u32 = static_cast<std::uint32_t>(process);
  if (::epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, descriptor, &event) != 0)
    base::fatal("{}: epoll does not take a connection: {}", name_, strerrordesc_np(errno));
}

void ServedTransport::watch_room(int descriptor, bool wants_out, ProcessId process) noexcept {
  epoll_event event{};
  event.events = EPOLLIN | (wants_out ? EPOLLOUT : 0u);
  event.data.u32 = static_cast<std::uint32_t>(process);
  ::epoll_ctl(epoll_.fd(), EPOLL_CTL_MOD, descriptor, &event);  // fails where it is not watched (any more): leave()
}

void ServedTransport::begin() {
  AYT_CHECK(!started_.load(std::memory_order_relaxed), "started twice");  // one thread
  last_look_ns_ = base::real_now_ns();
  for (const std::unique_ptr<Peer>& each : peers_) {
    each->last_heard_ns = last_look_ns_;
    if (each->process != self_ && !each->open) accuse(*each, "it was not reached when the job started");
  }
  if (near_ != nullptr) meet_neighbours();
  started_.store(true, std::memory_order_release);  // pairs with progress()
  progress();                                       // retires whom it did not reach
  if (!served_.progress_thread) return;
  sigset_t all, before;  // the program's signals are not this thread's business
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  progress_thread_ = std::thread([this] { progress_thread_main(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool ServedTransport::end() {
  const bool started = started_.load(std::memory_order_relaxed);  // same thread
  if (started) {
    const auto nothing_waits = [](void* data) {
      auto& net = *static_cast<ServedTransport*>(data);
      // relaxed: what it counts is looked at by nobody else
      return !net.services_.owes() && net.long_messages_.load(std::memory_order_relaxed) == 0 &&
             std::all_of(net.peers_.begin(), net.peers_.end(), [](const auto& each) {
               std::lock_guard lock(each->mutex);
               return each->idle();
             });
    };
    wait(nothing_waits, this, kLeaveNs);
  }
  stop_.store(true, std::memory_order_seq_cst);  // pairs with progress_thread_main() and sleep()
  if (progress_thread_.joinable()) {
    janitor_.ring();
    progress_thread_.join();
  }
  return started;
}

// --- the end of peers ---

// Any thread; retire() does the rest. Only the first reason counts.
void ServedTransport::accuse(Peer& whom, const char* why) noexcept {
  const char* none = nullptr;
  whom.accused.compare_exchange_strong(none, why, std::memory_order_release);  // pairs with retire_accused()
  accusations_.store(true, std::memory_order_seq_cst);                         // after it; pairs with retire_accused()
}

std::size_t ServedTransport::retire_accused() {
  if (!accusations_.load(std::memory_order_relaxed)) return 0;  // a hint, the exchange decides
  accusations_.exchange(false, std::memory_order_seq_cst);      // before the look at `accused`; pairs with accuse()
  std::size_t ran = 0;
  for (const std::unique_ptr<Peer>& each : peers_) {
    // acquire: pairs with accuse()
    if (each->accused.load(std::memory_order_acquire) == nullptr || is_gone(*each)) continue;
    if (retire(*each))
      ++ran;
    else
      accusations_.store(true, std::memory_order_seq_cst);  // again
  }
  return ran;
}

// False: a batch is on its way to it just now (E2).
bool ServedTransport::retire(Peer& whom) {
  const Standing standing = whom.left ? Standing::kLeft : Standing::kFailed;
  {
    std::lock_guard lock(whom.mutex);
    if (!try_close(whom)) return false;
    whom.open = false;
    whom.queue.clear();
    whom.standing.store(standing, std::memory_order_seq_cst);  // before the look at requests; pairs with issue()
  }
  drop_rooms(whom);
  whom.late_acks.clear();
  if ((neighbours_ & bit_of(whom.process)) != 0) give_up_neighbour(whom);
  if (standing == Standing::kFailed && served_.tells_failures)
    base::log_warn("{}: process {} failed: {}", name_, whom.process,
                   whom.accused.load(std::memory_order_relaxed));  // read before
  for (std::uint32_t slot = 0; slot < requests_.slots(); ++slot) {
    Request& request = requests_[slot];
    const std::uint64_t state = request.state.load(std::memory_order_seq_cst);  // pairs with issue()
    if ((state & 1) == 0 || request.process.load(std::memory_order_relaxed) != whom.process) continue;  // see state
    if (requests_.claim(slot, state >> 1)) complete(slot, {Outcome::kPeerFailed, 0, 0});
  }
  if (standing == Standing::kFailed) {
    services_.on_peer_failed(whom.process);
    if (peer_failure_ != nullptr) peer_failure_(peer_failure_context_, whom.process);
  } else {
    services_.on_peer_left(whom.process, whom.collective_calls);
  }
  return true;
}

void ServedTransport::look_at_peers(std::int64_t now_ns) {
  const std::int64_t since_ns = now_ns - last_look_ns_;
  if (since_ns < served_.heartbeat_interval_ns / 4) return;
  last_look_ns_ = now_ns;
  const bool was_away = since_ns > served_.heartbeat_timeout_ns / 2;  // stopped, or nobody made progress: D2
  if (near_ != nullptr) near_->free_orphans();
  for (const std::unique_ptr<Peer>& each : peers_) {
    Peer& other = *each;
    if (!other.open) continue;  // changed by the polling thread only
    if (was_away) other.last_heard_ns = now_ns;
    if (now_ns - other.last_heard_ns > served_.heartbeat_timeout_ns) {
      accuse(other, "nothing was heard of it for too long");
      continue;
    }
    heartbeat(other, now_ns, was_away);
  }
  look_at_rooms(now_ns, was_away);
}

}  // namespace ayatori::net::served
