// SPDX-License-Identifier: Apache-2.0
// What arrives from one peer over UCX, without UCX: whole batches of frames, each behind a header that says whose it is and
// which. UCX knows no secret: anybody who reaches its sockets can send a message that looks like a peer's. Used by the thread
// that polls.
//
// B1. A batch names its sender and carries the token that this process gave that sender over the connection that had proved
//     the job's secret. One without it is nobody's and dropped; nobody is blamed.
// B2. UCX promises no order. Batches are numbered and served in order; what comes early is kept, kEarlyMax batches and
//     kEarlyBytesMax bytes at most.
//     A greeting (transport.hpp U5) is no batch and has no number.
// B3. A batch consists of whole frames, the data of a kData included. It may be cut between two of them, or before the data of
//     its last, which then comes without its padding. Bodies are handed on 8-aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <ayatori/net/types.hpp>
#include "net/served/sink.hpp"

namespace ayatori::net::ucx {

struct BatchHeader {
  std::uint64_t token = 0;
  std::uint64_t number = 0;  // of the sender's batches to this process, from 0
  std::uint32_t from = 0;
  std::uint32_t greets = 0;  // not 0: a greeting
};
static_assert(sizeof(BatchHeader) == 24);

// The header that a message begins with; what follows it is the batch. False: that is none.
bool parse_batch_header(std::span<const std::byte> message, int processes, BatchHeader* header);

// What follows the header: `head`, then `rest` (B3).
struct BatchBody {
  std::span<const std::byte> head;
  std::span<const std::byte> rest{};
};

class Inbox {
 public:
  static constexpr std::size_t kEarlyMax = 64;
  static constexpr std::size_t kEarlyBytesMax = 16 * 1024 * 1024;

  explicit Inbox(const served::FrameLimits& limits);

  // Serves the batch, or keeps it for its turn. False: it makes no sense, the sink was told.
  bool take(std::uint64_t number, const BatchBody& body, served::FrameSink& sink);
  std::uint64_t taken() const noexcept { return next_; }  // batches that were served
  void clear();                                           // the peer is gone

 private:
  struct Early {
    std::vector<std::byte> bytes;
    std::size_t head_bytes;
    BatchBody body() const { return {std::span(bytes).first(head_bytes), std::span(bytes).subspan(head_bytes)}; }
  };
  bool serve(const BatchBody& body, served::FrameSink& sink);

  const served::FrameLimits limits_;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, Early> early_;
  std::size_t early_bytes_ = 0;
  std::vector<std::uint64_t> aligned_;  // B3
};

}  // namespace ayatori::net::ucx
