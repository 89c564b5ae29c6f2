// SPDX-License-Identifier: Apache-2.0
#include "net/ucx/control.hpp"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.hpp"
#include "base/log.hpp"

namespace ayatori::net::ucx {
namespace {

constexpr std::int64_t kPollNsMax = 100'000'000;

struct CardHeader {
  std::uint64_t token;
  std::uint32_t address_bytes;
  std::uint32_t reaches;
};
static_assert(sizeof(CardHeader) == 16);

// Both ways of one exchange. advance() moves what goes without waiting.
class Exchange {
 public:
  explicit Exchange(const Card& mine) : out_(sizeof(CardHeader) + mine.address.size()) {
    const CardHeader header{mine.token, static_cast<std::uint32_t>(mine.address.size()), mine.reaches ? 1u : 0u};
    std::memcpy(out_.data(), &header, sizeof header);
    std::copy(mine.address.begin(), mine.address.end(), out_.begin() + sizeof header);
  }

  bool over() const noexcept { return sent_ == out_.size() && in_bytes_ == in_.size() && has_header_; }
  bool sends() const noexcept { return sent_ != out_.size(); }

  // nullptr, or why the exchange failed.
  const char* advance(int socket, Card* theirs) {
    while (sends()) {
      const ssize_t moved = ::send(socket, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0 && errno == EAGAIN) break;
      if (moved < 0) return strerrordesc_np(errno);
      sent_ += static_cast<std::size_t>(moved);
    }
    while (in_bytes_ != in_.size() || !has_header_) {
      const ssize_t moved = ::recv(socket, in_.data() + in_bytes_, in_.size() - in_bytes_, 0);
      if (moved == 0) return "it hung up";
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0 && errno == EAGAIN) break;
      if (moved < 0) return strerrordesc_np(errno);
      in_bytes_ += static_cast<std::size_t>(moved);
      if (has_header_ || in_bytes_ != sizeof(CardHeader)) continue;
      CardHeader header;
      std::memcpy(&header, in_.data(), sizeof header);
      if (header.address_bytes == 0 || header.address_bytes > kAddressBytesMax) return "its UCX address has no length";
      has_header_ = true;
      theirs->token = header.token;
      theirs->reaches = header.reaches == 1;
      in_.resize(header.address_bytes);
      in_bytes_ = 0;
    }
    if (has_header_ && in_bytes_ == in_.size()) theirs->address = in_;
    return nullptr;
  }

 private:
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;
  std::vector<std::byte> in_ = std::vector<std::byte>(sizeof(CardHeader));  // the header, then the address
  std::size_t in_bytes_ = 0;
  bool has_header_ = false;
};

}  // namespace

std::vector<Card> exchange_cards(std::vector<tcp::Socket>& sockets, const std::vector<Card>& mine,
                                 std::int64_t limit_ns) {
  std::vector<Card> theirs(sockets.size());
  std::vector<Exchange> exchanges;
  for (const Card& card : mine) exchanges.emplace_back(card);
  const std::int64_t begin_ns = base::real_now_ns();
  std::vector<pollfd> polled;
  while (true) {
    polled.clear();
    const std::int64_t left_ns = limit_ns - (base::real_now_ns() - begin_ns);
    for (std::size_t p = 0; p < sockets.size(); ++p) {
      if (!sockets[p] || exchanges[p].over()) continue;
      const char* why = exchanges[p].advance(sockets[p].fd(), &theirs[p]);
      if (why == nullptr && left_ns <= 0 && !exchanges[p].over()) why = "its UCX address did not come";
      if (why != nullptr) {
        base::log_error("ucx: no connection with process {}: {}", p, why);
        theirs[p] = {};
        sockets[p].close();
      } else if (!exchanges[p].over()) {
        const int events = exchanges[p].sends() ? POLLIN | POLLOUT : POLLIN;
        polled.push_back({sockets[p].fd(), static_cast<short>(events), 0});
      }
    }
    if (polled.empty()) return theirs;
    ::poll(polled.data(), polled.size(),
           static_cast<int>(std::clamp(left_ns, std::int64_t{0}, kPollNsMax) / 1'000'000) + 1);
  }
}

bool LineSink::on_frame(const served::Frame& frame) {
  switch (frame.header.kind) {
    case served::FrameKind::kHeartbeat: return true;
    case served::FrameKind::kLeave:
      leave_ = frame.header;
      left_ = true;
      return true;
    default: refuse("a frame that does not belong on a control connection"); return false;  // C2
  }
}

bool LineSink::on_data(const served::FrameHeader& header, served::DataPlace* place) {
  if (!left_) return data_.on_data(header, place);
  refuse("data behind a leave");
  return false;
}

}  // namespace ayatori::net::ucx
