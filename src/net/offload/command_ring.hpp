// SPDX-License-Identifier: Apache-2.0
// The command ring of thesis 4.4.1-4.4.2 within one process: bounded, many producers (requesters), one consumer at a time
// (the executor; whoever else consumes holds the executor's lock). A slot is one word: the address of what was pushed, which
// is in the producer's hands before and in the consumer's afterwards, and the parity of the lap. So it is its own `visible`
// flag (listing 4.2), costs one store to fill, and tells producers that it is free: they never look at `head`.
//
// G1. Slot t % slots holds {null, parity of t's lap} from when the consumer took ticket t - slots until ticket t is filled.
//     Ticket t is the producer's whose CAS moves `tail` from t to t + 1, after it saw that; tickets only grow (63 bits).
//     A slot is never more than a lap behind `tail`, so one bit tells laps apart.
// G2. The producer fills slot t after its CAS; the consumer takes slots in the order of their tickets and stops at one that
//     is not filled. A producer that is preempted in between holds up those behind it; it does not die (one process).
// G3. The low bit of `tail` says "the consumer sleeps or is about to". The push that finds it set clears it and owes one
//     wake-up; no other does. The consumer sets it by CAS only while tail == head: a push is either before the CAS, which
//     then fails, or after it, and sees the bit. One variable holds both, so coherence alone decides, and the CASes may
//     be relaxed. The wake-up brings its own order: a consumer whose sleep begins after it (the futex word, the lock of a
//     condition variable) finds `tail` moved when it looks.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/check.hpp"

namespace ayatori::net::offload {

template <class T>
class CommandRing {
 public:
  static constexpr std::size_t kSlotsMin = 2;

  explicit CommandRing(std::size_t slots)
      : slots_(std::make_unique<std::atomic<std::uintptr_t>[]>(slots)),  // {null, 0}: lap 0
        mask_(slots - 1),
        lap_shift_(std::countr_zero(slots)) {
    AYT_CHECK(slots >= kSlotsMin && std::has_single_bit(slots), "ring of {} slots", slots);
  }

  // --- producers ---
  // False: full. *wake is set when the caller owes the consumer a wake-up (G3); *its_ticket is where it lies.
  bool try_push(T* value, bool* wake, std::uint64_t* its_ticket = nullptr) noexcept {
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);  // the CAS validates it
    while (true) {
      const std::uint64_t ticket = tail >> 1;
      std::atomic<std::uintptr_t>& slot = slots_[ticket & mask_];
      if (slot.load(std::memory_order_acquire) != parity(ticket)) {  // acquire: pairs with pop()
        const std::uint64_t now = tail_.load(std::memory_order_relaxed);
        if (now == tail) return false;  // a lap behind (G1)
        tail = now;
        continue;
      }
      // G1, G3. acq_rel: what a producer did before it pushed is before what a later one does after (executor.hpp E6)
      if (!tail_.compare_exchange_weak(tail, (ticket + 1) << 1, std::memory_order_acq_rel, std::memory_order_relaxed))
        continue;
      // release: *value; pairs with pop()
      slot.store(reinterpret_cast<std::uintptr_t>(value) | parity(ticket), std::memory_order_release);
      if ((tail & 1) != 0) *wake = true;
      if (its_ticket != nullptr) *its_ticket = ticket;
      return true;
    }
  }

  // --- the consumer ---
  // Takes up to `limit` values; fewer when the next is not there yet (G2).
  std::size_t pop(T** values, std::size_t limit) noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);  // ours
    std::size_t count = 0;
    for (; count < limit; ++count, ++head) {
      std::atomic<std::uintptr_t>& slot = slots_[head & mask_];
      const std::uintptr_t word = slot.load(std::memory_order_acquire);  // pairs with try_push()
      if (word == parity(head)) break;
      values[count] = reinterpret_cast<T*>(word & ~std::uintptr_t{1});
      slot.store(parity(head) ^ 1, std::memory_order_release);  // pairs with try_push(): the next lap's turn
    }
    if (count != 0) head_.store(head, std::memory_order_release);  // pairs with prepare_sleep()
    return count;
  }

  // Any thread, a hint: pop() would find nothing. Looks at the slot, for `tail` is the producers' to write.
  bool nothing_visible() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    return slots_[head & mask_].load(std::memory_order_relaxed) == parity(head);
  }
  // Any thread: announces sleep. False: the ring is not empty, do not sleep.
  bool prepare_sleep() noexcept {
    const std::uint64_t head = head_.load(std::memory_order_acquire);  // pairs with pop(): `tail` is not older than it
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);        // the CAS validates it
    while (tail >> 1 == head) {
      if ((tail & 1) != 0) return true;  // set already: whoever clears it wakes all that sleep
      if (tail_.compare_exchange_weak(tail, tail | 1, std::memory_order_relaxed)) return true;  // G3
    }
    return false;
  }
  // Only where one thread alone sleeps on the bit: it is awake, nobody owes a wake-up.
  void cancel_sleep() noexcept {
    if ((tail_.load(std::memory_order_relaxed) & 1) != 0) tail_.fetch_and(~std::uint64_t{1}, std::memory_order_relaxed);
  }

 private:
  static_assert(alignof(T) >= 2, "the low bit is the lap's");
  std::uintptr_t parity(std::uint64_t ticket) const noexcept { return ticket >> lap_shift_ & 1; }

  // Constant after construction.
  const std::unique_ptr<std::atomic<std::uintptr_t>[]> slots_;
  const std::uint64_t mask_;
  const int lap_shift_;

  alignas(64) std::atomic<std::uint64_t> tail_{0};  // ticket * 2 + sleep bit
  alignas(64) std::atomic<std::uint64_t> head_{0};  // ticket; written by the consumer only
};

}  // namespace ayatori::net::offload
