// SPDX-License-Identifier: Apache-2.0
// Collectives out of active messages, the same for every transport that owns one of these. Called by the transport: start_*
// on any thread, on_message in its handlers, progress() and on_peer_failure on threads that make progress.
//
// What a user calls is cut into operations whose data fits into one message. Two engines carry them out:
// - Trees (broadcast, reduce, gather): a wave up a 4-ary tree rooted at the root and a wave down; data travels up, down or
//   both: 2 log4 n steps.
// - Exchanges (barrier, allgather, alltoall): rounds in which everybody sends to one process and hears from another. Barrier
//   and allgather: dissemination (Hensgen et al. 1988; Bruck et al. 1997), log2 n rounds. Alltoall: Bruck's for short parts,
//   log2 n rounds; for long ones n - 1 independent rounds, each byte sent once.
//
// C1. The n-th operation of one process meets the n-th of every other; differing kinds, roots, sizes or operators are a
//     programmer's error (check). Calls are cut alike everywhere and carried out in the order of the calls.
// C2. Who completes an operation knows that all have called it: a tree's waves and every exchange see to that. Number q is
//     begun when q - kWindow has completed here, which everybody has then begun, and so has completed q - 2 * kWindow:
//     2 * kWindow slots hold whatever arrives early.
// C3. Contributions are combined in tree order whatever their order of arrival: floating point sums are reproducible.
// C4. No message of this class waits for room: what does not fit is kept and sent by progress().
// C5. After a peer failed every collective, under way or new, completes with kPeerFailed; after one left in good order
//     those that it had not begun.
// C6. Data is moved into a caller's buffer only after the caller's own call and before its completion.
// C7. Where processes share memory, what fits into a letter (letters.hpp) is posted, not sent: the receiver looks for it while
//     operations are open, and before it sleeps. A letter stays where it is until its operation has begun.
// C8. In one operation a process sends at most one message or letter to each other. What is no operation's, or comes when or
//     whence the operation expects nothing, or again, or with another length, is a broken peer's and is dropped. C1 is about
//     what a sound process might call.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include <ayatori/net/transport.hpp>
#include "net/letters.hpp"
#include "net/outbox.hpp"

namespace ayatori::net {

class Collectives {
 public:
  static constexpr int kWindow = 8;    // operations under way per process
  static constexpr int kCallsMax = 8;  // calls under way per process
  static constexpr int kSlots = 2 * kWindow;
  static_assert(kSlots == Letters::kSlots);

  // Takes the handlers kNetHandlers + 0, + 1 and + 2.
  explicit Collectives(Transport& transport, const Letters& letters = {});  // C7

  // False: kCallsMax are under way.
  bool start_barrier(Callback on_complete);
  bool start_broadcast(const BroadcastParams& params);
  bool start_reduce(const ReduceParams& params);
  bool start_gather(const GatherParams& params);
  bool start_alltoall(const AlltoallParams& params);

  // True when progress() has something to do: messages wait for room, or letters may come (C7).
  bool pending() const noexcept {
    return outbox_.pending() || open_.load(std::memory_order_seq_cst) != 0;  // pairs with begin()
  }
  bool kept() const noexcept { return outbox_.pending(); }  // messages wait for room; a hint
  std::size_t progress();                                   // returns how many messages left and letters came
  bool letters_came();                                      // there is one that progress() would take (C7)
  void on_peer_failure() { give_up_from(0); }
  void on_peer_left(std::uint64_t calls) { give_up_from(calls); }  // `calls`: calls() of that peer
  std::uint64_t calls();                                           // operations that this process has begun

 private:
  enum class Kind : std::uint8_t {
    kBarrier,
    kBroadcast,
    kReduce,     // at the root alone
    kAllreduce,  // the root is process 0
    kGather,
    kAllgather,
    kAlltoallShort,
    kAlltoallLong
  };
  static constexpr int kArity = 4;
  static bool is_exchange(Kind kind) noexcept {
    return kind == Kind::kBarrier || kind == Kind::kAllgather || kind >= Kind::kAlltoallShort;
  }
  static bool carries_up(Kind kind) noexcept {
    return kind == Kind::kReduce || kind == Kind::kAllreduce || kind == Kind::kGather;
  }
  static bool carries_down(Kind kind) noexcept { return kind == Kind::kBroadcast || kind == Kind::kAllreduce; }

  struct Shape {  // what all processes must agree on (C1)
    Kind kind = Kind::kBarrier;
    Element element = Element::kU64;
    ReduceOp op = ReduceOp::kSum;
    std::uint8_t padding = 0;
    std::int32_t root = 0;
    std::uint64_t bytes = 0;  // per process
    friend bool operator==(const Shape&, const Shape&) = default;
  };
  enum class Way : std::uint8_t { kUp, kDown, kAcross };
  struct Header {
    std::uint64_t sequence;
    Shape shape;
    std::uint32_t round;  // of an exchange
    std::uint32_t padding;
  };

  struct Letter {  // C7
    static constexpr std::size_t kDataBytes = 32;
    Shape shape;
    std::uint32_t round;
    std::uint32_t bytes;
    std::byte data[kDataBytes];
  };
  static_assert(sizeof(Letter) == Letters::kBytes);

