// SPDX-License-Identifier: Apache-2.0
#include "net/offload/transport.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <iterator>
#include <mutex>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/shared_lock.hpp"
#include "net/offload/thread_state.hpp"

namespace ayatori::net::offload {
namespace {

constexpr int kPollsPerYield = 16;

void pause_or_yield(int misses) noexcept {
  if (misses % kPollsPerYield == 0)
    sched_yield();
  else
    base::cpu_pause();
}

// One that waits, counted (F6).
class WaitScope {
 public:
  explicit WaitScope(std::atomic<std::uint32_t>& waiters) : waiters_(waiters) {
    waiters_.fetch_add(1, std::memory_order_seq_cst);  // pairs with drain()
  }
  ~WaitScope() { waiters_.fetch_sub(1, std::memory_order_relaxed); }  // nobody draws conclusions from fewer
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  std::atomic<std::uint32_t>& waiters_;
};

void end_flush_part(void* data, Completion completion) {
  auto& whole = *static_cast<Request*>(data);
  if (!completion.ok()) whole.outcome.store(completion.outcome, std::memory_order_relaxed);  // released by end_part()
  if (!whole.end_part()) return;
  whole.on_complete({whole.outcome.load(std::memory_order_relaxed), 0, 0});
  whole.pools->give_back(whole);
}

}  // namespace

// What is put around handlers so that progress() does nothing in them. The transport below lives longer than
// the wrapper and points here, so tables stay for good (4 KiB each).
struct OffloadTransport::HandlerTable {
  struct Handler {
    HandlerFunction function = nullptr;
    void* context = nullptr;
    HandlerTable* table = nullptr;
  };
  std::array<Handler, kHandlersMax> handlers;
  PeerFailureFunction peer_failure = nullptr;
  void* peer_failure_context = nullptr;
  base::SharedLock lock;  // while one of them runs
  bool closed = false;    // Guarded by lock: the wrapper is gone.

