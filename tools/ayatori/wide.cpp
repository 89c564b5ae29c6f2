// SPDX-License-Identifier: Apache-2.0
#include "wide.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace ayatori::tool {

namespace {
constexpr std::size_t kMessageBytesMax = 16 * 1024;
}

bool Uplink::send(FrameKind kind, std::string_view body) const {
  std::string message(reinterpret_cast<const char*>(&kind), sizeof kind);
  message += body.substr(0, kMessageBytesMax - sizeof kind);
  return ::send(socket_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

bool Uplink::receive(FrameKind* kind, std::string* body) {
  std::array<char, kMessageBytesMax> room;
  ssize_t bytes = 0;
  do {
    bytes = ::recv(socket_.get(), room.data(), room.size(), MSG_DONTWAIT);
  } while (bytes < 0 && errno == EINTR);
  if (bytes == 0 || (bytes < 0 && errno != EAGAIN)) ended_ = true;
  if (bytes < static_cast<ssize_t>(sizeof *kind)) return false;
  std::memcpy(kind, room.data(), sizeof *kind);
  body->assign(room.data() + sizeof *kind, static_cast<std::size_t>(bytes) - sizeof *kind);
  return true;
}

bool open_uplink(Uplink& launcher, Uplink& agent) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
  launcher = Uplink(above_standard(ends[0]));
  agent = Uplink(above_standard(ends[1]));
  return launcher.fd() >= 0 && agent.fd() >= 0;
}

}  // namespace ayatori::tool
