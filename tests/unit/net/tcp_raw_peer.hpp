// SPDX-License-Identifier: Apache-2.0
// Sockets by hand, for tests: strangers that knock at a job's listeners, and a peer that knows the secret and then sends what it
// likes. Everything blocks, for kRawLimitMs at most.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <vector>

#include "net/served/frame.hpp"
#include "net/tcp/handshake.hpp"
#include "net/tcp/socket.hpp"

namespace ayatori::net::testing {

inline constexpr int kRawLimitMs = 20'000;
using RawBytes = std::vector<std::byte>;

inline bool raw_ready(const tcp::Socket& socket, short events) {
  pollfd polled{socket.fd(), events, 0};
  return poll(&polled, 1, kRawLimitMs) == 1;
}

inline tcp::Socket raw_connect(const tcp::SocketAddress& to) {
  tcp::Socket socket;
  if (tcp::begin_connect(to, &socket) != 0 || !raw_ready(socket, POLLOUT)) return {};
  int error = 0;
  socklen_t bytes = sizeof error;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  if (error != 0) socket.close();
  return socket;
}

inline void raw_send(const tcp::Socket& socket, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes != 0 && raw_ready(socket, POLLOUT)) {
    const ssize_t sent = send(socket.fd(), from, bytes, MSG_NOSIGNAL);
    if (sent < 0) return;  // the other side has hung up
    from += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}
inline void raw_send(const tcp::Socket& socket, const RawBytes& bytes) { raw_send(socket, bytes.data(), bytes.size()); }

// Up to `bytes`; fewer: the other side hung up.
inline RawBytes raw_receive(const tcp::Socket& socket, std::size_t bytes) {
  RawBytes got(bytes);
  std::size_t have = 0;
  while (have < bytes) {
    EXPECT_TRUE(raw_ready(socket, POLLIN)) << "nothing came, and nobody hung up";
    const ssize_t more = recv(socket.fd(), got.data() + have, bytes - have, 0);
    if (more <= 0) break;
    have += static_cast<std::size_t>(more);
  }
  got.resize(have);
  return got;
}

// Carries the handshake through; whether the other side proved itself.
inline bool raw_handshake(const tcp::Socket& socket, tcp::Handshake& handshake) {
  while (true) {
    const auto out = handshake.to_send();
    const auto in = handshake.to_receive();
    if (!out.empty()) {
      raw_send(socket, out.data(), out.size());
      handshake.sent(out.size());
    } else if (!in.empty()) {
      const RawBytes got = raw_receive(socket, in.size());
      if (got.size() < in.size()) return false;
      std::memcpy(in.data(), got.data(), got.size());
      handshake.received(got.size());
    } else {
      return handshake.state() == tcp::Handshake::State::kProved;
    }
  }
}

// The header of the next frame that is no heartbeat, which a slow machine may see first; of kind 0 when the other side hung up.
inline served::FrameHeader raw_header(const tcp::Socket& socket) {
  served::FrameHeader header{};
  do {
    const RawBytes got = raw_receive(socket, served::kHeaderBytes);
    EXPECT_EQ(got.size(), served::kHeaderBytes);
    if (got.size() != served::kHeaderBytes) return {};
    std::memcpy(&header, got.data(), sizeof header);
  } while (header.kind == served::FrameKind::kHeartbeat);
  return header;
}

inline void raw_frame(const tcp::Socket& socket, served::FrameHeader header, const RawBytes& body = {}) {
  header.body_bytes = static_cast<std::uint32_t>(body.size());
  RawBytes bytes(served::frame_bytes(body.size()));
  std::memcpy(bytes.data(), &header, served::kHeaderBytes);
  if (!body.empty()) std::memcpy(bytes.data() + served::kHeaderBytes, body.data(), body.size());
  raw_send(socket, bytes);
}

}  // namespace ayatori::net::testing