  static HandlerTable& make() {
    static std::mutex mutex;
    static auto& tables = *new std::deque<HandlerTable>;
    const std::lock_guard lock(mutex);
    return tables.emplace_back();
  }
};

OffloadTransport::OffloadTransport(Transport& below, const OffloadOptions& options) : below_(below), options_(options) {
  AYT_CHECK(options.executors >= 1 && options.executors <= kExecutorsMax, "{} executors", options.executors);
  if (direct()) return;
  // A flush of all rings takes a tag a ring and one more.
  AYT_CHECK(options.tags > static_cast<std::uint32_t>(options.executors), "{} tags for {} executors", options.tags,
            options.executors);
  tags_ = TagPools::create(options.tags, below.limits().payload_bytes_max);
  const std::size_t slots = std::bit_ceil(std::size_t{options.tags});  // F1
  handlers_ = &HandlerTable::make();
  const std::uint32_t records = options.tags / static_cast<std::uint32_t>(options.executors);  // not 0: above
  for (int i = 0; i < options.executors; ++i)
    executors_.push_back(std::make_unique<Executor>(below, *tags_, slots, records));
}

OffloadTransport::~OffloadTransport() {
  if (direct()) return;
  stop_.store(true, std::memory_order_release);  // pairs with executor_main() and doze()
  if (!threads_.empty()) below_.wake();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  {
    const std::lock_guard guard(handlers_->lock);
    tags_->close();  // handlers go on answering, and issue nothing more
  }
  bool all = false;
  try {  // F7
    all = serve([](void* self) { return static_cast<OffloadTransport*>(self)->all_home(); }, this, kLeaveNs);
  } catch (...) {  // a simulated process that was killed (net/sim/script.hpp Q3): nothing of it completes any more
  }
  {
    const std::lock_guard guard(handlers_->lock);
    handlers_->closed = true;
  }
  if (all) return;
  base::log_warn("process {} leaves while requests are under way that nobody completed", self());
  static std::mutex mutex;
  // The transport below holds records of them.
  static auto& left_tags = *new std::vector<std::shared_ptr<TagPools>>;
  static auto& left_executors = *new std::vector<std::unique_ptr<Executor>>;
  const std::lock_guard lock(mutex);
  left_tags.push_back(std::move(tags_));
  std::move(executors_.begin(), executors_.end(), std::back_inserter(left_executors));
}

bool OffloadTransport::all_home() {
  bool all = tags_->collect_all();
  for (const auto& executor : executors_) all = executor->records_home() && all;
  for (const auto& executor : executors_)
    all = all && !executor->queues_visible();  // last: a completion may have pushed
  return all;
}

// --- requester ---

void OffloadTransport::submit(Request& request, int ring) {
  if (executors_[static_cast<std::size_t>(ring)]->accept(request)) below_.wake();
}

// Made: the command as it is called inside. keep: its payload is copied (F3).
template <class Made, class Params>
bool OffloadTransport::post(Lane lane, const Params& params, bool keep) {
  Request* request = tags_->take();
  if (request == nullptr) {
    thread_state.refused_by = nullptr;
    return false;
  }
  request->lane = lane;
  request->on_complete = params.on_complete;
  Made& command = request->write_down(Made{params});
  if constexpr (requires { command.payload; }) {
    if (keep) command.payload = tags_->keep(*request, params.payload, params.size_bytes);
  }
  submit(*request, ring_of(lane));
  return true;
}

// The short way (F1), for commands whose address names the process that they go to: `push(queue, lane, stamp)`. Otherwise, and
// on a thread without a seat: Made, by a tag.
template <class Made, class Params, class Push>
bool OffloadTransport::submit_short(ProcessId peer, const RemoteAddress& address, const Params& params, Push&& push) {
  const Lane lane = lane_of(peer);
  Executor& executor = *executors_[static_cast<std::size_t>(ring_of(lane))];
  SubmissionQueue* queue = peer == address.process ? executor.queue(tags_->seat()) : nullptr;
  if (queue == nullptr) [[unlikely]]
    return post<Made>(lane, params);
  if (!push(*queue, lane, executor.stamp())) {
    thread_state.refused_by = &executor;
    return false;
  }
  if (executor.pushed()) below_.wake();
  return true;
}

template <class Params>
bool OffloadTransport::submit_move(ShortKind kind, ProcessId peer, const RemoteAddress& remote,
                                   const LocalAddress& local, const Params& p) {
  return submit_short<Params>(peer, remote, p, [&](SubmissionQueue& queue, Lane lane, std::uint64_t stamp) {
    return queue.try_push(
        kind, {peer, remote.region, remote.offset, local.pointer, p.size_bytes, p.on_complete, local.region, lane},
        stamp);
  });
}

bool OffloadTransport::try_read_async(const ReadParams& params) {
  if (direct()) return below_.try_read_async(params);
  return submit_move(ShortKind::kRead, params.source_process, params.source, params.destination, params);
}

bool OffloadTransport::try_write_async(const WriteParams& params) {
  if (direct()) return below_.try_write_async(params);
  return submit_move(ShortKind::kWrite, params.destination_process, params.destination, params.source, params);
}

bool OffloadTransport::try_atomic_async(const AtomicParams& p) {
  if (direct()) return below_.try_atomic_async(p);
  return submit_short<AtomicParams>(
      p.target_process, p.target, p, [&](SubmissionQueue& queue, Lane lane, std::uint64_t stamp) {
        return queue.try_push({p.target_process, p.target.region, p.target.offset, p.operand, p.expected, p.on_complete,
                               p.op, p.width_bytes, lane},
                              stamp);
      });
}

bool OffloadTransport::try_read_list_async(const ListParams& params) {
  if (direct()) return below_.try_read_list_async(params);
  return post<ReadList>(lane_of(params.process), params);
}

bool OffloadTransport::try_write_list_async(const ListParams& params) {
  if (direct()) return below_.try_write_list_async(params);
  return post<WriteList>(lane_of(params.process), params);
}

bool OffloadTransport::try_read_strided_async(const StridedParams& params) {
  if (direct()) return below_.try_read_strided_async(params);
  return post<ReadStrided>(lane_of(params.remote.process), params);
}

bool OffloadTransport::try_write_strided_async(const StridedParams& params) {
  if (direct()) return below_.try_write_strided_async(params);
  return post<WriteStrided>(lane_of(params.remote.process), params);
}

bool OffloadTransport::try_message_async(const MessageParams& params) {
  if (direct()) return below_.try_message_async(params);
  return post<MessageParams>(lane_of(params.destination), params, params.on_complete.function == nullptr);
}

bool OffloadTransport::try_rpc_async(const RpcParams& params) {
  if (direct()) return below_.try_rpc_async(params);
  return post<RpcParams>(lane_of(params.destination), params, true);
}

bool OffloadTransport::try_barrier_async(Callback on_complete) {
  if (direct()) return below_.try_barrier_async(on_complete);
  return post<Barrier>(kCollectivesLane, Barrier{on_complete});
}

bool OffloadTransport::try_broadcast_async(const BroadcastParams& params) {
  if (direct()) return below_.try_broadcast_async(params);
  return post<BroadcastParams>(kCollectivesLane, params);
}

bool OffloadTransport::try_reduce_async(const ReduceParams& params) {
  if (direct()) return below_.try_reduce_async(params);
  return post<ReduceParams>(kCollectivesLane, params);
}

bool OffloadTransport::try_gather_async(const GatherParams& params) {
  if (direct()) return below_.try_gather_async(params);
  return post<GatherParams>(kCollectivesLane, params);
}

bool OffloadTransport::try_alltoall_async(const AlltoallParams& params) {
  if (direct()) return below_.try_alltoall_async(params);
  return post<AlltoallParams>(kCollectivesLane, params);
}

// --- order (F2) ---

bool OffloadTransport::take_all(std::span<Request*> requests) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i] = tags_->take();
    if (requests[i] != nullptr) continue;
    while (i-- > 0) tags_->give_back(*requests[i]);
    return false;
  }
  return true;
}

