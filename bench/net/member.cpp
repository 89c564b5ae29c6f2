// SPDX-License-Identifier: Apache-2.0
#include "member.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>

#include <ayatori/net/blocking.hpp>
#include "base/waiter.hpp"

namespace bench {
namespace {

constexpr net::HandlerId kEcho = net::kUserHandlers, kCount = net::kUserHandlers + 1;
constexpr std::uint64_t kCountAt = 0;                       // control word: messages that were handled
constexpr std::uint64_t kAtomicsAt = 64;                    // control word: target of atomics
constexpr std::size_t kSamplesMin = 3, kSamplesMax = 8192;  // a thread
constexpr std::size_t kLongBytes = 4096;  // requests beyond take so long that the clock may be read after each
constexpr int kShortRequests = 16;        // requests between two looks at the clock, of others
constexpr std::size_t kWindowBytes = 16 << 20;
constexpr int kCollectiveWarmUps = 5;

void send(int pipe_fd, const Record& record) {
  if (write(pipe_fd, &record, sizeof record) != sizeof record) _exit(kMemberFailed);  // the driver is gone
}

// What a requester has under way. Completions come on any thread.
class UnderWay {
 public:
  UnderWay(int pipe_fd, const Point& point) : pipe_fd_(pipe_fd), point_(point) {}
  net::Callback callback() noexcept { return {&UnderWay::complete, this}; }
  void issued() noexcept { ++issued_; }
  bool none() const noexcept { return completed_.load(std::memory_order_acquire) == issued_; }  // pairs with complete()
  // Waits until at most `most` of the requests are under way.
  void wait(net::Transport& net, std::uint64_t most) const {
    // acquire: pairs with complete(); what was read has landed
    const auto few = [&] { return issued_ - completed_.load(std::memory_order_acquire) <= most; };
    if (!few()) net::wait_until(net, few);
  }

 private:
  static void complete(void* self, net::Completion completion) {
    auto& under_way = *static_cast<UnderWay*>(self);
    if (!completion.ok()) {
      send(under_way.pipe_fd_, {Record::Kind::kFailed, {}, completion.outcome, under_way.point_, 0});
      _exit(kMemberFailed);  // E2
    }
    under_way.completed_.fetch_add(1, std::memory_order_release);  // pairs with wait()
  }

  const int pipe_fd_;
  const Point point_;
  std::uint64_t issued_ = 0;  // Requester's thread only.
  alignas(64) std::atomic<std::uint64_t> completed_{0};
};

// In ticks, the readings of the clock between included.
struct Samples {
  std::vector<std::uint64_t> latencies;
  std::vector<std::uint64_t> overheads;  // of ping() only
};
constexpr int kLatencyReads = 2, kOverheadReads = 1, kBatchReads = 1;  // Clock K2
constexpr int kTrials = 16;
constexpr double kBatchNs = 1000;  // E4
struct Flood {
  std::uint64_t start = 0, end = 0, requests = 0;
};

class Member {
 public:
  Member(net::Transport& transport, std::byte* memory, const Plan& plan, const Clock& clock, int pipe_fd)
      : net_(transport), memory_(memory), plan_(plan), clock_(clock), pipe_fd_(pipe_fd) {}

  void run() {
    net_.set_handler(kEcho, echo, this);
    net_.set_handler(kCount, count, memory_ + kCountAt);
    net_.start();
    barrier();
    if (net_.processes() == 2 && net_.self() == 0)
      for (const Point& point : plan_.pair_points) measure_pair(point);
    barrier();
    for (const Point& point : plan_.collective_points) measure_collective(point);
    barrier();
  }

 private:
  static void echo(void* self, const net::Message& message) {
    static_cast<Member*>(self)->net_.reply(message.token, message.payload, message.size_bytes);
  }
  static void count(void* word, const net::Message&) {
    // relaxed: process 0 wants the number alone
    std::atomic_ref(*static_cast<std::uint64_t*>(word)).fetch_add(1, std::memory_order_relaxed);
  }

  void begins(const Point& point) { send(pipe_fd_, {Record::Kind::kBegins, {}, {}, point, 0}); }
  void found(const Point& point, Quantity quantity, double ns) {
    send(pipe_fd_, {Record::Kind::kValue, quantity, {}, point, ns});
  }
  void expect(net::Completion completion, const Point& point) {
    if (completion.ok()) return;
    send(pipe_fd_, {Record::Kind::kFailed, {}, completion.outcome, point, 0});
    _exit(kMemberFailed);  // E2
  }
  void barrier() { expect(net::barrier(net_), {Operation::kBarrier}); }

