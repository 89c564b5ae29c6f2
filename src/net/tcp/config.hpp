// SPDX-License-Identifier: Apache-2.0
// What a process must be told to take part in a job over tcp: plain data. Addresses and the secret are made before, by
// whoever starts the processes, and reach them by a channel of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <ayatori/net/types.hpp>
#include "net/tcp/handshake.hpp"
#include "net/tcp/socket.hpp"

namespace ayatori::net::tcp {

struct TcpConfig {
  ProcessId self = 0;
  int processes = 1;
  int listener = -1;  // of this process, listen_on()'s; the transport owns it from its construction on
  std::vector<SocketAddress> addresses;  // of every process' listener
  std::vector<std::string> hosts;        // of every process, for messages; may be empty
  Secret secret{};
  std::uint64_t job = 0;  // any number; tells jobs apart that share a secret

  // Equal in all processes.
  std::size_t payload_bytes_max = 4096;      // of one message, <= kPayloadBytesLimit
  std::size_t inline_bytes_max = 16 * 1024;  // longer reads and writes are bulk (send_queue.hpp), >= kWholeWordBytesMax
  std::uint32_t requests_max = 256;          // reads, writes, atomics and RPCs under way, <= kRequestsLimit

  std::size_t send_queue_bytes = 256 * 1024;  // of requests that wait, per peer; one always fits
  std::size_t nested_completions_max = 64;    // completions that one completion may cause before try_* says "no room"
  std::int64_t start_timeout_ns = 30'000'000'000;     // then whoever did not connect is failed
  std::int64_t handshake_timeout_ns = 2'000'000'000;  // of a connection that has been accepted and not proved itself
  std::int64_t heartbeat_interval_ns = 1'000'000'000;
  std::int64_t heartbeat_timeout_ns = 10'000'000'000;  // of silence, then a peer is failed
  bool progress_thread = true;
};

inline constexpr std::size_t kPayloadBytesLimit = 1024 * 1024;
inline constexpr std::uint32_t kRequestsLimit = 4096;

inline JobTerms terms_of(const TcpConfig& config) noexcept {
  return {config.job,
          config.processes,
          {static_cast<std::uint32_t>(config.payload_bytes_max), static_cast<std::uint32_t>(config.inline_bytes_max),
           config.requests_max}};
}

}  // namespace ayatori::net::tcp
