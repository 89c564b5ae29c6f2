// SPDX-License-Identifier: Apache-2.0
// Software offloading (thesis 4.4) around any transport: who asks for communication only writes the request down and goes
// on; another thread talks to the interconnect, in batches. Requester (try_*, any thread) -> submission queue, or tag and
// record (tags.hpp) and command ring -> Executor (executor.hpp) -> the transport below -> Completer (Request::complete, on
// whichever thread makes progress below). N1-N10 of net/transport.hpp hold above if they hold below.
//
//   kDirect   calls go straight through; no thread, no memory.
//   kWorker   who calls progress() or waits is the executor. A thread that only issues moves nothing.
//   kOffload  `executors` threads drain the rings and make progress besides.
//
// F1. Reads, writes and atomics of a thread that has a seat (tags.hpp), with one process for peer and address, go by its
//     submission queue; there "no room" (N1) is a full queue. Everything else takes a tag and goes by the common ring; there it
//     is "no tag", as rings have a slot for each.
// F2. A request goes to the executor of its peer, number p mod executors, so whatever orders requests to p below (fence,
//     flush, N10) orders them here: executor.hpp E2. A fence or flush to all peers goes to every ring. Collectives go to
//     ring 0, in the order of the calls.
// F3. Payloads: an RPC's is copied before try_rpc_async returns, and that of a message without a callback, long ones excepted.
//     Other messages' stay the caller's until the callback (net/types.hpp). Lists keep their pieces as below.
// F4. Everything else (addresses, handlers, replies, counters) goes straight through. A reply is no request: it has room
//     already and its thread is the handler's.
// F5. Executors spin for spin_ns after the last command, then sleep in below.wait() with their ring's sleep bit set and the
//     gate before its queues shut; where there are none, who waits does so with all of them. Room below wakes nobody: while
//     commands are kept for lack of it, those sleepers nap. Who waits beside executors helps them while it is awake, and
//     sleeps until its condition holds.
// F6. A thread that drained commands and thereby ran completions looks at `waiters_` afterwards and wakes those; a waiter
//     counts itself there before it looks at its condition. Both are read-modify-writes, so one of them sees the other.
//     Completions that run in below.progress() are announced there. A thread that begins to keep commands wakes all: the next
//     to try them may be a sleeper.
// F7. The destructor completes what was accepted. It gives up after kLeaveNs: what a living peer leaves unanswered that long
//     stays with the transport below. Nobody else calls by then.
// F8. Who polls or spins leaves commands and arrivals to the executors while each of them is at work, which it sees by their
//     beats (Executor::beat): two threads that take turns at them have every line of them travel, and the CPU may be what the
//     peer waits for. It helps where one has not moved since it looked last, sleeps or has no CPU.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <ayatori/net/transport.hpp>
#include "net/offload/executor.hpp"
#include "net/offload/tags.hpp"
#include "net/offload/thread_state.hpp"

namespace ayatori::net::offload {

enum class OffloadMode : std::uint8_t { kDirect, kOffload, kWorker };

struct OffloadOptions {
  OffloadMode mode = OffloadMode::kDirect;  // docs/design/offloading.md says why
  int executors = 1;                        // rings, and in kOffload their threads
  std::uint32_t tags = 2048;                // requests under way, at most: through queues, and as many others
  std::int64_t spin_ns = 50'000;            // of an executor
};

class OffloadTransport final : public Transport {
 public:
  // `below` lives longer. From now on all requests of this process go through here (F2), and no message comes for a handler
  // once this object is gone.
  OffloadTransport(Transport& below, const OffloadOptions& options);
  ~OffloadTransport() override;
  OffloadTransport(const OffloadTransport&) = delete;
  OffloadTransport& operator=(const OffloadTransport&) = delete;

  ProcessId self() const noexcept override { return below_.self(); }
  int processes() const noexcept override { return below_.processes(); }
  bool on_this_machine(ProcessId process) const noexcept override { return below_.on_this_machine(process); }
  Capabilities capabilities() const noexcept override { return below_.capabilities(); }
  Limits limits() const noexcept override { return below_.limits(); }
  Counters counters() const noexcept override { return below_.counters(); }

