// SPDX-License-Identifier: Apache-2.0
// The transport over UCX: batches of frames as UCX's active messages, below net/served/transport.hpp, whose rules D1-D7 hold.
// Beside it a connection of net/tcp between each two processes tells who is a member, lives, leaves and died, for UCX tells
// none of it reliably and asks nobody for a secret. Where UCX has nothing but TCP, it carries long data as well (control.hpp
// C4). docs/design/ucx-transport.md says why it is as it is.
//
// U1. UCX's worker belongs to whoever holds the poll lock. Who wants to send and does not get it sets a bit in `posted_`; who
//     releases it looks there afterwards. So no batch waits for a lock, and none is forgotten.
// U2. Before a sleep somebody arms the worker. Where that fails because something is there, or something is under way whose
//     end UCX may only see when it is polled, `armed_` goes down, and the next poll wakes all who sleep: they arm anew.
// U3. UCX's endpoints are made by the first greeting of a peer (U5); its errors accuse the peer. A peer that is failed for
//     another reason keeps its endpoint (wire.hpp L5): nothing more is sent to it, what it sends is dropped.
// U4. Requests of one piece, and atomics, go by UCX itself where a trial at start has shown, in both processes, that it needs
//     no help of the target (memory.hpp M1), and the region's process has a key for it (U6); all others are served. It is not
//     tried where UCX may choose TCP, whose software would serve strangers, too. What was shown over UCX's shared memory
//     holds within this machine.
// U5. Before batches two processes greet each other, whoever has something to send or was greeted. Who has done both sends the
//     first batch, an empty one, if its number is the lower; the other sends none before that is here. So the two UCX agree
//     upon the endpoints over a connection that stands, and in one direction (wire.hpp L7).
// U6. Keys (reach.cpp): a process asks for a region's with its first request there, which is served; bounds and rights, which come
//     with the key, are checked here from then on. unregister_memory() tells who asked, and waits until they have forgotten
//     the key, kForgetNs at most and not in handlers and batches: then who hears of a new region by that number from a
//     third may not use the old key any more. To a peer that is failed the connection is broken off before requests to it end
//     (M3): over adapters it cannot reach this process any more then; over UCX's shared memory, if it lives, it can.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "net/served/transport.hpp"
#include "net/tcp/mesh.hpp"
#include "net/ucx/config.hpp"
#include "net/ucx/peer.hpp"
#include "net/ucx/wire.hpp"

namespace ayatori::net::ucx {

class UcxTransport final : public served::ServedTransport, private Arrivals {
 public:
  // A device that this machine does not have, and UCX that is not there, are statuses. Owns config.listener in any case.
  static base::Status create(UcxConfig config, std::unique_ptr<UcxTransport>* transport);
  ~UcxTransport() override;

  // Connects with everybody; blocks for start_timeout_ns at most. The status names whoever is not there then.
  base::Status connect() { return entrance_.connect(); }
  // Connects, unless that has been done. Whoever was not reached is failed.
  void start() override;

  // Ends all connections without a word, as the end of the process would: peers see a failure.
  void sever() noexcept;
  // No thread of this process uses UCX between the two: over UCX's shared memory it may be stopped or killed then (wire.hpp L6).
  // Not in a handler or a completion. The same thread.
  void stand_still() noexcept;
  void go_on() noexcept { poll_lock_.unlock(); }

  // Bytes that lines brought since the start, their own frames among them (control.hpp C4). Any thread.
  std::uint64_t bytes_by_lines() const noexcept { return bytes_by_lines_.load(std::memory_order_relaxed); }

  RegionId register_memory(void* base, std::size_t bytes, std::uint8_t rights) override;
  void unregister_memory(RegionId region) override;

  // What UCX was seen to reach by itself (memory.hpp M1), and how many requests went so. Any thread.
  const Reaches& reaches() const noexcept { return wire_->reaches(); }
  std::uint64_t requests_by_ucx() const noexcept { return requests_by_ucx_.load(std::memory_order_relaxed); }
  // Memory that UCX has allocated: over its shared memory it reaches no other. Zeroed, lives as long as the transport;
  // nullptr: there is none. Any thread.
  std::byte* allocate(std::size_t bytes) { return wire_->allocate(bytes); }