  struct Arrival {
    ProcessId source;
    std::uint32_t round;
    std::vector<std::byte> data;
  };
  struct Call {
    std::uint64_t number = 0;
    Shape shape;  // bytes: the whole
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    Callback on_complete;
    std::uint64_t part_bytes = 0;
    std::uint64_t begun_bytes = 0;
    bool all_begun = false;
    bool ended = false;
    int under_way = 0;  // operations
    Outcome outcome = Outcome::kOk;
  };
  struct Operation {  // slot sequence % kSlots
    bool used = false;
    bool begun = false;
    bool sent_up = false;     // trees
    bool sent_round = false;  // exchanges: that of `round`
    std::uint32_t round = 0;
    std::uint64_t sequence = 0;
    std::uint64_t heard = 0;  // bit: the process whose message or letter was taken (C8)
    Shape shape;
    std::uint64_t call = 0;            // number
    const std::byte* input = nullptr;  // of the first process' part
    std::byte* output = nullptr;
    std::uint64_t stride = 0;  // between the parts of two processes in input or output
    std::vector<Arrival> arrivals;
    std::vector<std::byte> value;  // combined or collected so far
  };
  // Filled under the lock, called after it (N4).
  class Done {
   public:
    void add(Callback callback, Outcome outcome) noexcept { ended_[count_++] = {callback, outcome}; }
    void call() const {
      for (int i = 0; i < count_; ++i) ended_[i].callback({ended_[i].outcome, 0, 0});
    }

   private:
    struct Ended {
      Callback callback;
      Outcome outcome;
    };
    int count_ = 0;
    std::array<Ended, kCallsMax> ended_;  // no more calls than these are under way
  };

  bool start(const Shape& shape, const void* input, void* output, Callback on_complete);
  std::uint64_t part_bytes_of(const Shape& shape) const;
  void begin_operations(Done& done);
  void begin(Call& call, Done& done);
  void complete(Operation& operation, Outcome outcome, Done& done);
  void end_if_complete(Call& call, Done& done);
  void on_message(const Message& message, Way way);
  Operation& slot_for(std::uint64_t sequence, const Shape& shape);
  bool makes_sense(const Shape& shape) const;  // C8
  bool fits(const Shape& shape, bool sent_up, Way way, ProcessId source, std::uint32_t round, const std::byte* data,
            std::size_t bytes) const;
  bool gathered_fits(const Shape& shape, int rank, const std::byte* data, std::size_t bytes) const;
  bool take_message(const Header& header, Way way, ProcessId source, const std::byte* data, std::size_t bytes,
                    Done& done);
  static void check_shape(const Operation& operation, const Shape& shape);  // C1
  void take(Operation& operation, Way way, ProcessId source, std::uint32_t round, const std::byte* data,
            std::size_t bytes, Done& done);
  bool expects(const Operation& operation, ProcessId from) const noexcept;
  bool take_letter(Operation& operation, ProcessId from, Done& done);
  std::size_t take_letters(Operation& operation, Done& done);
  template <class Each>
  void for_each_open(Each&& each);

  void begin_tree(Operation& operation);
  void advance_tree(Operation& operation, Done& done);
  void turn_tree(Operation& operation, Done& done);
  void fill_output(Operation& operation) const;

  void begin_exchange(Operation& operation);
  void advance_exchange(Operation& operation, Done& done);
  void send_round(const Operation& operation, std::uint32_t round);
  void take_round(Operation& operation, const Arrival& arrival) const;
  void finish_exchange(Operation& operation) const;
  std::uint32_t rounds(Kind kind) const noexcept;
  ProcessId partner(Kind kind, std::uint32_t round, bool sends) const noexcept;
  std::uint64_t round_bytes(const Shape& shape, std::uint32_t round) const noexcept;

  void send(ProcessId to, Way way, const Operation& operation, std::uint32_t round, const std::byte* data,
            std::size_t bytes);
  void give_up_from(std::uint64_t sequence);
  int relative(ProcessId process, ProcessId root) const noexcept { return wrapped(process - root + processes_); }
  ProcessId absolute(int rank, ProcessId root) const noexcept { return wrapped(rank + root); }
  // Of a sum below 2 * processes_: a remainder without a division.
  int wrapped(int sum) const noexcept { return sum >= processes_ ? sum - processes_ : sum; }

  // Constant after construction.
  Transport& transport_;
  const ProcessId self_;
  const int processes_;
  const Letters letters_;

  std::atomic<std::uint32_t> open_{0};  // operations that wait for letters; changed under mutex_

  std::mutex mutex_;
  // Guarded by mutex_.
  std::uint64_t next_sequence_ = 0;
  std::uint64_t oldest_open_ = 0;  // none before it is open
  std::uint64_t next_call_ = 0;
  std::deque<Call> calls_;  // in order, numbered without gaps
  std::array<Operation, kSlots> operations_;
  Outbox outbox_;
  std::uint64_t give_up_from_ = ~std::uint64_t{0};  // sequences from here on cannot complete (C5)
};

}  // namespace ayatori::net