  RegionId register_memory(void* base, std::size_t bytes, std::uint8_t rights) override {
    return below_.register_memory(base, bytes, rights);
  }
  void unregister_memory(RegionId region) override { below_.unregister_memory(region); }
  void* direct_pointer(const RemoteAddress& address, std::size_t bytes) noexcept override {
    return below_.direct_pointer(address, bytes);
  }

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
  void reply(const ReplyToken& token, const void* payload, std::size_t size_bytes) override {
    below_.reply(token, payload, size_bytes);
  }

  bool try_barrier_async(Callback on_complete) override;
  bool try_broadcast_async(const BroadcastParams& params) override;
  bool try_reduce_async(const ReduceParams& params) override;
  bool try_gather_async(const GatherParams& params) override;
  bool try_alltoall_async(const AlltoallParams& params) override;

  void set_peer_failure_handler(PeerFailureFunction function, void* context) override;
  bool peer_failed(ProcessId process) const noexcept override { return below_.peer_failed(process); }

  void start() override {
    below_.start();
    start_executors();
  }
  void start_executors();  // start(), where somebody else started the transport below
  std::size_t progress() override;
  bool wait(bool (*until)(void* data), void* data, std::int64_t timeout_ns) override;
  void begin_batch() noexcept override {
    if (direct()) below_.begin_batch();
  }
  void end_batch() override {
    if (direct()) below_.end_batch();
  }
  void wake() noexcept override { below_.wake(); }
  bool wait_for_room(std::int64_t timeout_ns) override;

 private:
  static constexpr int kPollsBeforeWait = 100;
  static constexpr std::int64_t kNapNsMin = 50'000;
  static constexpr std::int64_t kNapNsMax = 2'000'000;
  static constexpr std::int64_t kLeaveNs = 1'000'000'000;

  struct HandlerTable;
  struct Look;  // the condition of a sleep

  bool direct() const noexcept { return options_.mode == OffloadMode::kDirect; }
  Lane lane_of(ProcessId peer) const noexcept { return peer >= 0 && peer < processes() ? peer : 0; }
  int ring_of(Lane lane) const noexcept {
    if (lane == kCollectivesLane || lane == kEveryLane) return 0;
    return options_.executors == 1 ? 0 : lane % options_.executors;  // a division costs as much as the rest of a call
  }
  template <class Made, class Params>
  bool post(Lane lane, const Params& params, bool keep = false);
  bool take_all(std::span<Request*> requests);  // or none
  void submit(Request& request, int ring);
  template <class Made, class Params, class Push>
  bool submit_short(ProcessId peer, const RemoteAddress& address, const Params& params, Push&& push);
  template <class Params>
  bool submit_move(ShortKind kind, ProcessId peer, const RemoteAddress& remote, const LocalAddress& local,
                   const Params& params);
  bool all_home();  // F7

  // Both: returns how many commands were issued; `counted`: this thread stands in waiters_.
  std::size_t drain(Executor& executor, bool counted);
  std::size_t drain_all(bool counted);
  bool executors_at_work() noexcept;  // F8
  bool all_prepared();                // rings are empty, their sleep bits set, and nothing is kept
  bool serve(bool (*until)(void* data), void* data, std::int64_t timeout_ns);
  void executor_main(Executor& executor);
  void doze(Executor& executor, std::int64_t nap_ns);

  // Constant after start().
  Transport& below_;
  const OffloadOptions options_;
  HandlerTable* handlers_ = nullptr;
  std::shared_ptr<TagPools> tags_;
  std::vector<std::unique_ptr<Executor>> executors_;
  std::vector<std::thread> threads_;

  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<std::uint32_t> waiters_{0};  // F6
};

static_assert(TransportLike<OffloadTransport>);

}  // namespace ayatori::net::offload