bool OffloadTransport::try_fence(ProcessId peer) {
  if (direct()) return below_.try_fence(peer);
  const bool every = peer == kAllProcesses;
  std::array<Request*, kExecutorsMax> room;
  const std::span<Request*> fences(room.data(), every ? executors_.size() : 1);
  if (!take_all(fences)) return false;
  const Lane lane = every ? kEveryLane : lane_of(peer);
  for (std::size_t i = 0; i < fences.size(); ++i) {
    fences[i]->lane = lane;
    fences[i]->write_down(Fence{peer});
    submit(*fences[i], every ? static_cast<int>(i) : ring_of(lane));
  }
  return true;
}

bool OffloadTransport::try_flush_async(ProcessId peer, Callback on_complete) {
  if (direct()) return below_.try_flush_async(peer, on_complete);
  if (peer != kAllProcesses) return post<Flush>(lane_of(peer), Flush{peer, on_complete});
  if (executors_.size() == 1) return post<Flush>(kEveryLane, Flush{peer, on_complete});
  // A part in each ring; the last one to end completes the whole, whose record is `requests[0]`.
  std::array<Request*, kExecutorsMax + 1> room;
  const std::span<Request*> requests(room.data(), executors_.size() + 1);
  if (!take_all(requests)) return false;
  Request& whole = *requests[0];
  whole.on_complete = on_complete;
  whole.outcome.store(Outcome::kOk, std::memory_order_relaxed);  // released, with `parts`, by the rings
  whole.parts.store(static_cast<std::uint32_t>(executors_.size()), std::memory_order_relaxed);
  for (std::size_t i = 1; i < requests.size(); ++i) {
    requests[i]->lane = kEveryLane;
    requests[i]->on_complete = {&end_flush_part, &whole};
    requests[i]->write_down(Flush{peer, {}});
    submit(*requests[i], static_cast<int>(i) - 1);
  }
  return true;
}

