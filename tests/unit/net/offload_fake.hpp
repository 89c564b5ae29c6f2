// SPDX-License-Identifier: Apache-2.0
// A transport below offloading that tests command: it says who has room and when requests complete, and writes down what it
// was given, in order. Threads that wait here sleep at once, without a spin and without a time limit of their own, so a
// lost wake-up is a hang.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ayatori/net/transport.hpp>

namespace ayatori::net::offload::testing {

class FakeBelow final : public Transport {
 public:
  explicit FakeBelow(int processes = 4) : processes_(processes) {}

  // Tests: all under the lock.
  struct Issued {
    std::string what;
    ProcessId peer;
    std::uint64_t number;  // params' offset, operand or size
    std::vector<std::byte> payload;
  };
  std::vector<Issued> issued() {
    std::lock_guard lock(mutex_);
    return issued_;
  }
  std::size_t issues() {
    std::lock_guard lock(mutex_);
    return issued_.size();
  }
  void set_room(ProcessId peer, bool room) {
    std::lock_guard lock(mutex_);
    if (room)
      full_.erase(peer);
    else
      full_.insert(peer);
  }
  void set_deferred(bool deferred) {  // true: requests complete in progress() while complete_now is set
    std::lock_guard lock(mutex_);
    deferred_ = deferred;
  }
  void set_open_max(std::size_t most) {  // of deferred requests, to all peers together: then there is no room
    std::lock_guard lock(mutex_);
    open_max_ = most;
  }
  void let_complete(bool may) {
    {
      std::lock_guard lock(mutex_);
      may_complete_ = may;
    }
    wake();
  }
  std::vector<int> batches() {  // requests in each
    std::lock_guard lock(mutex_);
    return batches_;
  }
  int asleep() {
    std::lock_guard lock(mutex_);
    return asleep_;
  }
  int wakes() {
    std::lock_guard lock(mutex_);
    return wakes_;
  }
  // Delivers a message to a handler, on this thread.
  void deliver(HandlerId id, const void* payload, std::size_t bytes) {
    handlers_[id].first(handlers_[id].second, {0, static_cast<const std::byte*>(payload), bytes, {}});
  }

  ProcessId self() const noexcept override { return 0; }
  int processes() const noexcept override { return processes_; }
  bool on_this_machine(ProcessId process) const noexcept override { return process == 1; }
  Capabilities capabilities() const noexcept override { return {true, false, true, false, true}; }
  Limits limits() const noexcept override { return {.payload_bytes_max = kPayloadBytesMax, .rpcs_max = 16}; }
  Counters counters() const noexcept override { return {1, 2, 3}; }
  RegionId register_memory(void*, std::size_t, std::uint8_t) override { return 5; }
  void unregister_memory(RegionId) override {}
  void* direct_pointer(const RemoteAddress&, std::size_t) noexcept override { return this; }

  bool try_read_async(const ReadParams& p) override {
    return take("read", p.source_process, p.source.offset, p.on_complete);
  }
  bool try_write_async(const WriteParams& p) override {
    return take("write", p.destination_process, p.destination.offset, p.on_complete);
  }
  bool try_atomic_async(const AtomicParams& p) override {
    return take("atomic", p.target_process, p.operand, p.on_complete);
  }
  bool try_read_list_async(const ListParams& p) override {
    return take("read list", p.process, p.count, p.on_complete);
  }
  bool try_write_list_async(const ListParams& p) override {
    return take("write list", p.process, p.count, p.on_complete);
  }
  bool try_read_strided_async(const StridedParams& p) override {
    return take("read strided", p.remote.process, p.block_bytes, p.on_complete);
  }
  bool try_write_strided_async(const StridedParams& p) override {
    return take("write strided", p.remote.process, p.block_bytes, p.on_complete);
  }
  bool try_flush_async(ProcessId peer, Callback on_complete) override { return take("flush", peer, 0, on_complete); }
  bool try_fence(ProcessId peer) override { return take("fence", peer, 0, {}); }

  void set_handler(HandlerId id, HandlerFunction function, void* context) override {
    handlers_[id] = {function, context};
  }
  bool try_message_async(const MessageParams& p) override {
    return take("message", p.destination, p.size_bytes, p.on_complete, p.payload, p.size_bytes);
  }
  bool try_rpc_async(const RpcParams& p) override {
    return take("rpc", p.destination, p.size_bytes, p.on_complete, p.payload, p.size_bytes);
  }
  void reply(const ReplyToken&, const void*, std::size_t) override {}

