// SPDX-License-Identifier: Apache-2.0
// The transport between processes of one machine: a read or write is a copy, an atomic is the CPU's, a message goes
// through the receiver's MPSC ring (ring.hpp), an answer straight into the asker's reply slot. Made by each member after
// the fork, on its start-up thread; N1-N8 of net/transport.hpp hold.
//
// S1. Reads, writes and atomics complete before try_* returns; chains of completions do not recurse (completions.hpp). One
//     word of 8 bytes takes a short way through the same checks (word_at(), W5).
// S2. An RPC owns a reply slot from its issue to its completion, so answers always have room and need no ring. The
//     word `state` of its Pending decides by CAS who completes it: the answer or the failure of the peer. A slot's serials
//     grow; who answers writes the slot unasked, since an asker frees one that was not answered only when that process is gone.
// S3. Handlers run under consumer_lock_, which is only ever tried. Answers are reaped without it, by any thread.
// S4. A thread that sleeps has (a) counted itself in sleepers_, (b) read the doorbell, (c) looked at its condition, (d) set
//     the ring's sleep bit, (e) looked at answers, letters and epoch, in this order. Senders look at the bit after their news is out;
//     a thread that ran callbacks rings if sleepers_ is not zero. So no wake-up is lost.
// S5. The progress thread arms the sleep bit only when nobody else polled while it slept last: producers pay no wake-ups while
//     workers do the work. (While it runs it may keep them from the CPU: that they do not poll then says nothing.) It takes
//     over at the latest kNapNsMax after they stop.
// S6. Destruction is an orderly leave: what others still wait for is sent, for kLeaveNs at most; from then on their requests
//     complete with kPeerFailed, no failure is reported. A process that ends without it counts as dead.
// S7. Below another transport (ShmOptions::deliver; W7) nobody waits here: that one makes progress, sleeps on the world's
//     doorbell after arm(), says of which peers nothing more is wanted (give_up()) and gives regions their numbers.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include <ayatori/net/transport.hpp>
#include "base/shared_lock.hpp"
#include "net/counter_stripe.hpp"
#include "net/services.hpp"
#include "net/shm/world.hpp"

namespace ayatori::net::shm {

struct ShmOptions {
  bool progress_thread = true;
  // S7: gets every message, instead of the handlers.
  void (*deliver)(void* context, HandlerId id, const Message& message) = nullptr;
  void* context = nullptr;
};

struct ThreadState;  // transport.cpp

class ShmTransport final : public ServicedTransport {
 public:
  ShmTransport(ShmWorld& world, ProcessId self, const ShmOptions& options = {});
  ~ShmTransport() override;

  ProcessId self() const noexcept override { return self_; }
  int processes() const noexcept override { return world_.config().processes; }
  bool on_this_machine(ProcessId) const noexcept override { return true; }
  Capabilities capabilities() const noexcept override { return {true, true, true, true, true}; }
  Limits limits() const noexcept override {
    return {world_.config().payload_bytes_max, LongMessages::kBytesMax, world_.config().rpcs_max};
  }
  Counters counters() const noexcept override;

  RegionId register_memory(void* base, std::size_t bytes, std::uint8_t rights) override;
  void unregister_memory(RegionId region) override;
  void* direct_pointer(const RemoteAddress& address, std::size_t bytes) noexcept override;

  bool try_read_async(const ReadParams& params) override;
  bool try_write_async(const WriteParams& params) override;
  bool try_atomic_async(const AtomicParams& params) override;
  bool try_read_list_async(const ListParams& params) override;
  bool try_write_list_async(const ListParams& params) override;
  bool try_read_strided_async(const StridedParams& params) override;
  bool try_write_strided_async(const StridedParams& params) override;
  bool try_flush_async(ProcessId peer, Callback on_complete) override;
  bool try_fence(ProcessId peer) override;

  void set_handler(HandlerId id, HandlerFunction function, void* context) override;
  bool try_message_async(const MessageParams& params) override;
  bool try_rpc_async(const RpcParams& params) override;
  void reply(const ReplyToken& token, const void* payload, std::size_t size_bytes) override;

  void set_peer_failure_handler(PeerFailureFunction function, void* context) override;
  bool peer_failed(ProcessId process) const noexcept override { return world_.standing(process) == Standing::kFailed; }

  void start() override;
  std::size_t progress() override;
  bool wait(bool (*until)(void* data), void* data, std::int64_t timeout_ns) override;
  void wake() noexcept override { world_.ring_doorbell(self_); }

  // S7
  void register_at(RegionId region, void* base, std::size_t bytes, std::uint8_t rights);
  bool reaches(ProcessId process, RegionId region) const noexcept {
    // acquire: pairs with register_at()
    return region < kRegionsMax && world_.member(process).regions[region].rights.load(std::memory_order_acquire) != 0;
  }
  // A read of another process' own memory, in this call (W8). False: it must go another way.
  bool try_copy(const ReadParams& params);
  // The peer's requests that wait complete with kPeerFailed, and so do new ones. A thread that makes progress.
  void give_up(ProcessId process);
  // Now and then after that: reply slots of RPCs to a peer that lived, and is gone by now or has answered after all (S2).
  void free_orphans();
  static constexpr int kMessagesPerProgress = 64;
  // Before a sleep on the doorbell's descriptor: for how long at most.
  std::int64_t arm() noexcept;
  static bool runs_here() noexcept;  // a handler or a completion, on the calling thread

  static constexpr int kStripes = 65;  // of counters: 64 threads have one each, the others share the last

 private:
  Services& services() noexcept override { return services_; }

