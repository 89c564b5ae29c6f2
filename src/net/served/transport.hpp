// SPDX-License-Identifier: Apache-2.0
// What the transports between machines have in common, whatever their wire: reads, writes and atomics are requests that
// the target checks and serves; its progress thread does so while its workers compute. Made by each process on its start-up
// thread; N1-N10 of net/transport.hpp hold, N7's time being the heartbeat's (D2). A wire (net/tcp, net/ucx) derives from it
// and moves the batches of each peer's queue.
//
// D1. Whoever holds poll_lock_, which is only ever tried, receives, serves, runs handlers and completions, and retires
//     peers: one thread at a time. So nothing arrives in a caller's buffer once its request was completed by a failure.
// D2. A wire that breaks without an orderly leave, or on which nothing arrives for heartbeat_timeout_ns, or a frame that
//     makes no sense, fails its peer. A process heartbeats while its progress thread runs or somebody waits; one that
//     was itself stopped does not blame its peers for it.
// D3. try_* appends to the peer's queue and, unless somebody sends already, sends at once (peer.hpp E1); while a thread
//     receives, what it issues and answers is sent together when it has served what arrived from one peer, and what a
//     thread issues between begin_batch() and end_batch() at the end.
// D4. Order (N10): what is short leaves and is served in order; what is long holds back what comes behind a fence
//     (send_queue.hpp Q4). To itself a process' reads, writes and atomics are done at once, and a fence has to be asked for
//     again until its messages have begun.
// D5. The memory of a write and the room of a read belong to the transport until the completion: an acknowledgement waits for
//     the end of the batch with the write's last data, which the thread that sends tells to the one that polls. One that
//     comes while data still waits to be sent, or for a request that is not there, is no answer but a broken peer. So is one
//     within the data of its read, and data within data of its transfer: where the wire has two ways, they could.
// D6. Spinning is bounded by time. The progress thread stands back while others poll or watch the wire; it takes over at
//     the latest kNapNsMax after they stop polling, or is woken by the last one that watches.
// D7. Destruction is an orderly leave: peers' requests complete with kPeerFailed, no failure is reported. A process that
//     ends without it counts as dead.
// D8. A message longer than payload_bytes_max is a write into room that its receiver makes. One longer than a segment asks:
//     rooms that were asked for hold kGrantedBytesMax in all, or one message; later ones wait in order, and who sends nothing
//     into his for heartbeat_timeout_ns meanwhile is failed. Others get theirs with their data, which comes in one piece: one
//     room a peer; nobody acknowledges them: like short ones they are over when the wire has them. To itself a process sends
//     by LongMessages.
// D9. Neighbours, with whom this process shares memory, are reached by that (neighbours.cpp): messages, RPCs and what goes to
//     regions in shared memory are handed to a ShmTransport, which the polling thread serves as well (so N6 holds) and for
//     which sleepers watch one descriptor more. Only the wire says who is a member: a neighbour is given up when it is
//     retired. What the memory cannot do goes by the wire: other regions, but for reads that the kernel carries out, and
//     messages too long for it.
// D10. Some wires carry out requests of one piece on a peer's memory by themselves (try_alone), which `reached_` names. They
//     are behind nothing that is queued: as for neighbours, a fence has to be asked for again until what was issued before is
//     over.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <ayatori/net/transport.hpp>
#include "base/shared_lock.hpp"
#include "net/counter_stripe.hpp"
#include "net/served/config.hpp"
#include "net/served/descriptor.hpp"
#include "net/served/peer.hpp"
#include "net/served/requests.hpp"
#include "net/served/sleepers.hpp"
#include "net/services.hpp"

namespace ayatori::net::shm {
class ShmTransport;
}

namespace ayatori::net::served {

inline constexpr std::size_t kRegionsMax = 64;
// Of the wires' own messages, which are not counted.
inline constexpr HandlerId kWireHandlers = kNetHandlers + 6;
inline constexpr HandlerId kWireHandlersEnd = kWireHandlers + 3;

class ServedTransport : public ServicedTransport {
 public:
  ProcessId self() const noexcept override { return self_; }
  int processes() const noexcept override { return processes_; }
  Capabilities capabilities() const noexcept override;
  Limits limits() const noexcept override {
    return {served_.payload_bytes_max, LongMessages::kBytesMax, served_.requests_max};
  }
  Counters counters() const noexcept override;
  Counters neighbour_counters() const noexcept;  // the part that went by shared memory (D9)
  bool on_this_machine(ProcessId process) const noexcept override {
    return process == self_ || (served_.machine >> process & 1) != 0;
  }

