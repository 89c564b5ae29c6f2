// SPDX-License-Identifier: Apache-2.0
#include "sockets.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.hpp"

namespace ayatori::tool {
namespace {

constexpr int kBacklog = 128;  // a connection of each host

// False: it is no number of an address.
bool fill_address(const std::string& number, std::uint16_t port, sockaddr_storage* address, socklen_t* bytes) {
  *address = {};
  auto& v4 = *reinterpret_cast<sockaddr_in*>(address);
  auto& v6 = *reinterpret_cast<sockaddr_in6*>(address);
  if (inet_pton(AF_INET, number.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    *bytes = sizeof v4;
    return true;
  }
  if (inet_pton(AF_INET6, number.c_str(), &v6.sin6_addr) != 1) return false;
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  *bytes = sizeof v6;
  return true;
}

// Begins to connect; empty *why and a closed socket: done.
Fd begin(const Target& target, std::string* why) {
  sockaddr_storage address;
  socklen_t bytes = 0;
  if (!fill_address(target.address, target.port, &address, &bytes)) {
    *why = "'" + target.address + "' is no address";
    return {};
  }
  Fd fd(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd && connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return {};
  if (fd && errno == EINPROGRESS) return fd;
  *why = error_text(errno);
  return {};
}

std::string outcome(int fd) {
  int error = 0;
  socklen_t bytes = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  return error == 0 ? "" : error_text(error);
}

}  // namespace

base::Status listen_at(const std::string& address, Fd* listener, std::uint16_t* port) {
  sockaddr_storage at;
  socklen_t bytes = 0;
  if (!fill_address(address, 0, &at, &bytes))
    return base::error_status(base::Code::kInvalid, "'{}' is no address", address);
  Fd fd(socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), bytes) != 0 || listen(fd.get(), kBacklog) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &bytes) != 0)
    return base::system_status(errno, "cannot listen at " + address);
  *port = ntohs(at.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(at).sin_port
                                        : reinterpret_cast<const sockaddr_in6&>(at).sin6_port);
  *listener = std::move(fd);
  return base::ok_status();
}

std::vector<std::string> try_to_connect(const std::vector<Target>& targets, std::int64_t timeout_ns) {
  std::vector<std::string> whys(targets.size());
  std::vector<Fd> fds;
  for (std::size_t i = 0; i < targets.size(); ++i) fds.push_back(begin(targets[i], &whys[i]));
  const std::int64_t deadline_ns = base::real_now_ns() + timeout_ns;
  std::vector<pollfd> polls;
  for (const Fd& fd : fds) polls.push_back({fd.get(), POLLOUT, 0});
  const auto waits = [&polls] {
    return std::any_of(polls.begin(), polls.end(), [](const pollfd& each) { return each.fd >= 0; });
  };
  while (waits()) {
    const std::int64_t left_ns = deadline_ns - base::real_now_ns();
    if (left_ns <= 0) break;
    if (poll(polls.data(), polls.size(), static_cast<int>(left_ns / base::kNsPerMs) + 1) <= 0) continue;
    for (std::size_t i = 0; i < polls.size(); ++i) {
      if (polls[i].fd < 0 || polls[i].revents == 0) continue;
      whys[i] = outcome(polls[i].fd);
      polls[i].fd = -1;
    }
  }
  for (std::size_t i = 0; i < polls.size(); ++i)
    if (polls[i].fd >= 0) whys[i] = base::formatted("no answer within {} s", timeout_ns / base::kNsPerSecond);
  return whys;
}

}  // namespace ayatori::tool