  // One attempt of requester `thread`.
  bool try_issue(const Point& point, int thread, net::Callback done) {
    constexpr net::ProcessId kTarget = 1;
    const net::RemoteAddress remote{kTarget, 0, kControlBytes}, word{kTarget, 0, kAtomicsAt};
    std::byte* const local = memory_ + kControlBytes + plan_.bytes_max * static_cast<std::size_t>(thread + 1);
    switch (point.operation) {
      case Operation::kRead: return net_.try_read_async({kTarget, remote, {local, 0}, point.bytes, done});
      case Operation::kWrite: return net_.try_write_async({kTarget, remote, {local, 0}, point.bytes, done});
      case Operation::kRoundTrip:
        return net_.try_rpc_async({kTarget, kEcho, local, point.bytes, {local, 0}, point.bytes, done});
      case Operation::kMessage: return net_.try_message_async({kTarget, kCount, local, point.bytes, done});
      case Operation::kFetchAdd: return net_.try_atomic_async({kTarget, word, net::AtomicOp::kFetchAdd, 1, 0, done});
      case Operation::kCompareSwap:
        return net_.try_atomic_async({kTarget, word, net::AtomicOp::kCompareSwap, 1, 1, done});
      case Operation::kBarrier: return net_.try_barrier_async(done);
      case Operation::kAllreduce:
        return net_.try_reduce_async({local, local, point.bytes / 8, net::Element::kU64, net::ReduceOp::kMax, done});
    }
    return false;
  }
  void issue(const Point& point, int thread, UnderWay& under_way) {
    net::until_taken(net_, [&] { return try_issue(point, thread, under_way.callback()); });
    under_way.issued();
  }

  // E4: how many requests to time at once; 1: each with its overhead.
  int batch_of(const Point& point) {
    UnderWay under_way(pipe_fd_, point);
    std::vector<std::uint64_t> times;
    for (int i = 0; i < kTrials; ++i) {
      const std::uint64_t start = clock_.now();
      issue(point, 0, under_way);
      if (!under_way.none()) {
        under_way.wait(net_, 0);
        return 1;
      }
      times.push_back(clock_.now() - start);
    }
    return static_cast<int>(std::ceil(kBatchNs / std::max(1.0, clock_.median_ns(std::move(times), kBatchReads))));
  }

  // E4, until `enough` says so; it is asked with the time of the last completion.
  template <class Enough>
  void ping_batches(const Point& point, int thread, int batch, Samples& samples, Enough&& enough) {
    UnderWay under_way(pipe_fd_, point);
    std::uint64_t completed;
    do {
      const std::uint64_t first = clock_.now();
      for (int i = 0; i < batch; ++i) {
        issue(point, thread, under_way);
        under_way.wait(net_, 0);
      }
      completed = clock_.now();
      samples.latencies.push_back(completed - first);
    } while (!enough(completed));
  }

  // Listing 4.6, likewise.
  template <class Enough>
  void ping(const Point& point, int thread, Samples& samples, Enough&& enough) {
    UnderWay under_way(pipe_fd_, point);
    std::uint64_t completed;
    do {
      const std::uint64_t first = clock_.now();
      std::uint64_t attempt = first;
      base::SpinThenSleep spin;
      while (!try_issue(point, thread, under_way.callback())) {
        if (net_.progress() == 0) spin.wait();
        attempt = clock_.now();
      }
      const std::uint64_t taken = clock_.now();
      under_way.issued();
      under_way.wait(net_, 0);
      completed = clock_.now();
      samples.overheads.push_back(taken - attempt);
      samples.latencies.push_back(completed - first);
    } while (!enough(completed));
  }

  // Listing 4.7 with a bound on what is under way.
  void flood(const Point& point, int thread, Flood& flood) {
    UnderWay under_way(pipe_fd_, point);
    const std::size_t window =
        std::max<std::size_t>(2, std::min(plan_.window, kWindowBytes / std::max<std::size_t>(point.bytes, 1)));
    const int at_once = point.bytes > kLongBytes ? 1 : kShortRequests;
    flood.start = clock_.now();
    const std::uint64_t end = flood.start + clock_.ticks(plan_.point_ns);
    do {
      for (int i = 0; i < at_once; ++i) {
        under_way.wait(net_, window - 1);
        issue(point, thread, under_way);
      }
      flood.requests += static_cast<std::uint64_t>(at_once);
    } while (clock_.now() < end);
    under_way.wait(net_, 0);
    flood.end = clock_.now();
  }

  // Runs `work(thread)` on the point's requesters, which begin together, after a request of each that nobody counts.
  void on_requesters(const Point& point, const std::function<void(int)>& work) {
    std::barrier together(point.threads);
    const auto body = [&](int thread) {
      UnderWay under_way(pipe_fd_, point);
      issue(point, thread, under_way);
      under_way.wait(net_, 0);
      together.arrive_and_wait();
      work(thread);
    };
    std::vector<std::thread> others;
    for (int thread = 1; thread < point.threads; ++thread) others.emplace_back(body, thread);
    body(0);
    for (std::thread& other : others) other.join();
  }

