// SPDX-License-Identifier: Apache-2.0
// What a process must be told to take part in a job over tcp: plain data. Addresses and the secret are made before, by
// whoever starts the processes, and reach them by a channel of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "net/served/config.hpp"
#include "net/tcp/handshake.hpp"
#include "net/tcp/socket.hpp"

namespace ayatori::net::tcp {

struct TcpConfig : served::ServedConfig {
  int listener = -1;  // of this process, listen_on()'s; the transport owns it from its construction on
  std::vector<SocketAddress> addresses;  // of every process' listener
  std::vector<std::string> hosts;        // of every process, for messages; may be empty
  Secret secret{};
  std::uint64_t job = 0;  // any number; tells jobs apart that share a secret

  std::int64_t start_timeout_ns = 30'000'000'000;     // then whoever did not connect is failed
  std::int64_t handshake_timeout_ns = 2'000'000'000;  // of a connection that has been accepted and not proved itself
};

inline JobTerms terms_of(const TcpConfig& config) noexcept {
  return {config.job, config.processes, served::limits_of(config)};
}

}  // namespace ayatori::net::tcp
