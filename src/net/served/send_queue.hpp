// SPDX-License-Identifier: Apache-2.0
// What waits to be sent on one connection, without the connection: frames of three lanes in, iovecs out. Guarded by the
// peer's mutex (peer.hpp), but for the bytes behind batch(): those do not move until advance() used them up, so the mutex
// is not held while they are sent.
//
// Q1. Lanes: replies (acknowledgements, answers, heartbeats), requests (bounded), bulk (data longer than inline_bytes_max). A
//     batch takes all replies and requests there are and segments of bulk, in this order, in which several long transfers take
//     turns. It ends behind the last segment of a transfer, for which somebody waits. Once the connection takes no more, cut()
//     takes back the segments that have not begun: what is short waits for what the connection has and one segment at most.
// Q2. Replies always have room (transport.hpp N6): the peer bounds them, it has requests_max requests under way at most.
// Q3. Requests leave in the order of push_request(); data behind the request that announced it, because that left with the
//     same batch or before.
// Q4. fence(): what is pushed later enters the lanes only when the bulk requests that were pushed before are over: data
//     handed to the connection (which is a FIFO), reads completed, and so writes whose data goes by another
//     queue (Peer::long_queue), which counts none. Replies do not wait for fences: two processes' fences could wait for
//     each other.
// Q5. Bulk data is sent from where it lies if that is one piece; else a segment of it is gathered.
// Q6. Messages that are over when their data was handed to the connection are noted then, for whoever completes them.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "net/served/frame.hpp"
#include "net/served/walk.hpp"

namespace ayatori::net::served {

// Bytes that grow at the end, without being zeroed first.
class ByteBuffer {
 public:
  std::byte* extend(std::size_t bytes);  // where the new bytes are to be written
  std::byte* data() const noexcept { return bytes_.get(); }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  void clear() noexcept { size_ = 0; }  // keeps its room

 private:
  static constexpr std::size_t kBytesMin = 4096;
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
  std::size_t room_ = 0;
};

// A long transfer to the peer: the data of a write of this process, or of a read of the peer.
struct Bulk {
  Way way{};
  std::uint32_t slot = 0;
  std::uint64_t serial = 0;
  std::uint64_t sent = 0;
  Walk data;
  bool told_to_go = false;  // its request has long left
  bool is_message = false;  // one that is over when its data, one segment, has left (Q6)
};

struct HandedOver {
  std::uint32_t slot;
  std::uint64_t serial;
};

class SendQueue {
 public:
  static constexpr std::size_t kSegmentsMax = 8;                  // of a batch
  static constexpr std::size_t kPartsMax = 2 + 3 * kSegmentsMax;  // of a batch
  static constexpr std::size_t kPartsOfOneSegmentMax = kPartsMax - 3 * (kSegmentsMax - 1);

  // request_bytes_max: of the requests that wait; the longest frame always fits into an empty lane. segment_bytes_max:
  // kSegmentBytesMax at most. segments_max: in one batch.
  SendQueue(std::size_t request_bytes_max, std::size_t reply_bytes_max,
            std::uint32_t segment_bytes_max = kSegmentBytesMax, std::size_t segments_max = kSegmentsMax)
      : request_bytes_max_(request_bytes_max),
        reply_bytes_max_(reply_bytes_max),
        segment_bytes_max_(segment_bytes_max),
        segments_max_(segments_max) {}

  // Room for a frame with that body, header copied; the caller writes the body behind it before it releases the mutex.
  // nullptr: no room. `is_bulk`: counts for fences until end_bulk() or its data left (Q4).
  std::byte* push_request(const FrameHeader& header, bool is_bulk);
  // nullptr: the peer has asked for more than it may (Q2).
  std::byte* push_reply(const FrameHeader& header);
  void push_bulk(Bulk&& bulk);  // of a request that was pushed as bulk, or (kToOrigin) of a request of the peer
  void end_bulk();              // a bulk request completed without handing data over: a read, or a refused write
  void fence();

  // Whether data of this write waits to be sent, and whether the batch holds some: its memory is in use.
  bool waits_bulk(std::uint32_t slot) const noexcept;
  bool batch_holds(std::uint32_t slot) const noexcept;
  std::size_t bulk_to_origin() const noexcept { return bulk_to_origin_; }  // of which something is in no batch
  const std::vector<HandedOver>& handed_over() const noexcept { return handed_over_; }  // Q6
  bool take_handed_over(std::uint64_t serial);                                          // false: it is not there
  void take_handed_over(std::vector<HandedOver>* taken) noexcept { taken->swap(handed_over_); }

  std::uint32_t segment_bytes() const noexcept { return segment_bytes_max_; }
  bool idle() const noexcept;  // nothing waits and nothing is under way

  bool compose();  // makes the next batch unless one is under way; false: nothing to send
  std::span<iovec> batch() noexcept { return {parts_.data() + first_part_, parts_count_ - first_part_}; }
  void advance(std::size_t bytes);  // that many bytes of the batch were sent
  void cut();                       // the connection takes nothing more for now: Q1
  void clear();                     // the connection is gone

 private:
  static constexpr std::size_t kGatheredBytesMax = 64 * 1024;
  struct Epoch {  // what waits behind one fence
    ByteBuffer requests;
    std::deque<Bulk> bulk;
    std::uint64_t bulk_requests = 0;
  };

  struct InBatch {  // a transfer of which the batch has segments, or had
    Bulk bulk;
    std::uint64_t composed = 0;  // of bulk.data; is skipped when the batch is over
  };
  struct Segment {
    FrameHeader header;
    std::size_t of = 0;  // in_batch_
    std::size_t first_part = 0;
  };

  void compose_segments();
  void compose_segment(std::size_t of);
  std::size_t next_in_batch() const noexcept;
  void settle();
  static bool is_its(const Bulk& bulk, std::uint32_t slot) noexcept {
    return bulk.way == Way::kToTarget && bulk.slot == slot;
  }
  void add_part(const void* data, std::size_t bytes) noexcept;
  void open_epochs();

  const std::size_t request_bytes_max_;
  const std::size_t reply_bytes_max_;
  const std::uint32_t segment_bytes_max_;
  const std::size_t segments_max_;

  ByteBuffer replies_;
  ByteBuffer requests_;
  std::deque<Bulk> bulk_;
  std::size_t bulk_to_origin_ = 0;
  std::uint64_t bulk_requests_ = 0;  // of this process, under way, not behind a fence
  std::vector<HandedOver> handed_over_;
  std::deque<Epoch> held_;
  std::size_t held_bytes_ = 0;

  // The batch.
  ByteBuffer sent_replies_;
  ByteBuffer sent_requests_;
  std::vector<InBatch> in_batch_;
  std::array<Segment, kSegmentsMax> segments_;
  std::size_t segments_count_ = 0;
  ByteBuffer gathered_;  // then of its only segment
  std::array<iovec, kPartsMax> parts_{};
  std::size_t first_part_ = 0;
  std::size_t parts_count_ = 0;
};

}  // namespace ayatori::net::served
