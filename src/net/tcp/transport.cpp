// SPDX-License-Identifier: Apache-2.0
#include "net/tcp/transport.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.hpp"
#include "net/served/serve.hpp"
#include "net/tcp/stream.hpp"

namespace ayatori::net::tcp {

using served::FrameKind;
using served::Peer;
using served::PeerSink;
using served::Work;

namespace {

constexpr int kEventsMax = kMaxProcesses;

}  // namespace

TcpTransport::TcpTransport(TcpConfig config)
    : ServedTransport(config, "tcp"), config_(std::move(config)), entrance_(config_) {
  for (ProcessId p = 0; p < processes_; ++p)
    peers_.push_back(std::make_unique<TcpPeer>(p, limits_, config_.send_queue_bytes, reply_bytes_max()));
}

// --- start and end ---

void TcpTransport::start() {
  std::vector<Socket> sockets = entrance_.take();
  for (const std::unique_ptr<Peer>& each : peers_) {
    Socket& socket = sockets[static_cast<std::size_t>(each->process)];
    if (!socket) continue;
    watch(socket.fd(), EPOLLIN, each->process);
    std::lock_guard lock(each->mutex);
    wire(*each).socket = std::move(socket);
    each->open = true;
  }
  begin();
}

TcpTransport::~TcpTransport() {
  if (end()) leave();  // D7
}

// Says goodbye behind what is still to be sent, then listens until the peer has hung up too: a connection that is closed with
// bytes unread is reset, and the goodbye could be lost with it. Nobody else uses the object any more.
void TcpTransport::leave() {
  FrameHeader goodbye;
  goodbye.kind = FrameKind::kLeave;
  goodbye.total = collective_calls();
  const std::int64_t start_ns = base::real_now_ns();
  std::uint64_t said = 0;
  std::uint64_t shut = 0;
  std::vector<pollfd> polled;
  while (true) {
    polled.clear();
    for (const std::unique_ptr<Peer>& each : peers_) {
      TcpPeer& to = wire(*each);
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
      if (drop_some(to.socket.fd()))
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
    if (each->open) ::shutdown(wire(*each).socket.fd(), SHUT_RDWR);
  }
}

bool TcpTransport::try_close(Peer& whom) {
  TcpPeer& it = wire(whom);
  if (it.sending) return false;
  if (it.socket) ::epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, it.socket.fd(), nullptr);  // a fork may hold it open
  it.socket.close();
  return true;
}

void TcpTransport::heartbeat(Peer& whom, std::int64_t now_ns, bool) {
  TcpPeer& to = wire(whom);
  FrameHeader beat;
  beat.kind = FrameKind::kHeartbeat;
  {
    std::lock_guard lock(to.mutex);
    const std::int64_t last_look_ns = std::exchange(to.last_look_ns, now_ns);
    if (std::exchange(to.has_sent, false)) to.last_sent_ns = last_look_ns;  // or later
    if (now_ns - to.last_sent_ns < config_.heartbeat_interval_ns || !to.queue.idle()) return;
    to.queue.push_reply(beat);
  }
  dirty_ |= bit_of(to.process);
}

// --- sending ---

void TcpTransport::pump(Peer& whom) {
  TcpPeer& to = wire(whom);
  std::unique_lock lock(to.mutex);
  if (to.sending || to.deaf || !to.socket) return;
  to.sending = true;
  bool full = false;
  int batches = 0;
  std::size_t bytes = 0;
  while (!full && to.queue.compose()) {
    if (batches++ == kBatchesPerSend || bytes >= kBytesPerSend) {
      full = true;  // epoll says at once that there is room
      break;
    }
    const std::span<iovec> batch = to.queue.batch();
    lock.unlock();
    const std::ptrdiff_t sent = send_some(to.socket.fd(), batch);  // E1, E2
    lock.lock();
    if (sent < 0) {
      to.deaf = true;
      break;
    }
    full = sent == 0;
    if (full) break;
    to.queue.advance(static_cast<std::size_t>(sent));
    bytes += static_cast<std::size_t>(sent);
    if (!to.queue.batch().empty()) to.queue.cut();
    to.has_sent = true;
  }
  if (full) to.queue.cut();
  to.sending = false;
  const bool some_ended = has_ended_some(to);
  if (full != to.wants_out.load(std::memory_order_relaxed)) set_wants_out(to, full);
  lock.unlock();
  batch_ended(some_ended);
}

void TcpTransport::set_wants_out(TcpPeer& to, bool wants) {
  to.wants_out.store(wants, std::memory_order_relaxed);  // under the mutex
  watch_room(to.socket.fd(), wants, to.process);
}

// --- receiving ---

Work TcpTransport::poll(std::int64_t now_ns) {
  Work work;
  if (processes_ == 1) return work;
  if (recent_ != nullptr && look_again(now_ns, &work)) return work;
  std::array<epoll_event, kEventsMax> events;
  const int count = ::epoll_wait(epoll_.fd(), events.data(), kEventsMax, 0);
  for (int i = 0; i < count; ++i) {
    const auto process = static_cast<ProcessId>(events[static_cast<std::size_t>(i)].data.u32);
    if (process == self_) {
      near_rang_ = true;
      continue;
    }
    TcpPeer& from = wire(peer(process));
    const std::uint32_t what = events[static_cast<std::size_t>(i)].events;
    if ((what & EPOLLOUT) != 0) pump(from);
    if ((what & ~std::uint32_t{EPOLLOUT}) != 0) {
      work += receive(from, now_ns, nullptr);
      recent_ = &from;
    }
    pump_dirty();
  }
  return work;
}

// Whoever has just sent is likely to send again: its socket is looked at without asking epoll. False: epoll's turn.
bool TcpTransport::look_again(std::int64_t now_ns, Work* work) {
  TcpPeer& from = *recent_;
  bool some = false;
  *work += receive(from, now_ns, &some);
  pump_dirty();
  misses_ = some ? 0 : misses_ + 1;
  if (misses_ > kMissesMax) recent_ = nullptr;
  const bool alone = processes_ == 2 && !from.wants_out.load(std::memory_order_relaxed);  // a hint
  return ++looks_ % (alone ? kLooksPerPollAlone : kLooksPerPoll) != 0 && (some || alone);
}

Work TcpTransport::receive(TcpPeer& from, std::int64_t now_ns, bool* some) {
  PeerSink sink(*this, from);
  bool arrived = false;
  if (from.socket && from.accused.load(std::memory_order_relaxed) == nullptr) {  // retire_accused() orders
    const Received received = receive_some(from.socket.fd(), from.receiver, sink);
    arrived = received.bytes != 0;
    if (arrived) from.last_heard_ns = now_ns;
    if (received.broken != nullptr) accuse(from, received.broken);
  }
  if (some != nullptr) *some = arrived;
  Work work = sink.work();
  work.served += arrived;  // data, too, of which the sink hears when all of it is there
  return work;
}

}  // namespace ayatori::net::tcp
