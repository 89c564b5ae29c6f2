// SPDX-License-Identifier: Apache-2.0
#include "net/tcp/mesh.hpp"

#include <poll.h>
#include <sodium.h>
#include <string.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"

namespace ayatori::net::tcp {
namespace {

constexpr std::int64_t kRetryNs = 20'000'000;
constexpr std::int64_t kRefusedNs = 1'000'000'000;  // its listener is gone for so long: the process is dead
constexpr std::int64_t kPollNsMax = 100'000'000;

// A connection on which the handshake is under way.
struct Line {
  Socket socket;
  std::optional<Handshake> handshake;
  std::int64_t begun_ns = 0;
};

// Moves bytes as far as they go. Null, or why the connection ended.
const char* advance(Line& line) {
  Handshake& handshake = *line.handshake;
  while (true) {
    const auto out = handshake.to_send();
    const auto in = handshake.to_receive();
    ssize_t moved = 0;
    if (!out.empty()) {
      moved = ::send(line.socket.fd(), out.data(), out.size(), MSG_NOSIGNAL);
      if (moved > 0) handshake.sent(static_cast<std::size_t>(moved));
    } else if (!in.empty()) {
      moved = ::recv(line.socket.fd(), in.data(), in.size(), 0);
      if (moved == 0) return "it hung up";
      if (moved > 0) handshake.received(static_cast<std::size_t>(moved));
    } else {
      return handshake.refusal();
    }
    if (moved < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN ? nullptr : strerrordesc_np(errno);
    }
  }
}

bool complete(const Line& line) {
  return line.handshake->state() == Handshake::State::kProved && line.handshake->to_send().empty();
}

class Mesh {
 public:
  Mesh(const TcpConfig& config, Socket listener)
      : config_(config),
        terms_(terms_of(config)),
        listener_(std::move(listener)),
        sockets_(static_cast<std::size_t>(config.processes)),
        calls_(static_cast<std::size_t>(config.processes)) {}

  base::Status run(std::vector<Socket>* sockets) {
    const std::int64_t start_ns = base::real_now_ns();
    while (missing() != 0) {
      const std::int64_t now_ns = base::real_now_ns();
      if (now_ns - start_ns >= config_.start_timeout_ns) break;
      for (ProcessId p = config_.self + 1; p < config_.processes; ++p) call(p, now_ns);
      drop_late_guests(now_ns);
      if (awaited() == 0) listener_.close();  // M4
      wait(std::min(kPollNsMax, config_.start_timeout_ns - (now_ns - start_ns)));
    }
    base::Status status = outcome(base::real_now_ns() - start_ns);
    *sockets = std::move(sockets_);
    return status;
  }

 private:
  struct Call {  // of a process above this one
    Line line;
    std::int64_t next_try_ns = 0;
    std::int64_t refused_since_ns = 0;  // 0: not refused last time
    const char* trouble = "it does not answer";
    bool given_up = false;
  };

  bool connected(ProcessId p) const { return static_cast<bool>(sockets_[static_cast<std::size_t>(p)]); }
  int count_missing(ProcessId from, ProcessId to) const {
    int missing = 0;
    for (ProcessId p = from; p < to; ++p) missing += !connected(p) && !calls_[static_cast<std::size_t>(p)].given_up;
    return missing;
  }
  int awaited() const { return count_missing(0, config_.self); }
  int missing() const { return awaited() + count_missing(config_.self + 1, config_.processes); }

  void call(ProcessId p, std::int64_t now_ns) {
    Call& call = calls_[static_cast<std::size_t>(p)];
    if (connected(p) || call.given_up || call.line.socket || now_ns < call.next_try_ns) return;
    call.line.handshake.emplace(Handshake::Role::kConnector, terms_, config_.secret, config_.self, p);
    call.line.begun_ns = now_ns;
    const int error = begin_connect(config_.addresses[static_cast<std::size_t>(p)], &call.line.socket);
    if (error != 0) call_failed(p, strerrordesc_np(error), error == ECONNREFUSED);
  }

  void call_failed(ProcessId p, const char* why, bool refused) {
    Call& call = calls_[static_cast<std::size_t>(p)];
    call.trouble = why;
    const std::int64_t now_ns = base::real_now_ns();
    call.line.socket.close();
    call.next_try_ns = now_ns + kRetryNs;
    if (!refused) call.refused_since_ns = 0;
    if (refused && call.refused_since_ns == 0) call.refused_since_ns = now_ns;
    if (call.refused_since_ns != 0 && now_ns - call.refused_since_ns >= kRefusedNs) call.given_up = true;
  }

