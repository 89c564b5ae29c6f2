// SPDX-License-Identifier: Apache-2.0
// The transport between processes of several machines, over TCP connections of its own that have proved the job's secret:
// the wire below net/served/transport.hpp, whose rules D1-D7 hold. docs/design/tcp-transport.md says why it is as it is.
#pragma once

#include "net/served/transport.hpp"
#include "net/tcp/config.hpp"
#include "net/tcp/mesh.hpp"
#include "net/tcp/peer.hpp"

namespace ayatori::net::tcp {

class TcpTransport final : public served::ServedTransport {
 public:
  explicit TcpTransport(TcpConfig config);
  ~TcpTransport() override;

  // Connects with everybody; blocks for start_timeout_ns at most. The status names whoever is not there then.
  base::Status connect() { return entrance_.connect(); }
  // Connects, unless that has been done. Whoever was not reached is failed.
  void start() override;

  // Ends all connections without a word, as the end of the process would: peers see a failure.
  void sever() noexcept;

 private:
  static constexpr int kBatchesPerSend = 16;  // then whoever polls goes on
  static constexpr std::size_t kBytesPerSend = 8 << 20;
  static constexpr unsigned kLooksPerPoll = 8;
  static constexpr unsigned kLooksPerPollAlone = 64;  // with the only peer there is
  static constexpr unsigned kMissesMax = 100;

  static TcpPeer& wire(served::Peer& peer) noexcept { return static_cast<TcpPeer&>(peer); }

  void pump(served::Peer& to) override;
  served::Work poll(std::int64_t now_ns) override;
  bool try_close(served::Peer& whom) override;
  void heartbeat(served::Peer& to, std::int64_t now_ns, bool was_away) override;

  bool look_again(std::int64_t now_ns, served::Work* work);
  served::Work receive(TcpPeer& from, std::int64_t now_ns, bool* some);
  void set_wants_out(TcpPeer& peer, bool wants);
  void leave();

  TcpConfig config_;  // constant after start()
  Entrance entrance_;

  // The polling thread only.
  TcpPeer* recent_ = nullptr;  // sent last
  unsigned looks_ = 0;         // at its socket alone
  unsigned misses_ = 0;        // of them, in a row
};

static_assert(TransportLike<TcpTransport>);

}  // namespace ayatori::net::tcp
