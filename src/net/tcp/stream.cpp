// SPDX-License-Identifier: Apache-2.0
#include "net/tcp/stream.hpp"

#include <string.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "base/check.hpp"

namespace ayatori::net::tcp {
namespace {

constexpr int kReceivesPerTurn = 8;  // of one peer, then the next one's turn

}  // namespace

std::ptrdiff_t send_some(int socket, std::span<iovec> parts) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  while (true) {
    const ssize_t sent = parts.size() == 1 ? ::send(socket, parts[0].iov_base, parts[0].iov_len, kFlags)
                                           : ::sendmsg(socket, &message, kFlags);
    if (sent >= 0) return sent;
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return 0;
    AYT_CHECK(errno != EFAULT, "memory of a request or a region cannot be read");
    return -1;
  }
}

Received receive_some(int socket, Receiver& receiver, FrameSink& sink) {
  Received received;
  for (int turn = 0; turn < kReceivesPerTurn; ++turn) {
    std::size_t room = 0;
    const std::span<iovec> places = receiver.room(&room);
    const ssize_t got = places.size() == 1 ? ::recv(socket, places[0].iov_base, places[0].iov_len, MSG_DONTWAIT)
                                           : ::readv(socket, places.data(), static_cast<int>(places.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      AYT_CHECK(got == 0 || errno != EFAULT, "memory of a request or a region cannot be written");
      if (got == 0)
        received.broken = "its connection was closed";
      else if (errno != EAGAIN)
        received.broken = strerrordesc_np(errno);
      break;
    }
    received.bytes += static_cast<std::size_t>(got);
    if (!receiver.received(static_cast<std::size_t>(got), sink)) break;
    if (static_cast<std::size_t>(got) < room) break;
  }
  return received;
}

bool drop_some(int socket) {
  std::array<std::byte, 64 * 1024> dropped;
  for (int turn = 0; turn < kReceivesPerTurn; ++turn) {
    const ssize_t got = ::recv(socket, dropped.data(), dropped.size(), MSG_DONTWAIT);
    if (got <= 0) return got == 0 || (errno != EAGAIN && errno != EINTR);
  }
  return false;
}

}  // namespace ayatori::net::tcp