  bool try_barrier_async(Callback on_complete) override { return take("barrier", kAllProcesses, 0, on_complete); }
  bool try_broadcast_async(const BroadcastParams& p) override {
    return take("broadcast", kAllProcesses, p.size_bytes, p.on_complete);
  }
  bool try_reduce_async(const ReduceParams& p) override {
    return take("reduce", kAllProcesses, p.count, p.on_complete);
  }
  bool try_gather_async(const GatherParams& p) override {
    return take("gather", kAllProcesses, p.size_bytes, p.on_complete);
  }
  bool try_alltoall_async(const AlltoallParams& p) override {
    return take("alltoall", kAllProcesses, p.size_bytes, p.on_complete);
  }

  void set_peer_failure_handler(PeerFailureFunction, void*) override {}
  bool peer_failed(ProcessId) const noexcept override { return false; }
  void start() override {}

  std::size_t progress() override {
    std::vector<Callback> now;
    {
      std::lock_guard lock(mutex_);
      if (may_complete_) now.swap(open_);
    }
    for (const Callback& callback : now) callback({outcome, 0, 0});
    if (!now.empty()) ring_bell();  // for those that sleep meanwhile
    return now.size();
  }
  bool wait(bool (*until)(void* data), void* data, std::int64_t timeout_ns) override {
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
    while (true) {
      std::uint64_t bell = 0;
      {
        std::lock_guard lock(mutex_);
        bell = bell_;
      }
      progress();
      if (until(data)) return true;
      std::unique_lock lock(mutex_);
      ++asleep_;
      const auto rung = [&] { return bell_ != bell; };
      bool in_time = true;
      if (timeout_ns == kNoTimeout)
        bell_rings_.wait(lock, rung);
      else
        in_time = bell_rings_.wait_until(lock, end, rung);
      --asleep_;
      if (!in_time) {
        lock.unlock();
        return until(data);
      }
    }
  }
  void begin_batch() noexcept override { batched_ = 0; }
  void end_batch() override {
    std::lock_guard lock(mutex_);
    if (batched_ != 0) batches_.push_back(batched_);
  }
  void wake() noexcept override {
    {
      std::lock_guard lock(mutex_);
      ++wakes_;
    }
    ring_bell();
  }

  static constexpr std::size_t kPayloadBytesMax = 1024;
  Outcome outcome = Outcome::kOk;  // of deferred completions

 private:
  bool take(const char* what, ProcessId peer, std::uint64_t number, Callback callback, const void* payload = nullptr,
            std::size_t bytes = 0) {
    {
      std::lock_guard lock(mutex_);
      if (full_.contains(peer) || open_.size() >= open_max_) return false;
      Issued entry{what, peer, number, {}};
      if (bytes <= kPayloadBytesMax && bytes != 0) {
        entry.payload.resize(bytes);
        std::memcpy(entry.payload.data(), payload, bytes);
      }
      issued_.push_back(std::move(entry));
      ++batched_;
      if (deferred_ && callback.function != nullptr) {
        open_.push_back(callback);
        return true;
      }
    }
    callback({bytes > kPayloadBytesMax ? Outcome::kTooLarge : Outcome::kOk, 0, number});
    return true;
  }
  void ring_bell() {
    std::lock_guard lock(mutex_);
    ++bell_;
    bell_rings_.notify_all();
  }

  const int processes_;
  std::pair<HandlerFunction, void*> handlers_[kHandlersMax] = {};
  std::mutex mutex_;
  // Guarded by mutex_.
  std::condition_variable bell_rings_;
  std::uint64_t bell_ = 0;
  int asleep_ = 0;
  int wakes_ = 0;
  std::vector<int> batches_;
  static inline thread_local int batched_ = 0;  // since this thread's begin_batch()
  bool deferred_ = false;
  bool may_complete_ = true;
  std::size_t open_max_ = ~std::size_t{0};
  std::set<ProcessId> full_;
  std::vector<Callback> open_;
  std::vector<Issued> issued_;
};

}  // namespace ayatori::net::offload::testing