  void on_call_ready(ProcessId p) {
    Call& call = calls_[static_cast<std::size_t>(p)];
    int error = 0;
    socklen_t bytes = sizeof error;
    ::getsockopt(call.line.socket.fd(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    const char* const why = error != 0 ? strerrordesc_np(error) : advance(call.line);
    if (why != nullptr) return call_failed(p, why, error == ECONNREFUSED);
    if (complete(call.line)) sockets_[static_cast<std::size_t>(p)] = std::move(call.line.socket);
  }

  void accept_guests() {
    while (true) {
      SocketAddress from;
      from.bytes = sizeof from.storage;
      Socket socket(::accept4(listener_.fd(), from.get(), &from.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) {
        if (errno == EMFILE || errno == ENFILE) {  // until descriptors are given back
          accept_after_ns_ = base::real_now_ns() + kRetryNs;
          drop_oldest_guest();
        }
        return;
      }
      if (guests_.size() == kGuestsMax) drop_oldest_guest();  // M2
      set_connection_options(socket.fd(), from);
      Line& guest = guests_.emplace_back();
      guest.socket = std::move(socket);
      guest.handshake.emplace(Handshake::Role::kAcceptor, terms_, config_.secret, config_.self, -1);
      guest.begun_ns = base::real_now_ns();
    }
  }

  void on_guest_ready(Line& guest) {
    if (const char* why = advance(guest)) return drop(guest, why);
    if (!complete(guest)) return;
    // It called again, so it has given up the connection that it had.
    sockets_[static_cast<std::size_t>(guest.handshake->peer())] = std::move(guest.socket);
  }

  void drop(Line& guest, const char* why) {
    if (dropped_++ == 0) {  // M3
      SocketAddress from;
      from.bytes = sizeof from.storage;
      ::getpeername(guest.socket.fd(), from.get(), &from.bytes);
      base::log_warn("tcp: dropped a connection from {}: {} (others like it are not reported)", address_text(from),
                     why);
    }
    guest.socket.close();
  }

  void drop_oldest_guest() {
    if (guests_.empty()) return;
    drop(guests_.front(), "it had not proved itself when others came");
    guests_.pop_front();
  }

  void drop_late_guests(std::int64_t now_ns) {
    while (!guests_.empty() && now_ns - guests_.front().begun_ns >= config_.handshake_timeout_ns) {
      drop(guests_.front(), "it did not prove itself in time");
      guests_.pop_front();
    }
  }

  static pollfd poll_for(const Line& line) {
    const bool writes = !line.handshake->to_send().empty();
    return {line.socket.fd(), static_cast<short>(writes ? POLLOUT : POLLIN), 0};
  }

  void wait(std::int64_t limit_ns) {
    polled_.clear();
    const bool accepts = base::real_now_ns() >= accept_after_ns_;
    polled_.push_back({accepts ? listener_.fd() : -1, POLLIN, 0});  // poll() passes over -1
    if (!accepts) limit_ns = std::min(limit_ns, kRetryNs);
    std::vector<ProcessId> callers;
    for (ProcessId p = config_.self + 1; p < config_.processes; ++p) {
      const Call& call = calls_[static_cast<std::size_t>(p)];
      if (!call.line.socket) {
        if (!connected(p) && !call.given_up) limit_ns = std::min(limit_ns, kRetryNs);
        continue;
      }
      callers.push_back(p);
      polled_.push_back(poll_for(call.line));
    }
    const std::size_t guests = guests_.size();
    for (const Line& guest : guests_) polled_.push_back(poll_for(guest));
    if (::poll(polled_.data(), polled_.size(), static_cast<int>(limit_ns / 1'000'000) + 1) <= 0) return;
    std::size_t at = 1;
    for (const ProcessId p : callers)
      if (polled_[at++].revents != 0) on_call_ready(p);
    for (std::size_t i = 0; i < guests; ++i)
      if (polled_[at++].revents != 0) on_guest_ready(guests_[i]);
    std::erase_if(guests_, [](const Line& guest) { return !guest.socket; });
    if (polled_[0].revents != 0) accept_guests();
  }

  base::Status outcome(std::int64_t took_ns) const {
    if (dropped_ > 1) base::log_debug("tcp: {} connections were dropped while the job started", dropped_);
    std::string lost;
    for (ProcessId p = 0; p < config_.processes; ++p) {
      if (p == config_.self || connected(p)) continue;
      const char* const why = p < config_.self ? "it did not call" : calls_[static_cast<std::size_t>(p)].trouble;
      const auto index = static_cast<std::size_t>(p);
      const std::string host = index < config_.hosts.size() ? " on host " + config_.hosts[index] : "";
      lost += base::formatted("{} {}{} at {} ({})", lost.empty() ? "" : ",", p, host,
                              address_text(config_.addresses[index]), why);
    }
    if (lost.empty()) return base::ok_status();
    return base::error_status(base::Code::kTimeout, "tcp: no connection after {} ms with process{}",
                              took_ns / base::kNsPerMs, lost);
  }

  const TcpConfig& config_;
  const JobTerms terms_;
  Socket listener_;
  std::vector<Socket> sockets_;
  std::vector<Call> calls_;
  std::deque<Line> guests_;  // in order of arrival
  std::uint64_t dropped_ = 0;
  std::int64_t accept_after_ns_ = 0;
  std::vector<pollfd> polled_;
};

}  // namespace

base::Status connect_mesh(const TcpConfig& config, Socket listener, std::vector<Socket>* sockets) {
  return Mesh(config, std::move(listener)).run(sockets);
}

Entrance::Entrance(TcpConfig& config) : config_(config), listener_(config.listener) {
  AYT_CHECK(config.addresses.size() == static_cast<std::size_t>(config.processes), "{} addresses for {} processes",
            config.addresses.size(), config.processes);
}

base::Status Entrance::connect() {
  base::Status status = connect_mesh(config_, std::move(listener_), &connected_);
  sodium_memzero(config_.secret.data(), config_.secret.size());
  return status;
}

std::vector<Socket> Entrance::take() {
  if (connected_.empty())
    if (const base::Status status = connect(); !status.ok()) base::log_error("{}", status.message());
  return std::exchange(connected_, {});
}

}  // namespace ayatori::net::tcp