  RegionId register_memory(void* base, std::size_t bytes, std::uint8_t rights) override;
  void unregister_memory(RegionId region) override;
  void* direct_pointer(const RemoteAddress& address, std::size_t bytes) noexcept override;

  bool try_read_async(const ReadParams& params) override;
  bool try_write_async(const WriteParams& params) override;
  bool try_atomic_async(const AtomicParams& params) override;
  bool try_read_list_async(const ListParams& params) override { return move_list(params, true); }
  bool try_write_list_async(const ListParams& params) override { return move_list(params, false); }
  bool try_read_strided_async(const StridedParams& params) override { return move_strided(params, true); }
  bool try_write_strided_async(const StridedParams& params) override { return move_strided(params, false); }
  bool try_flush_async(ProcessId peer, Callback on_complete) override;
  bool try_fence(ProcessId peer) override;

  void set_handler(HandlerId id, HandlerFunction function, void* context) override;
  bool try_message_async(const MessageParams& params) override;
  bool try_rpc_async(const RpcParams& params) override;
  void reply(const ReplyToken& token, const void* payload, std::size_t size_bytes) override;

  void set_peer_failure_handler(PeerFailureFunction function, void* context) override;
  bool peer_failed(ProcessId process) const noexcept override;

  std::size_t progress() override;
  bool wait(bool (*until)(void* data), void* data, std::int64_t timeout_ns) override;
  void begin_batch() noexcept override;
  void end_batch() override;
  void wake() noexcept override { waiters_.ring(); }

 protected:
  static constexpr std::int64_t kLeaveNs = 1'000'000'000;
  static constexpr std::uint64_t kRegionBytesMax = std::uint64_t{1} << 47;  // no memory is larger
  static constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

  // `name`: of the wire, begins its lines in the log.
  ServedTransport(const ServedConfig& config, const char* name);
  ~ServedTransport() override;  // the wire's has ended everything

  // --- the wire ---

  // Something was pushed, or a batch is out: sends what there is, unless somebody does. Any thread; by the thread that polls
  // only between two peers' arrivals.
  virtual void pump(Peer& to) = 0;
  // The thread that polls: receives, by PeerSink, and pumps.
  virtual Work poll(std::int64_t now_ns) = 0;
  // Closes the wire to a peer that is being retired. The thread that polls, under the peer's mutex. False: a batch is under
  // way (E2), it will be asked again.
  virtual bool try_close(Peer& whom) = 0;
  // If it is time for one; the thread that polls. was_away: this process was stopped, others' silence means nothing (D2).
  virtual void heartbeat(Peer& to, std::int64_t now_ns, bool was_away) = 0;
  // Before a sleep on epoll_: for how long that descriptor is certain to tell of what arrives; 0: something is there.
  virtual std::int64_t arm() { return kForever; }
  virtual void polled() {}  // the poll lock has just been released
  // D10. A request to another process, which is in the job, when there is room for its completion. What try_* returns, or
  // nothing: it is to go the usual way. Any thread.
  struct Alone {
    Request::Kind kind;
    ProcessId process;
    RemoteAddress remote;
    std::byte* local;     // not of an atomic
    std::uint64_t bytes;  // or the width of the word
    const AtomicParams* atomic;
    const Callback& on_complete;
  };
  virtual std::optional<bool> try_alone(const Alone&) { return std::nullopt; }

  // --- for the wire ---

  Peer& peer(ProcessId process) const noexcept { return *peers_[static_cast<std::size_t>(process)]; }
  std::size_t reply_bytes_max() const noexcept;  // of a Peer
  // Peers and connections are there; `open` says which. Runs the progress thread from here on.
  void begin();
  // What a wire's destructor calls first: waits until everything is out, ends the progress thread. False: begin() never was.
  bool end();
  bool polls() const noexcept;      // whether the calling thread does
  static bool may_wait() noexcept;  // it runs no handler or completion, and issues no batch
  void accuse(Peer& peer, const char* why) noexcept;
  void watch(int descriptor, std::uint32_t events, ProcessId process);  // by epoll_
  // Of one that is watched for what arrives: for room, too, or no more. Any thread; nothing happens to another one.
  void watch_room(int descriptor, bool wants_out, ProcessId process) noexcept;
  // After batches, under the peer's mutex: whether their end means something to the thread that polls; then, without the
  // mutex, batch_ended().
  static bool has_ended_some(Peer& to);
  void batch_ended(bool some);
  void ring_if_ended();  // by who held the poll lock without making progress
  void ring_all();
  std::uint64_t collective_calls() { return services_.collectives.calls(); }

