// SPDX-License-Identifier: Apache-2.0
#include "net/tcp/socket.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ayatori::net::tcp {
namespace {

constexpr int kUnsentBytesMax = 512 * 1024;  // in the kernel, of one connection

bool parse_address(const std::string& host, std::uint16_t port, SocketAddress* address, bool* any) {
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address->storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address->storage);
  address->storage = {};
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address->bytes = sizeof *v4;
    *any = v4->sin_addr.s_addr == htonl(INADDR_ANY);
    return true;
  }
  if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address->bytes = sizeof *v6;
    *any = IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
    return true;
  }
  return false;
}

bool is_loopback(const SocketAddress& address) noexcept {
  if (address.storage.ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  return address.storage.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr);
}

// Within a machine nothing is congested, and BBR, where it is the default, paces by timers: 64 KiB may take 33 us, not 9. It
// begins with the connection and leaves its timers behind; a listener hands on what it has.
void never_pace(int fd) noexcept { ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4); }

bool is_within_machine(int fd, const SocketAddress& peer) noexcept {
  SocketAddress own;
  own.bytes = sizeof own.storage;
  return ::getsockname(fd, own.get(), &own.bytes) == 0 && is_same_host(*own.get(), *peer.get());
}

}  // namespace

bool is_same_host(const sockaddr& one, const sockaddr& other) noexcept {
  if (one.sa_family != other.sa_family) return false;
  if (one.sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(one).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(other).sin_addr.s_addr;
  return one.sa_family == AF_INET6 && IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6&>(one).sin6_addr,
                                                         &reinterpret_cast<const sockaddr_in6&>(other).sin6_addr);
}

std::string address_text(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return base::formatted("{}:{}", text, ntohs(v4.sin_port));
  }
  if (address.storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    return base::formatted("[{}]:{}", text, ntohs(v6.sin6_port));
  }
  return "an unknown address";
}

base::Status listen_on(const std::string& host, std::uint16_t port, Socket* listener, SocketAddress* address) {
  bool any = false;
  if (!parse_address(host, port, address, &any))
    return error_status(base::Code::kInvalid, "tcp: '{}' is not the number of an address (like 127.0.0.1 or ::1)",
                        host);
  if (any)
    return error_status(base::Code::kInvalid,
                        "tcp: '{}' would listen on every interface; name the address of one of them", host);
  Socket made(::socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made) return base::system_status(errno, "tcp: no socket");
  if (is_loopback(*address)) never_pace(made.fd());
  if (::bind(made.fd(), address->get(), address->bytes) != 0 || ::listen(made.fd(), SOMAXCONN) != 0)
    return base::system_status(errno, "tcp: cannot listen on " + address_text(*address));
  address->bytes = sizeof address->storage;
  if (::getsockname(made.fd(), address->get(), &address->bytes) != 0)
    return base::system_status(errno, "tcp: address of a listening socket");
  *listener = std::move(made);
  return base::ok_status();
}

int begin_connect(const SocketAddress& to, Socket* socket) {
  *socket = Socket(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!*socket) return errno;
  if (is_loopback(to)) never_pace(socket->fd());
  if (::connect(socket->fd(), to.get(), to.bytes) == 0 || errno == EINPROGRESS) {
    set_connection_options(socket->fd(), to);
    return 0;
  }
  const int error = errno;
  socket->close();
  return error;
}

// An option that the kernel does not know costs speed, nothing else.
void set_connection_options(int fd, const SocketAddress& peer) noexcept {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytesMax, sizeof kUnsentBytesMax);
  if (is_within_machine(fd, peer)) never_pace(fd);
}

}  // namespace ayatori::net::tcp
