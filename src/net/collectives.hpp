// SPDX-License-Identifier: Apache-2.0
// Barrier, broadcast and reduction out of active messages, the same for every transport that owns one of these. Called
// by the transport: start_* on any thread, on_message in its handlers, progress() and on_peer_failure on threads that
// make progress.
//
// Every collective is one wave up a 4-ary tree (rooted at the root) and one wave down; data travels up (reduce), down
// (broadcast, reduce) or not at all (barrier).
//
// C1. The n-th collective of one process meets the n-th of every other; differing kinds, roots, sizes or operators are a
//     programmer's error (check).
// C2. A process sends up once it has called and heard all its children; it completes, and sends down, when the result comes
//     down. It may call number q when q - kWindow has completed here, which everybody has then called, and so has
//     completed q - 2 * kWindow: 2 * kWindow slots hold whatever arrives early, also when the trees' roots differ.
// C3. Contributions are combined in tree order whatever their order of arrival: floating point sums are reproducible.
// C4. No message of this class waits for room: what does not fit is kept and sent by progress().
// C5. After a peer failed every collective, under way or new, completes with kPeerFailed; after one left in good order
//     those that it had not called.
// More kinds (gather, scans, hierarchical trees) are further payload rules on the same two waves.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "net/transport.hpp"

namespace ayatori::net {

class Collectives {
 public:
  static constexpr int kWindow = 8;  // under way per process

  explicit Collectives(Transport& transport);  // takes the handlers kNetHandlers + 0 and + 1

  bool start_barrier(Callback on_complete);
  bool start_broadcast(const BroadcastParams& params);
  bool start_reduce(const ReduceParams& params);

  // True when messages wait for room. A hint, hence relaxed: progress() locks.
  bool pending() const noexcept { return outbox_size_.load(std::memory_order_relaxed) != 0; }
  std::size_t progress();  // returns how many messages left
  void on_peer_failure() { give_up_from(0); }
  void on_peer_left(std::uint64_t calls) { give_up_from(calls); }  // `calls`: calls() of that peer
  std::uint64_t calls();                                           // collectives that this process has called

 private:
  enum class Kind : std::uint8_t { kBarrier, kBroadcast, kReduce };
  static constexpr int kArity = 4;

  struct Shape {  // what all processes must agree on (C1)
    Kind kind = Kind::kBarrier;
    Element element = Element::kU64;
    ReduceOp op = ReduceOp::kSum;
    std::uint8_t padding = 0;
    std::int32_t root = 0;
    std::uint64_t bytes = 0;
    friend bool operator==(const Shape&, const Shape&) = default;
  };
  struct Header {
    std::uint64_t sequence;
    Shape shape;
  };
  static_assert(sizeof(Header) <= kCollectiveHeaderBytes);

  struct Contribution {
    ProcessId source;
    std::vector<std::byte> data;
  };
  static constexpr int kSlots = 2 * kWindow;
  struct Operation {  // slot sequence % kSlots
    bool used = false;
    bool called = false;
    bool sent_up = false;
    std::uint64_t sequence = 0;
    Shape shape;
    const void* input = nullptr;
    void* output = nullptr;
    Callback on_complete;
    std::vector<Contribution> children;
    std::vector<std::byte> value;  // combined so far
  };
  struct Outgoing {
    ProcessId to;
    HandlerId handler;
    std::vector<std::byte> bytes;
  };
  // Filled under the lock, called after it (N4).
  struct Done {
    Callback callback;
    Completion completion;
  };

  bool start(const Shape& shape, const void* input, void* output, Callback on_complete);
  void on_message(const Message& message, bool up);
  Operation& slot_for(std::uint64_t sequence, const Shape& shape);
  void advance(Operation& operation, std::vector<Done>& done);
  void finish(Operation& operation, std::vector<Done>& done);
  void send(ProcessId to, HandlerId handler, const Header& header, const std::byte* data, std::size_t bytes);
  void give_up_from(std::uint64_t sequence);
  void combine(const Shape& shape, std::byte* into, const std::byte* from) const;
  int relative(ProcessId process, ProcessId root) const noexcept { return (process - root + processes_) % processes_; }
  ProcessId absolute(int rank, ProcessId root) const noexcept { return (rank + root) % processes_; }

  // Constant after construction.
  Transport& transport_;
  const ProcessId self_;
  const int processes_;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::uint64_t next_sequence_ = 0;
  std::array<Operation, kSlots> operations_;
  std::deque<Outgoing> outbox_;
  std::uint64_t give_up_from_ = ~std::uint64_t{0};  // sequences from here on cannot complete (C5)

  std::atomic<std::size_t> outbox_size_{0};
};

}  // namespace ayatori::net