  // For wires with a way of their own for long data (Peer::long_queue): bit: a peer from which some is about to come. A hint.
  std::atomic<std::uint64_t> long_data_awaited_{0};
  // Something of the wire waits for a poll, of which its descriptor does not tell. Before its ring_all().
  std::atomic<bool> wire_news_{false};
  void await_long_data(const Peer& from) noexcept;

  // Constant after begin().
  const FrameLimits limits_;
  const ProcessId self_;
  const int processes_;
  Descriptor epoll_;
  std::vector<std::unique_ptr<Peer>> peers_;  // made by the wire
  base::SharedLock poll_lock_;                // D1
  bool near_rang_ = false;   // the polling thread only: epoll told of the doorbell (D9), which will not ring again
  std::uint64_t dirty_ = 0;  // the polling thread only; bit: a peer to which something was pushed since pump_dirty()
  void pump_dirty();
  std::uint64_t reached_ = 0;  // D10; bit: process. Constant after begin()
  RequestTable requests_;

  // --- requests: transport.cpp, issue.hpp ---

  bool in_job(ProcessId process) const noexcept { return process >= 0 && process < processes_; }
  bool is_gone(const Peer& peer) const noexcept {
    return peer.standing.load(std::memory_order_seq_cst) != Standing::kMember;  // pairs with retire()
  }
  bool is_neighbour(ProcessId process) const noexcept {
    return in_job(process) && (neighbours_ >> process & 1) != 0 && !is_gone(peer(process));
  }
  void kick(Peer& peer);  // something was pushed
  bool has_room(const Callback& callback) const noexcept;
  bool complete_now(const Callback& callback, Completion completion);
  void complete(std::uint32_t slot, Completion completion);  // a request that was claimed
  void count(ProcessId process, std::uint64_t messages, std::uint64_t sent, std::uint64_t received) noexcept;
  static bool is_wires_own(HandlerId handler) noexcept {
    return handler >= kWireHandlers && handler < kWireHandlersEnd;
  }
  template <class Push>
  bool issue(std::uint32_t slot, Peer& peer, FrameHeader header, std::uint64_t sent_bytes, Push&& push,
             bool counted = true);
  void tell(Peer& to, const FrameHeader& header, const void* body, std::size_t bytes);

 private:
  Services& services() noexcept override { return services_; }

  friend class PeerSink;  // serve.cpp
  static constexpr int kStripes = 16;
  static constexpr std::int64_t kSpinNs = 100'000;
  static constexpr int kMissesPerYield = 16;
  static constexpr int kPausesPerMiss =
      10;  // a look takes the socket's lock from who delivers: 0.7 us of 6.7 without pauses
  static constexpr std::int64_t kNapNsMin = 200'000;
  static constexpr std::int64_t kNapNsMax = 2'000'000;
  static constexpr std::uint64_t kGrantedBytesMax = 8 << 20;  // D8
  static constexpr std::size_t kSpareBytesMax = 16 << 20;     // of rooms for the messages to come
  static constexpr std::size_t kSpareRoomsMax = 16;
  static constexpr std::int64_t kSleepSliceNs = 100'000'000;

  struct Region {
    std::atomic<std::uint32_t> rights{0};  // 0: not registered. release at registration pairs with acquire at use
    std::byte* base = nullptr;
    std::uint64_t bytes = 0;
  };
  struct Handler {
    HandlerFunction function = nullptr;
    void* context = nullptr;
  };
  struct Ask {  // of a peer, for room
    ProcessId process;
    std::uint32_t slot;
  };
  struct Flush {
    ProcessId peer;
    std::uint64_t serial;  // requests before it
    Callback on_complete;
  };

  // neighbours.cpp (D9)
  bool is_near(ProcessId process,
               RegionId region) const noexcept;  // a region in memory that is shared with its process
  bool takes_near(ProcessId process, std::size_t bytes) const noexcept;  // a message
  void join_neighbours();
  void meet_neighbours();
  std::size_t serve_neighbours();
  std::int64_t arm_all();
  bool disarmed() const noexcept {
    // seq_cst: after the sleeper said so (Sleepers Z1), pairs with serve_neighbours()
    return near_ != nullptr && !near_armed_.load(std::memory_order_seq_cst);
  }
  bool fence_unqueued(ProcessId to);
  void give_up_neighbour(const Peer& peer);
  void deliver_near(HandlerId id, Message message);

