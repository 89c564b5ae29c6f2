// SPDX-License-Identifier: Apache-2.0
// Another process as a served transport sees it, or the transport's way to itself. Each wire adds what it needs to reach it.
//
// E1. One thread at a time sends: what is pushed meanwhile goes with the next batch, so nobody waits for it, and what comes
//     together leaves together.
// E2. The wire is closed by the thread that polls, when no batch is under way: until then the memory of its bulk data is used.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <ayatori/net/types.hpp>
#include "net/process_set.hpp"
#include "net/served/send_queue.hpp"
#include "net/served/walk.hpp"

namespace ayatori::net::served {

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

// Where a message of a peer is put together.
struct Room {
  std::unique_ptr<std::byte[]> bytes;
  std::size_t size = 0;
};

// A long write or message of the peer that is arriving.
struct OpenWrite {
  std::uint64_t serial = 0;  // 0: none in this slot
  std::uint64_t total = 0;
  std::uint64_t received = 0;
  bool arriving = false;           // a kData of it has begun and not ended
  Outcome outcome = Outcome::kOk;  // otherwise the data is dropped
  Walk place;

  // Of a message (rooms.cpp).
  bool is_message = false;
  bool asked = false;    // for room, before it sends data
  bool granted = false;  // and has it
  HandlerId handler = 0;
  Room room;
};

struct Peer {
  Peer(ProcessId number, const FrameLimits& limits, std::size_t request_bytes, std::size_t reply_bytes,
       std::uint32_t segment_bytes, std::size_t segments_max)
      : process(number),
        queue(request_bytes, reply_bytes, segment_bytes, segments_max),
        open_writes(limits.requests_max) {}
  virtual ~Peer() = default;
  bool has_long_way() const noexcept { return long_queue != &queue; }
  bool idle() const noexcept { return queue.idle() && long_queue->idle(); }  // under the mutex

  const ProcessId process;
  std::atomic<Standing> standing{Standing::kMember};  // moves once, under the mutex
  std::atomic<const char*> accused{nullptr};          // why it is to be failed, by any thread (ServedTransport::accuse)

  std::mutex mutex;
  // Guarded by mutex.
  bool open = false;  // the wire reaches it; changed by the thread that polls
  SendQueue queue;
  // Of data of transfers longer than a segment of `queue`. The wire may have a way of its own for it, and only the thread
  // that polls sends there; set before begin().
  SendQueue* long_queue = &queue;
  bool ack_waits = false;  // in late_acks, for the end of the batch

  // The polling thread only.
  std::int64_t last_heard_ns = 0;
  bool left = false;                   // in good order
  std::uint64_t collective_calls = 0;  // valid when it left
  std::vector<OpenWrite> open_writes;  // by slot
  bool data_came = false;              // or room was granted, since look_at_rooms()
  std::int64_t last_data_ns = 0;       // when that looked; a little later than it came
  std::vector<FrameHeader> late_acks;  // of writes whose last data may not be out yet (transport.hpp D5)
};

}  // namespace ayatori::net::served
