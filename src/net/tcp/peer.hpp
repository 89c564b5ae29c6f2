// SPDX-License-Identifier: Apache-2.0
// One connection of a TcpTransport, or the transport's way to itself.
//
// E1. Whoever sends has set `sending` under the mutex and sends the batch outside it; frames that are pushed meanwhile go
//     with its next batch. So one thread at a time sends, nobody waits for it, and what comes together leaves together.
// E2. The connection is closed by the thread that polls, when nobody sends: until then the memory of its bulk data is used.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include <ayatori/net/types.hpp>
#include "net/tcp/receiver.hpp"
#include "net/tcp/send_queue.hpp"
#include "net/tcp/socket.hpp"

namespace ayatori::net::tcp {

// In sets of processes.
constexpr std::uint64_t bit_of(ProcessId process) noexcept { return std::uint64_t{1} << process; }

enum class Standing : std::uint32_t { kMember, kLeft, kFailed };

// What one look at the sockets did.
struct Work {
  std::size_t ran = 0;     // handlers and completions: who sleeps may have waited for them
  std::size_t served = 0;  // requests of peers and data: more may follow soon

  Work& operator+=(const Work& other) noexcept {
    ran += other.ran;
    served += other.served;
    return *this;
  }
};

// A long write of the peer that is arriving.
struct OpenWrite {
  std::uint64_t serial = 0;  // 0: none in this slot
  std::uint64_t total = 0;
  std::uint64_t received = 0;
  Outcome outcome = Outcome::kOk;  // otherwise the data is dropped
  Walk place;
};

struct Peer {
  Peer(ProcessId number, const FrameLimits& limits, std::size_t request_bytes, std::size_t reply_bytes)
      : process(number), queue(request_bytes, reply_bytes), receiver(limits), open_writes(limits.requests_max) {}

  const ProcessId process;
  std::atomic<Standing> standing{Standing::kMember};  // moves once, under the mutex
  std::atomic<const char*> accused{nullptr};          // why it is to be failed, by any thread (TcpTransport::accuse)

  std::mutex mutex;
  // Guarded by mutex.
  Socket socket;  // none: gone, or the process itself
  SendQueue queue;
  bool sending = false;
  bool wants_out = false;  // epoll tells when there is room again
  bool ack_waits = false;  // in late_acks, for the end of the batch
  bool deaf = false;       // it takes no more; that it is gone shows when we receive
  std::int64_t last_sent_ns = 0;

  // The polling thread only.
  Receiver receiver;
  std::int64_t last_heard_ns = 0;
  bool left = false;                   // in good order
  std::uint64_t collective_calls = 0;  // valid when it left
  std::vector<OpenWrite> open_writes;  // by slot
  std::vector<FrameHeader> late_acks;  // of writes whose last data may not be out yet (transport.hpp D5)
};

}  // namespace ayatori::net::tcp
