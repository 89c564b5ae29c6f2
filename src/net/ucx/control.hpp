// SPDX-License-Identifier: Apache-2.0
// The connection between two processes of a ucx job that has proved the job's secret (net/tcp/mesh.hpp). Over it they tell
// each other where their UCX is reached, that they live, and that they leave; that one died shows when it breaks.
//
// C1. First each side sends a card: its UCX address and a token that what the other sends over UCX shall carry (inbox.hpp B1).
// C2. Then frames without bodies, kHeartbeat and kLeave; nothing else makes sense.
// C3. kLeave says how many batches this process has sent the other over UCX (serial): the other waits for them, for they may
//     come later than this. The sender stays until the other hung up.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "net/served/frame.hpp"
#include "net/tcp/socket.hpp"

namespace ayatori::net::ucx {

struct Card {
  std::uint64_t token = 0;
  std::vector<std::byte> address;  // empty: none came
};
inline constexpr std::uint32_t kAddressBytesMax = 64 * 1024;

// Exchanges cards over all sockets there are; one that breaks or says something else is closed (and logged), and so is one on
// which nothing came when the time is over. `mine` by process, equal in length to `sockets`. Blocks its caller.
std::vector<Card> exchange_cards(std::vector<tcp::Socket>& sockets, const std::vector<Card>& mine,
                                 std::int64_t limit_ns);

// One side of a connection, from the first frame on. The thread that polls.
class ControlLine {
 public:
  enum class Heard : std::uint8_t { kNothing, kHeartbeat, kLeave, kBroken };

  ControlLine() noexcept = default;
  explicit ControlLine(tcp::Socket&& socket) noexcept : socket_(std::move(socket)) {}

  const tcp::Socket& socket() const noexcept { return socket_; }
  void close() noexcept { socket_.close(); }

  // What a frame fits into goes out now or with the next; false: older ones still wait, this one does not (a peer that is
  // stopped reads nothing).
  bool say(const served::FrameHeader& header);
  // The next frame that arrived. kBroken: `why`.
  Heard hear(const served::FrameLimits& limits, served::FrameHeader* header, const char** why);

 private:
  tcp::Socket socket_;
  std::array<std::byte, served::kHeaderBytes> in_{};
  std::size_t in_bytes_ = 0;
  std::array<std::byte, served::kHeaderBytes> out_{};
  std::size_t out_left_ = 0;  // at the end of out_
};

}  // namespace ayatori::net::ucx