 private:
  static constexpr int kTurnsPerPoll = 8;
  static constexpr int kBatchesPerSend = 16;
  static constexpr std::size_t kLineBytesPerSend = 8 << 20;
  static constexpr int kBusyMax = 3;  // in a row, then UCX says so for nothing (it has something to send and no room)
  static constexpr std::int64_t kNapNs = 200'000;
  static constexpr std::int64_t kControlIntervalNs = 100'000;
  static constexpr std::int64_t kDataIntervalNs = 20'000;  // while a line has no room for what waits
  static constexpr int kMissesMax = 100;                   // looks at a line that is to bring data, in a row
  static constexpr std::int64_t kForgetNs = 1'000'000'000;
  static constexpr std::int64_t kLetGoNs = 400'000'000;
  static constexpr std::int64_t kLateBatchesNs = 1'000'000'000;  // between two, behind a leave

  UcxTransport(UcxConfig&& config, std::unique_ptr<Wire>&& wire);
  static UcxPeer& wire(served::Peer& peer) noexcept { return static_cast<UcxPeer&>(peer); }

  void pump(served::Peer& to) override;
  served::Work poll(std::int64_t now_ns) override;
  bool try_close(served::Peer& whom) override;
  void heartbeat(served::Peer& to, std::int64_t now_ns, bool was_away) override;
  std::int64_t arm() override;
  void polled() override { send_posted(); }
  void on_batch(const Batch& message) override;

  void send_posted();
  void send_batches(UcxPeer& to);
  void send_line(UcxPeer& to);
  void greet(UcxPeer& to);
  void give_up(UcxPeer& whom, const char* why);
  void after_progress();
  bool hear(UcxPeer& from, std::int64_t now_ns);
  void look_at_lines(std::int64_t now_ns);
  void look_at_leave(UcxPeer& from, std::int64_t now_ns);
  void leave();

  // reach.cpp (U6)
  struct Exposed {                                            // a region of this process
    KnownRegion::State state = KnownRegion::State::kUnknown;  // what peers are told; kUnknown: there is none
    std::uint8_t atomics = 0;
    std::uint8_t rights = 0;
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
    std::vector<std::byte> key;
    std::uint64_t told = 0;        // bit: peer that has asked
    std::uint32_t round = 0;       // of its unregistering
    std::uint64_t forgetting = 0;  // bit: peer that has not said yet that it forgot
  };
  friend struct KeyAsk;
  std::optional<bool> try_alone(const Alone& request) override;
  void set_key_handlers();
  void ask_key(UcxPeer& of, RegionId region);
  void learn_key(UcxPeer& of, RegionId region, Completion completion);
  void send_ops(UcxPeer& to);
  std::size_t end_ops();  // completions that ran
  bool let_go(UcxPeer& of);
  void drop_old_keys(UcxPeer& of);
  void drop_keys(UcxPeer& of);
  void forget_keys();
  void conceal(RegionId region);
  void tell_region(HandlerId handler, UcxPeer& to, const RegionWord& word);
  void on_ask(const Message& message);
  void on_forget(const Message& message);
  void on_forgotten(const Message& message);
  bool has_ops(UcxPeer& to);
  static bool moves_words(const Alone& request, std::uint64_t base) noexcept;
  UcxPeer* teller(const Message& message, RegionWord* word);

  // Constant after start().
  UcxConfig config_;
  std::vector<std::unique_ptr<MemoryOp>> ops_;  // by slot of the request; UCX may hold them until the wire ends
  std::vector<ProcessId> op_of_;                // the polling thread only; by slot: on whom UCX has its operation
  std::unique_ptr<Wire> wire_;
  tcp::Entrance entrance_;

  // Whoever holds the poll lock.
  served::Work work_;
  std::int64_t now_ns_ = 0;
  std::int64_t last_control_ns_ = 0;
  int busy_ = 0;
  bool leaving_ = false;
  std::uint64_t full_ = 0;      // bit: a peer whose line has no room
  std::uint64_t greeting_ = 0;  // bit: peer; its greeting found no room yet: U5

  bool exposes_ = false;  // constant
  std::mutex exposed_mutex_;
  std::array<Exposed, served::kRegionsMax> exposed_;  // Guarded by exposed_mutex_.
  std::atomic<std::uint64_t> requests_by_ucx_{0};     // only a number

  std::atomic<std::uint64_t> bytes_by_lines_{0};  // only a number
  std::atomic<std::uint64_t> posted_{0};          // U1; bit: peer
  std::atomic<bool> armed_{false};                // U2
};

static_assert(TransportLike<UcxTransport>);

}  // namespace ayatori::net::ucx
