// SPDX-License-Identifier: Apache-2.0
// The connection between two processes of a ucx job that has proved the job's secret (net/tcp/mesh.hpp). Over it they tell
// each other where their UCX is reached, that they live, and that they leave; that one died shows when it breaks.
//
// C1. First each side sends a card: its UCX address and a token that what the other sends over UCX shall carry (inbox.hpp B1).
// C2. Then frames without bodies, kHeartbeat and kLeave, and kData where C4 holds; nothing else makes sense.
// C3. kLeave says how many batches this process has sent the other over UCX (serial): the other waits for them, for they may
//     come later than this. The sender stays until the other hung up.
// C4. Data of transfers longer than a segment comes by the line where UCX would go by TCP too and by the same device: from where
//     it lies into its place, without UCX's copies. It needs no order with batches: the receiver has said that it expects it
//     (kGo), or asked for it (kRead), and a fence waits for the answer (Request::data_apart).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "net/served/frame.hpp"
#include "net/served/send_queue.hpp"
#include "net/served/sink.hpp"
#include "net/tcp/receiver.hpp"
#include "net/tcp/socket.hpp"

namespace ayatori::net::ucx {

struct Card {
  std::uint64_t token = 0;
  std::vector<std::byte> address;  // empty: none came
  bool reaches = false;            // memory by UCX (transport.hpp U6)
};
inline constexpr std::uint32_t kAddressBytesMax = 64 * 1024;

// Exchanges cards over all sockets there are; one that breaks or says something else is closed (and logged), and so is one on
// which nothing came when the time is over. `mine` by process, equal in length to `sockets`. Blocks its caller.
std::vector<Card> exchange_cards(std::vector<tcp::Socket>& sockets, const std::vector<Card>& mine,
                                 std::int64_t limit_ns);

// One side of a connection behind the cards. The socket and what arrives on it belong to the thread that polls, and only that
// one sends; the queue is guarded by the peer's mutex (served::Peer).
struct Line {
  static constexpr std::size_t kFramesBytesMax = 1024;  // C2, of frames that wait

  explicit Line(const served::FrameLimits& limits) : queue(0, kFramesBytesMax), receiver(limits) {}

  tcp::Socket socket;  // none: gone, or the process itself
  served::SendQueue queue;
  tcp::Receiver receiver;
  bool deaf = false;  // it takes no more; why shows in what arrives
};

// What arrives on a line (C2, C4), for the time of one look at it.
class LineSink final : public served::FrameSink {
 public:
  explicit LineSink(served::FrameSink& data) noexcept : data_(data) {}

  bool on_frame(const served::Frame& frame) override;
  bool on_data(const served::FrameHeader& header, served::DataPlace* place) override;
  bool on_data_end(const served::FrameHeader& header) override { return data_.on_data_end(header); }
  void refuse(const char* why) override { data_.refuse(why); }

  const served::FrameHeader* leave() const noexcept { return left_ ? &leave_ : nullptr; }

 private:
  served::FrameSink& data_;
  served::FrameHeader leave_;
  bool left_ = false;
};

}  // namespace ayatori::net::ucx
