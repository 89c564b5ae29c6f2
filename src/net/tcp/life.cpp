// SPDX-License-Identifier: Apache-2.0
// Life and death: start and leave, the end of peers, heartbeats.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "net/tcp/mesh.hpp"
#include "net/tcp/transport.hpp"

namespace ayatori::net::tcp {

// --- start and end ---

base::Status TcpTransport::connect() {
  base::Status status = connect_mesh(config_, std::move(listener_), &connected_);
  sodium_memzero(config_.secret.data(), config_.secret.size());
  return status;
}

void TcpTransport::start() {
  AYT_CHECK(!started_.load(std::memory_order_relaxed), "started twice");  // one thread
  if (connected_.empty())
    if (const base::Status status = connect(); !status.ok()) base::log_error("{}", status.message());
  std::vector<Socket> sockets = std::exchange(connected_, {});
  const std::int64_t now_ns = base::real_now_ns();
  last_look_ns_ = now_ns;
  for (const std::unique_ptr<Peer>& each : peers_) {
    each->last_heard_ns = each->last_sent_ns = now_ns;
    Socket& socket = sockets[static_cast<std::size_t>(each->process)];
    if (each->process == self_) continue;
    if (!socket) {
      accuse(*each, "it was not reached when the job started");
      continue;
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = static_cast<std::uint32_t>(each->process);
    if (::epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, socket.fd(), &event) != 0)
      base::fatal("tcp: epoll does not take a connection: {}", strerrordesc_np(errno));
    std::lock_guard lock(each->mutex);
    each->socket = std::move(socket);
  }
  started_.store(true, std::memory_order_release);  // pairs with progress()
  progress();                                       // retires whom it did not reach
  if (!config_.progress_thread) return;
  sigset_t all, before;  // the program's signals are not this thread's business
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  progress_thread_ = std::thread([this] { progress_thread_main(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TcpTransport::~TcpTransport() {
  const bool started = started_.load(std::memory_order_relaxed);  // same thread
  if (started) {
    const auto nothing_waits = [](void* data) {
      auto& net = *static_cast<TcpTransport*>(data);
      return !net.services_.owes() && std::all_of(net.peers_.begin(), net.peers_.end(), [](const auto& each) {
        std::lock_guard lock(each->mutex);
        return each->queue.idle();
      });
    };
    wait(nothing_waits, this, kLeaveNs);
  }
  stop_.store(true, std::memory_order_seq_cst);  // pairs with progress_thread_main() and sleep()
  if (progress_thread_.joinable()) {
    janitor_.ring();
    progress_thread_.join();
  }
  if (started) leave();  // D7
}

// Says goodbye behind what is still to be sent, then listens until the peer has hung up too: a connection that is closed with
// bytes unread is reset, and the goodbye could be lost with it. Nobody else uses the object any more.
void TcpTransport::leave() {
  FrameHeader goodbye;
  goodbye.kind = FrameKind::kLeave;
  goodbye.total = services_.collectives.calls();
  const std::int64_t start_ns = base::real_now_ns();
  std::uint64_t said = 0;
  std::uint64_t shut = 0;
  std::vector<std::byte> dropped(64 * 1024);
  std::vector<pollfd> polled;
  while (true) {
    polled.clear();
    for (const std::unique_ptr<Peer>& each : peers_) {
      Peer& to = *each;
      if (!to.socket) continue;
      pump(to);
      if ((said & bit_of(to.process)) == 0 && to.queue.idle()) {
        to.queue.push_reply(goodbye);
        said |= bit_of(to.process);
        pump(to);
      }
      if ((said & ~shut & bit_of(to.process)) != 0 && to.queue.idle()) {
        ::shutdown(to.socket.fd(), SHUT_WR);
        shut |= bit_of(to.process);
      }
      ssize_t got = 0;
      do {
        got = ::recv(to.socket.fd(), dropped.data(), dropped.size(), 0);
      } while (got > 0);
      if (got == 0 || (errno != EAGAIN && errno != EINTR))
        to.socket.close();
      else
        polled.push_back({to.socket.fd(), static_cast<short>(to.queue.idle() ? POLLIN : POLLIN | POLLOUT), 0});
    }
    const std::int64_t left_ns = kLeaveNs - (base::real_now_ns() - start_ns);
    if (polled.empty() || left_ns <= 0) return;
    ::poll(polled.data(), polled.size(), static_cast<int>(left_ns / base::kNsPerMs) + 1);
  }
}

void TcpTransport::sever() noexcept {
  for (const std::unique_ptr<Peer>& each : peers_) {
    std::lock_guard lock(each->mutex);
    if (each->socket) ::shutdown(each->socket.fd(), SHUT_RDWR);
  }
}

// --- the end of peers ---

// Any thread; retire() does the rest. Only the first reason counts.
void TcpTransport::accuse(Peer& whom, const char* why) noexcept {
  const char* none = nullptr;
  whom.accused.compare_exchange_strong(none, why, std::memory_order_release);  // pairs with retire_accused()
  accusations_.store(true, std::memory_order_seq_cst);                         // after it; pairs with retire_accused()
}

std::size_t TcpTransport::retire_accused() {
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

// False: somebody sends to it just now (E2).
bool TcpTransport::retire(Peer& whom) {
  const Standing standing = whom.left ? Standing::kLeft : Standing::kFailed;
  {
    std::lock_guard lock(whom.mutex);
    if (whom.sending) return false;
    whom.queue.clear();
    if (whom.socket) ::epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, whom.socket.fd(), nullptr);  // a fork may hold it open
    whom.socket.close();
    whom.standing.store(standing, std::memory_order_seq_cst);  // before the look at requests; pairs with issue()
  }
  whom.open_writes.clear();
  whom.late_acks.clear();
  if (standing == Standing::kFailed)
    base::log_warn("tcp: process {} failed: {}", whom.process,
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

void TcpTransport::look_at_peers(std::int64_t now_ns) {
  const std::int64_t since_ns = now_ns - last_look_ns_;
  if (since_ns < config_.heartbeat_interval_ns / 4) return;
  last_look_ns_ = now_ns;
  const bool was_away = since_ns > config_.heartbeat_timeout_ns / 2;  // stopped, or nobody made progress: D2
  for (const std::unique_ptr<Peer>& each : peers_) {
    Peer& other = *each;
    if (!other.socket) continue;  // written by the polling thread only
    if (was_away) other.last_heard_ns = now_ns;
    if (now_ns - other.last_heard_ns > config_.heartbeat_timeout_ns) {
      accuse(other, "nothing was heard of it for too long");
      continue;
    }
    FrameHeader heartbeat;
    heartbeat.kind = FrameKind::kHeartbeat;
    {
      std::lock_guard lock(other.mutex);
      if (now_ns - other.last_sent_ns < config_.heartbeat_interval_ns || !other.queue.idle()) continue;
      other.queue.push_reply(heartbeat);
    }
    kick(other);
  }
}

}  // namespace ayatori::net::tcp