  static constexpr std::int64_t kNapNsMin = 200'000;
  static constexpr std::int64_t kNapNsMax = 2'000'000;
  static constexpr std::int64_t kSleepSliceNs = 100'000'000;  // then peers are looked at
  static constexpr int kMissesBeforeSleep = 600;              // of a wait: about 150 us
  static constexpr int kMissesFast = 48;  // an answer of a peer that polls is there within 2 us: with one pause each
  static constexpr int kMissesPerYield = 16;
  static constexpr int kPausesPerMiss = 4;
  static constexpr std::int64_t kLeaveNs = 1'000'000'000;
  static constexpr std::int64_t kLookForDeadNs = 200'000'000;

  struct Pending {                        // of one reply slot
    std::atomic<std::uint64_t> state{0};  // serial * 2 + 1 while it waits (S2)
    std::atomic<ProcessId> process{0};
    LocalAddress reply;
    std::size_t reply_bytes_max = 0;
    Callback on_complete;
  };
  struct Handler {
    HandlerFunction function = nullptr;
    void* context = nullptr;
  };

  void enter_region(RegionId region, void* base, std::size_t bytes, std::uint8_t rights, bool shared) noexcept;
  bool complete_now(const Callback& callback, Completion completion);
  bool has_room(const Callback& callback) const noexcept;
  Outcome resolve_region(ProcessId process, RegionId region, std::uint8_t rights,
                         const RegionEntry** entry) const noexcept;
  Outcome resolve(ProcessId process, RegionId region, std::uint64_t offset, std::size_t bytes, std::uint8_t rights,
                  std::byte** memory) const noexcept;
  template <std::atomic<std::size_t> RegionEntry::* kBound>
  std::byte* word_at(ProcessId process, RegionId region, std::uint64_t offset) const noexcept;
  template <std::atomic<std::uint64_t> CounterStripe::* kCounter>
  void end_word(ThreadState& thread, const Callback& callback);
  bool read_any(const ReadParams& params);
  bool write_any(const WriteParams& params);
  bool move_list(const ListParams& params, bool reads);
  bool move_strided(const StridedParams& params, bool reads);
  bool complete_moved(ProcessId peer, const Callback& callback, Outcome outcome, std::uint64_t bytes, bool reads);
  bool is_gone(ProcessId process) const noexcept;
  Outcome check_target(ProcessId process, std::size_t bytes, std::size_t bytes_max) const noexcept;
  void deliver(HandlerId id, const Message& message);
  bool push(ProcessId to, const WireHeader& header, const void* payload);
  void count(unsigned thread_number, ProcessId peer, std::uint64_t messages, std::uint64_t sent,
             std::uint64_t received) noexcept;

  std::uint32_t take_reply_slot() noexcept;  // kNoReply: none free
  bool answered(std::uint32_t slot, std::uint64_t* serial, std::memory_order order) const noexcept;
  template <class Each>
  void for_each_taken_slot(Each&& each) const;
  void free_reply_slot(std::uint32_t slot) noexcept;
  bool claim_pending(std::uint32_t slot, std::uint64_t serial) noexcept;
  void fail_pending(ProcessId process);
  void fail_rpc(std::uint32_t slot);
  void complete_rpc(std::uint32_t slot, Completion completion);

  std::size_t reap_answers();
  std::size_t drain_ring();
  std::size_t notice_peers();
  void rouse_sleepers() noexcept;
  void rouse(ProcessId peer) noexcept;
  bool news();  // something besides the ring waits for progress()
  // Sleeps until the doorbell rings, at most `limit_ns` (S4), `nap_ns` when something waits that progress() could not
  // take just now; `until` may be null.
  void sleep(bool (*until)(void*), void* data, std::int64_t limit_ns, std::int64_t nap_ns);
  void look_for_dead(std::int64_t now_ns) noexcept;
  void progress_thread_main();

  // Constant after start().
  ShmWorld& world_;
  const ProcessId self_;
  std::array<const RegionEntry*, kMaxProcesses> word_regions_;  // of each process; of this one none: words.cpp
  Member& member_;
  const ShmOptions options_;
  std::array<Handler, kHandlersMax> handlers_;
  PeerFailureFunction peer_failure_ = nullptr;
  void* peer_failure_context_ = nullptr;

  MpscRing ring_;
  base::SharedLock consumer_lock_;  // S3

  std::unique_ptr<Pending[]> pending_;
  std::array<std::atomic<std::uint64_t>, kRpcsLimit / 64> taken_slots_;  // bit: taken, or there is no such slot
  std::array<std::atomic<std::uint64_t>, kRpcsLimit / 64>
      orphans_{};                            // bit: taken by an RPC that failed, see fail_rpc()
  std::atomic<std::uint64_t> given_up_{0};   // bit: process (S7)
  std::atomic<bool> copies_refused_{false};  // by the kernel (W8)

  std::mutex region_mutex_;  // register, unregister

  std::mutex notice_mutex_;                        // only tried
  std::array<Standing, kMaxProcesses> noticed_{};  // Guarded by notice_mutex_.
  std::atomic<std::uint64_t> noticed_epoch_{0};

  std::atomic<bool> started_{false};
  std::atomic<bool> stop_{false};
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::uint32_t> fence_{0};  // what try_fence() steps on: ThreadSanitizer knows no fences
  std::atomic<std::uint32_t> polls_{0};  // a hint for the progress thread (S5)
  std::atomic<std::int64_t> last_look_ns_{0};
  std::array<CounterStripe, kStripes> stripes_;
  Services services_;
  std::thread progress_thread_;
};

static_assert(TransportLike<ShmTransport>);

}  // namespace ayatori::net::shm
