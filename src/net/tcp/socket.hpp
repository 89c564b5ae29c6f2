// SPDX-License-Identifier: Apache-2.0
// Sockets of the tcp transport: addresses as plain data, listening sockets, the options of connections. Any thread.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "net/served/descriptor.hpp"

namespace ayatori::net::tcp {

struct SocketAddress {  // plain data: the bootstrap may hand it to other processes as it is
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};
bool is_same_host(const sockaddr& one, const sockaddr& other) noexcept;  // whatever their ports
std::string address_text(const SocketAddress& address);                  // "127.0.0.1:4711", "[::1]:4711"

using Socket = served::Descriptor;

inline constexpr const char* kLoopback = "127.0.0.1";

// A socket that listens on one interface: `host` is the number of one of this machine's addresses (IPv4 or IPv6), never
// "all of them"; `port` 0: any free one. `address` is what peers connect to.
base::Status listen_on(const std::string& host, std::uint16_t port, Socket* listener, SocketAddress* address);

// Begins to connect without blocking; 0, or errno of a failure (EINPROGRESS is none).
int begin_connect(const SocketAddress& to, Socket* socket);
// What a connection of the transport is set to, once it knows its own address: no delay, and little unsent in the kernel, so
// that short frames need not wait behind megabytes there (send_queue.hpp Q1); no pacing within the machine.
void set_connection_options(int fd, const SocketAddress& peer) noexcept;

}  // namespace ayatori::net::tcp
