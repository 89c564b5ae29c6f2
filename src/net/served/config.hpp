// SPDX-License-Identifier: Apache-2.0
// What every served transport is told: plain data. Each adds what its wire needs.
#pragma once

#include <cstddef>
#include <cstdint>

#include <ayatori/net/types.hpp>
#include "net/served/frame.hpp"

namespace ayatori::net::shm {
class ShmWorld;
}

namespace ayatori::net::served {

struct ServedConfig {
  ProcessId self = 0;
  int processes = 1;

  // Equal in all processes.
  std::size_t payload_bytes_max = 4096;      // of one message, <= kPayloadBytesLimit
  std::size_t inline_bytes_max = 16 * 1024;  // longer reads and writes are bulk (send_queue.hpp), >= kWholeWordBytesMax
  std::uint32_t requests_max = 256;          // reads, writes, atomics and RPCs under way, <= kRequestsLimit

  std::size_t send_queue_bytes = 256 * 1024;  // of requests that wait, per peer; one always fits
  std::size_t nested_completions_max = 64;    // completions that one completion may cause before try_* says "no room"
  std::int64_t heartbeat_interval_ns = 1'000'000'000;
  std::int64_t heartbeat_timeout_ns = 10'000'000'000;  // of silence, then a peer is failed
  bool progress_thread = true;
  bool tells_failures = true;  // a line in the log for each peer that failed; not where somebody else tells of it

  std::uint64_t machine = 0;       // bit: a process of this one's machine
  shm::ShmWorld* world = nullptr;  // shared with some of those (shm/world.hpp W7); lives longer than the transport
};

inline constexpr std::size_t kPayloadBytesLimit = 1024 * 1024;
inline constexpr std::uint32_t kRequestsLimit = 4096;

inline FrameLimits limits_of(const ServedConfig& config) noexcept {
  return {static_cast<std::uint32_t>(config.payload_bytes_max), static_cast<std::uint32_t>(config.inline_bytes_max),
          config.requests_max};
}

}  // namespace ayatori::net::served