  void measure_pair(const Point& point) {
    const bool is_message = point.operation == Operation::kMessage;
    const net::Limits limits = net_.limits();
    if (is_message && point.bytes > limits.long_bytes_max) return;
    if (point.operation == Operation::kRoundTrip && point.bytes > limits.payload_bytes_max) return;
    begins(point);
    const auto threads = static_cast<std::size_t>(point.threads);
    if (point.flood) {
      std::vector<Flood> floods(threads);
      on_requesters(point, [&](int thread) { flood(point, thread, floods[static_cast<std::size_t>(thread)]); });
      std::uint64_t start = floods[0].start, end = floods[0].end, requests = 0;
      for (const Flood& flood : floods) {
        start = std::min(start, flood.start);
        end = std::max(end, flood.end);
        requests += flood.requests;
      }
      if (is_message) {  // completed does not mean handled
        handled_ += requests + threads;
        await_handled(point);
        end = clock_.now();
      }
      found(point, Quantity::kGap, clock_.ns(end - start) / static_cast<double>(requests));
      return;
    }
    const int batch = batch_of(point);
    std::vector<Samples> samples(threads);
    on_requesters(point, [&](int thread) {
      Samples& own = samples[static_cast<std::size_t>(thread)];
      const std::uint64_t end = clock_.now() + clock_.ticks(plan_.point_ns);
      const auto enough = [&](std::uint64_t now) {
        const std::size_t count = own.latencies.size();
        return count >= kSamplesMin && (count >= kSamplesMax || now >= end);
      };
      if (batch > 1)
        ping_batches(point, thread, batch, own, enough);
      else
        ping(point, thread, own, enough);
    });
    for (std::size_t i = 1; i < threads; ++i) {
      const auto append = [](std::vector<std::uint64_t>& to, const std::vector<std::uint64_t>& from) {
        to.insert(to.end(), from.begin(), from.end());
      };
      append(samples[0].latencies, samples[i].latencies);
      append(samples[0].overheads, samples[i].overheads);
    }
    if (batch > 1) {
      const double ns = clock_.median_ns(std::move(samples[0].latencies), kBatchReads) / batch;
      found(point, Quantity::kLatency, ns);
      found(point, Quantity::kOverhead, ns);
      return;
    }
    found(point, Quantity::kLatency, clock_.median_ns(std::move(samples[0].latencies), kLatencyReads));
    found(point, Quantity::kOverhead, clock_.median_ns(std::move(samples[0].overheads), kOverheadReads));
  }

  void await_handled(const Point& point) {
    net::until_taken(net_, [&] {
      std::uint64_t handled = 0;
      expect(net::read(net_, {1, 0, kCountAt}, &handled, sizeof handled), point);
      return handled == handled_;
    });
  }

  // Process 0 finds out how many fit into the time and tells the others.
  void measure_collective(const Point& point) {
    const bool is_first = net_.self() == 0;
    if (is_first) begins(point);
    const auto repeat = [&](std::uint64_t times) {
      Samples samples;
      ping(point, 0, samples, [&](std::uint64_t) { return samples.latencies.size() >= times; });
      return clock_.median_ns(std::move(samples.latencies), kLatencyReads);
    };
    const double one_ns = std::max(1.0, repeat(kCollectiveWarmUps));
    std::uint64_t times = std::clamp(static_cast<std::uint64_t>(plan_.point_ns / one_ns), std::uint64_t{kSamplesMin},
                                     std::uint64_t{kSamplesMax});
    expect(net::broadcast(net_, 0, &times, sizeof times), point);
    const double ns = repeat(times);
    if (is_first) found(point, Quantity::kLatency, ns);
  }

  net::Transport& net_;
  std::byte* const memory_;
  const Plan& plan_;
  const Clock& clock_;
  const int pipe_fd_;
  std::uint64_t handled_ = 0;  // Process 0: messages that its peer has handled, or will
};

}  // namespace

std::size_t memory_bytes(const Plan& plan) {
  return kControlBytes + plan.bytes_max * static_cast<std::size_t>(plan.threads_max + 1);
}

void run_member(Fabric& fabric, net::ProcessId self, const Plan& plan, const Clock& clock, int pipe_fd) {
  net::Transport& transport = fabric.attach(self);
  // No page is touched for the first time while something is timed.
  std::memset(fabric.memory(), 0, memory_bytes(plan));
  Member(transport, fabric.memory(), plan, clock, pipe_fd).run();
  fabric.detach();
  _exit(0);
}

}  // namespace bench