// --- handlers ---

void OffloadTransport::set_handler(HandlerId id, HandlerFunction function, void* context) {
  if (direct()) return below_.set_handler(id, function, context);
  AYT_CHECK(id < kHandlersMax, "handler {}", id);
  HandlerTable::Handler& handler = handlers_->handlers[id];
  handler = {function, context, handlers_};
  below_.set_handler(
      id,
      [](void* entry, const Message& message) {
        const CallbackScope scope;
        const auto& its = *static_cast<HandlerTable::Handler*>(entry);
        const std::lock_guard guard(its.table->lock);
        if (!its.table->closed) its.function(its.context, message);
      },
      &handler);
}

void OffloadTransport::set_peer_failure_handler(PeerFailureFunction function, void* context) {
  if (direct()) return below_.set_peer_failure_handler(function, context);
  handlers_->peer_failure = function;
  handlers_->peer_failure_context = context;
  below_.set_peer_failure_handler(
      [](void* table, ProcessId failed) {
        const CallbackScope scope;
        auto& handlers = *static_cast<HandlerTable*>(table);
        const std::lock_guard guard(handlers.lock);
        if (handlers.peer_failure != nullptr && !handlers.closed)
          handlers.peer_failure(handlers.peer_failure_context, failed);
      },
      handlers_);
}

// --- progress ---

std::size_t OffloadTransport::drain(Executor& executor, bool counted) {
  const std::size_t completions = thread_state.completions;
  const Executor::Turn turn = executor.drain();
  const bool completed = thread_state.completions != completions;
  // seq_cst: pairs with WaitScope (F6)
  if (turn.began_to_keep || (completed && waiters_.fetch_add(0, std::memory_order_seq_cst) > std::uint32_t{counted}))
    below_.wake();
  return turn.issued;
}

std::size_t OffloadTransport::drain_all(bool counted) {
  std::size_t issued = 0;
  for (const auto& executor : executors_) issued += drain(*executor, counted);
  return issued;
}

bool OffloadTransport::all_prepared() {
  bool all = true;
  for (const auto& executor : executors_) {
    const bool kept = executor->kept();  // first
    all = executor->prepare_sleep() && !kept && all;
  }
  return all;
}

bool OffloadTransport::executors_at_work() noexcept {
  if (threads_.empty()) return false;
  bool all = thread_state.beats_of == this;
  thread_state.beats_of = this;
  for (std::size_t i = 0; i < executors_.size(); ++i) {
    std::uint32_t& seen = thread_state.beats_seen[i];
    const std::uint32_t now = executors_[i]->beats();
    all = now != seen && all;
    seen = now;
  }
  return all;
}

std::size_t OffloadTransport::progress() {
  if (direct()) return below_.progress();
  if (thread_state.callbacks != 0 || executors_at_work()) return 0;
  const std::size_t before = thread_state.completions;
  drain_all(false);
  const std::size_t ran = thread_state.completions - before;
  return ran + below_.progress();
}

// --- waiting (F5, F6) ---

bool OffloadTransport::wait(bool (*until)(void* data), void* data, std::int64_t timeout_ns) {
  if (direct()) return below_.wait(until, data, timeout_ns);
  AYT_CHECK(thread_state.callbacks == 0, "a handler or completion must not wait");  // N4, N6
  return serve(until, data, timeout_ns);
}

struct OffloadTransport::Look {
  OffloadTransport& net;
  bool (*until)(void* data);
  void* data;
  bool alone;    // no executor sleeps on the rings: this one does
  bool napping;  // commands are kept
  bool met = false;

  // Ends the sleep when the condition holds, and one that should be a nap or no longer be one.
  static bool take(void* self) {
    auto& look = *static_cast<Look*>(self);
    look.net.drain_all(true);
    look.met = look.until(look.data);
    return look.met || (look.alone && look.net.all_prepared() == look.napping);
  }
};