  // transport.cpp, one_sided.cpp
  // False: nobody set the handler; the sender is accused.
  bool deliver(HandlerId id, const Message& message);
  Outcome find_region(RegionId region, std::uint8_t rights, const Region** found) const noexcept;
  Outcome place(RegionId region, std::uint64_t offset, std::uint64_t bytes, std::uint8_t rights, Walk* walk) const;
  Outcome place_list(RegionId region, std::vector<Piece>&& pieces, std::uint8_t rights, Walk* walk) const;
  Outcome place_strided(const StridedParams& params, std::uint8_t rights, Walk* walk) const;
  Outcome apply(const AtomicParams& params, std::uint64_t* value) const;
  bool move_message(const MessageParams& params);
  void end_message(std::uint32_t slot, std::uint64_t serial);
  bool move_list(const ListParams& params, bool reads);
  bool move_strided(const StridedParams& params, bool reads);
  bool move_at_home(bool reads, Outcome outcome, Walk&& local, Walk&& remote, const Callback& done);
  template <class FillDescriptor>
  bool move(Request::Kind kind, ProcessId process, FrameHeader header, Walk&& local, const Callback& done,
            FillDescriptor&& fill);

  // progress.cpp, life.cpp
  std::size_t drain_self();
  std::size_t end_sent();
  std::size_t end_flushes();
  bool make_room(OpenWrite& open);  // rooms.cpp
  void keep_room(Room&& room);
  void grant_rooms();
  void look_at_rooms(std::int64_t now_ns, bool was_away);
  void drop_rooms(Peer& of);
  std::size_t retire_accused();
  bool retire(Peer& peer);
  void look_at_peers(std::int64_t now_ns);
  bool flush_is_due() const;
  bool work_waits() const;  // that no descriptor tells of
  void sleep(bool (*until)(void*), void* data, std::int64_t limit_ns);
  bool make_progress(std::size_t* did, std::int64_t* now_ns);
  void progress_thread_main();

  static constexpr std::uint32_t kNearSlot = std::uint32_t{1} << 31;  // in a token: reply by near_

  // Constant after begin().
  const ServedConfig served_;
  const char* const name_;
  std::array<Handler, kHandlersMax> handlers_;
  PeerFailureFunction peer_failure_ = nullptr;
  void* peer_failure_context_ = nullptr;

  std::mutex region_mutex_;  // register, unregister
  std::array<Region, kRegionsMax> regions_;

  // The polling thread only.
  std::int64_t last_look_ns_ = 0;
  std::deque<Ask> asks_;             // that wait for others' rooms, in order
  std::int64_t waits_since_ns_ = 0;  // somebody does; as look_at_rooms() saw it
  std::uint64_t granted_bytes_ = 0;  // of rooms that were asked for
  std::vector<Room> spare_rooms_;    // the oldest first

  std::unique_ptr<shm::ShmTransport> near_;  // D9; constant, and so is what follows after begin()
  std::uint64_t neighbours_ = 0;             // bit: process
  std::atomic<bool> near_armed_{false};      // sleepers may rely on the doorbell

  std::atomic<bool> accusations_{false};
  std::atomic<bool> some_sent_{false};           // a batch is out whose end some request waits for: end_sent()
  std::atomic<bool> self_news_{false};           // something was pushed to our own queue
  std::atomic<std::uint32_t> self_messages_{0};  // to ourselves, not begun (D4)
  std::atomic<std::uint32_t> long_messages_{0};  // to peers, under way

  mutable std::mutex flush_mutex_;
  std::vector<Flush> flushes_;  // Guarded by flush_mutex_.
  std::atomic<std::uint32_t> flush_count_{0};

  std::atomic<bool> started_{false};
  std::atomic<bool> stop_{false};
  std::atomic<std::uint32_t> polls_{0};     // a hint for the progress thread (D6)
  std::atomic<std::uint32_t> watchers_{0};  // in wait(), asleep on the wire (D6)
  std::atomic<bool> watches_alone_{
      false};  // the progress thread is asleep on the wire; a hint to one who polls beside it
  Sleepers waiters_;
  Sleepers janitor_;  // the progress thread
  std::array<CounterStripe, kStripes> stripes_;
  Services services_;
  std::thread progress_thread_;
};

}  // namespace ayatori::net::served
