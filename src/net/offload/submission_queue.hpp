// SPDX-License-Identifier: Apache-2.0
// A thread's own way to an executor, for requests that fit into a cache line: one producer, one consumer at a time, no locked
// instruction, and no line that another requester writes. What a call costs does not depend on how many threads call, nor
// on where the consumer runs: the producer only stores, and stores wait for nobody (docs/design/offloading.md).
//
// U1. A slot is one line: `header` says which lap filled it (one bit), what it holds, and its stamp. The producer fills slot
//     t, the header last; the consumer takes them in order. The producer knows a free slot by `head`, of which it keeps a
//     copy: it looks at the consumer's line when by that copy the queue is full.
// U2. The stamp is the number of the executor's ring commands that must have gone before: executor.hpp E6. It never falls.
// U3. The producer's half is handed from thread to thread with the seat (tags.hpp A4), the consumer's half with the
//     executor's lock.
// U4. A producer that waits for room announces it and looks at `head` once more; the consumer moves `head` and looks for the
//     announcement. All four are sequentially consistent, so one of them sees the other. The wait has a limit besides: the
//     consumer may be held up.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <ayatori/net/types.hpp>
#include "base/futex.hpp"

namespace ayatori::net::offload {

// What a slot holds, by kind.
enum class ShortKind : std::uint8_t { kRead, kWrite, kAtomic };

struct ShortMove {  // kRead, kWrite
  ProcessId process;
  RegionId region;
  std::uint64_t offset;
  void* local;
  std::uint64_t size_bytes;
  Callback on_complete;
  RegionId local_region;
  std::int32_t lane;
};
struct ShortAtomic {
  ProcessId process;
  RegionId region;
  std::uint64_t offset;
  std::uint64_t operand;
  std::uint64_t expected;
  Callback on_complete;
  AtomicOp op;
  std::uint8_t width_bytes;
  std::int32_t lane;
};

class alignas(64) SubmissionQueue {
 public:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> header{0};  // stamp * 8 + kind * 2 + the lap's parity
    union {
      ShortMove move;
      ShortAtomic atomic;
    };
    Slot() noexcept : move{} {}

    ShortKind kind() const noexcept {
      return static_cast<ShortKind>(header.load(std::memory_order_relaxed) >> 1 & 3);  // by who saw it filled
    }
  };
  static_assert(sizeof(Slot) == 64);

  explicit SubmissionQueue(std::size_t slots)  // a power of two
      : slots_(std::make_unique<Slot[]>(slots)), mask_(slots - 1) {}

  // --- the producer ---
  // False: full.
  bool try_push(ShortKind kind, const ShortMove& what, std::uint64_t stamp) noexcept {
    Slot* slot = next_free();
    if (slot == nullptr) return false;
    slot->move = what;
    publish(*slot, kind, stamp);
    return true;
  }
  bool try_push(const ShortAtomic& what, std::uint64_t stamp) noexcept {
    Slot* slot = next_free();
    if (slot == nullptr) return false;
    slot->atomic = what;
    publish(*slot, ShortKind::kAtomic, stamp);
    return true;
  }

  // Sleeps until no more than a quarter is full, so that a wake-up is worth many requests; timeout_ns at most (U4).
  void wait_for_room(std::int64_t timeout_ns) noexcept {
    room_wanted_.store(1, std::memory_order_seq_cst);  // pairs with tell_room()
    if (tail_ - head_.load(std::memory_order_seq_cst) > low_water()) base::futex_wait(room_wanted_, 1, timeout_ns);
    room_wanted_.store(0, std::memory_order_relaxed);
  }
  bool full() noexcept { return next_free() == nullptr; }

  // --- the consumer ---
  // The next to take, nullptr: there is none, or its stamp is above `stamp`.
  const Slot* front(std::uint64_t stamp) const noexcept {
    return visible(head_.load(std::memory_order_relaxed), stamp);
  }
  void pop() noexcept {
    // release: what was read of the slot; pairs with next_free()
    head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // After some pop(): wakes a producer that waits for as much room as there is now.
  void tell_room() noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    head_.store(head, std::memory_order_seq_cst);  // U4
    if (room_wanted_.load(std::memory_order_seq_cst) == 0 || filled(head + low_water())) return;
    room_wanted_.store(0, std::memory_order_relaxed);
    base::futex_wake(room_wanted_, 1);
  }
  std::uint64_t head() const noexcept { return head_.load(std::memory_order_relaxed); }
  // One past the last that front(stamp) would come to, were all before it taken; the queue at its present length.
  std::uint64_t end(std::uint64_t stamp) const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    std::uint64_t end = head;
    while (end != head + mask_ + 1 && visible(end, stamp) != nullptr) ++end;
    return end;
  }
  // Any thread, a hint.
  bool nothing_visible() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    return !filled(head);
  }

  std::uint64_t limit = 0;  // the consumer's: executor.hpp E6

 private:
  // Of lap 0 it is 1, as the slots are 0 before.
  std::uint64_t parity(std::uint64_t ticket) const noexcept { return (ticket & (mask_ + 1)) == 0 ? 1 : 0; }
  bool filled(std::uint64_t ticket) const noexcept {
    return (slots_[ticket & mask_].header.load(std::memory_order_acquire) & 1) == parity(ticket);
  }
  std::uint64_t low_water() const noexcept { return (mask_ + 1) / 4; }
  Slot* next_free() noexcept {
    if (tail_ - head_seen_ > mask_) {
      head_seen_ = head_.load(std::memory_order_acquire);  // pairs with pop()
      if (tail_ - head_seen_ > mask_) return nullptr;
    }
    return &slots_[tail_ & mask_];
  }
  void publish(Slot& slot, ShortKind kind, std::uint64_t stamp) noexcept {
    const std::uint64_t header = stamp << 3 | static_cast<std::uint64_t>(kind) << 1 | parity(tail_);
    slot.header.store(header, std::memory_order_release);  // the slot's contents; pairs with visible()
    ++tail_;
  }
  const Slot* visible(std::uint64_t ticket, std::uint64_t stamp) const noexcept {
    const Slot& slot = slots_[ticket & mask_];
    const std::uint64_t header = slot.header.load(std::memory_order_acquire);  // pairs with publish()
    return (header & 1) == parity(ticket) && header >> 3 <= stamp ? &slot : nullptr;
  }

  // Constant after construction.
  const std::unique_ptr<Slot[]> slots_;
  const std::uint64_t mask_;

  // The producer's.
  alignas(64) std::uint64_t tail_ = 0;
  std::uint64_t head_seen_ = 0;

  alignas(64) std::atomic<std::uint64_t> head_{0};  // written by the consumer only
  std::atomic<std::uint32_t> room_wanted_{0};       // U4; the futex
};

}  // namespace ayatori::net::offload