bool OffloadTransport::serve(bool (*until)(void* data), void* data, std::int64_t timeout_ns) {
  const bool alone = threads_.empty();
  const std::int64_t start_ns = base::real_now_ns();
  std::int64_t spent_ns = 0;
  std::int64_t nap_ns = kNapNsMin;
  while (true) {
    for (int polls = 1; polls <= kPollsBeforeWait; ++polls) {
      if (until(data)) return true;
      if (executors_at_work() || drain_all(false) + below_.progress() == 0) pause_or_yield(polls);
    }
    const WaitScope scope(waiters_);
    Look look{*this, until, data, alone, alone && !all_prepared()};
    std::int64_t limit_ns = look.napping ? nap_ns : kNoTimeout;
    if (timeout_ns != kNoTimeout) {
      // The larger of what sleeps took, in the time of the transport below, and what passed in ours.
      spent_ns = std::max(spent_ns, base::real_now_ns() - start_ns);
      if (spent_ns >= timeout_ns) return until(data);
      limit_ns = look.napping ? std::min(nap_ns, timeout_ns - spent_ns) : timeout_ns - spent_ns;
    }
    const bool ended = below_.wait(&Look::take, &look, limit_ns);
    if (look.met) return true;
    if (!ended) spent_ns += limit_ns;
    nap_ns = ended ? kNapNsMin : std::min(nap_ns * 2, kNapNsMax);
  }
}

bool OffloadTransport::wait_for_room(std::int64_t timeout_ns) {
  if (direct()) return below_.wait_for_room(timeout_ns);
  AYT_CHECK(thread_state.callbacks == 0, "a handler or completion must not wait");  // N4, N6
  if (threads_.empty()) return false;                                               // who makes progress meanwhile?
  for (const auto& executor : executors_)
    if (executor.get() == thread_state.refused_by) return executor->wait_for_room(tags_->seat(), timeout_ns);
  return false;
}

// --- executors ---

void OffloadTransport::start_executors() {
  if (options_.mode != OffloadMode::kOffload) return;
  sigset_t all, before;  // the program's signals are not these threads' business
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (const auto& executor : executors_) threads_.emplace_back([this, &executor] { executor_main(*executor); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void OffloadTransport::executor_main(Executor& executor) {
  pthread_setname_np(pthread_self(), "ayatori-offload");
  std::int64_t nap_ns = kNapNsMin;
  std::int64_t idle_since_ns = -1;
  int misses = 0;
  while (!stop_.load(std::memory_order_acquire)) {  // pairs with the destructor
    executor.beat();
    if (drain(executor, false) + below_.progress() != 0) {
      misses = 0;
      idle_since_ns = -1;
      nap_ns = kNapNsMin;
      continue;
    }
    pause_or_yield(++misses);
    if (misses % kPollsPerYield != 0) continue;
    const std::int64_t now_ns = base::real_now_ns();
    if (idle_since_ns < 0) idle_since_ns = now_ns;
    if (now_ns - idle_since_ns < options_.spin_ns) continue;
    doze(executor, nap_ns);
    nap_ns = std::min(nap_ns * 2, kNapNsMax);
    idle_since_ns = -1;
  }
}

// Sleeps until there are commands, or naps while some are kept.
void OffloadTransport::doze(Executor& executor, std::int64_t nap_ns) {
  struct Condition {
    const std::atomic<bool>& stop;
    Executor& executor;
    const bool napping;
    const std::size_t completions;
  } condition{stop_, executor, executor.kept(), thread_state.completions};
  below_.wait(
      [](void* data) {
        const auto& c = *static_cast<Condition*>(data);
        const bool kept = c.executor.kept();              // first
        return c.stop.load(std::memory_order_acquire) ||  // pairs with the destructor
               !c.executor.prepare_sleep() || kept != c.napping ||
               (kept && thread_state.completions != c.completions);  // those made room
      },
      &condition, condition.napping ? nap_ns : kNoTimeout);
  executor.cancel_sleep();
}

}  // namespace ayatori::net::offload
