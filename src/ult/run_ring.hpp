// SPDX-License-Identifier: Apache-2.0
// Threads that may run next on a worker, first in, first out: yielded, or woken by what ran there. Lies in memory mapped by
// all processes; the owner adds, the owner and thieves of any process take. An addition costs no atomic read-modify-write,
// taking costs one.
//
// R1. Only the owner writes tail_ and entries; an entry is published by the release store of tail_ after it.
// R2. An entry is taken by whoever moves head_ past it by compare-and-swap, and read before: the owner writes it again
//     only after head_ has moved, when that exchange fails.
// R3. Indices only grow; the ring has room when fewer than kRoom lie between them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ayatori::ult {

template <class T>
class RunRing {
 public:
  static constexpr std::uint64_t kRoom = 256;  // a power of two

  // Owner. False: no room.
  bool try_push(T* item) noexcept {
    const std::uint64_t t = tail_.load(std::memory_order_relaxed);         // owner only (R1)
    if (t - head_.load(std::memory_order_acquire) == kRoom) return false;  // pairs with the exchange in pop()
    ring_[t & (kRoom - 1)].store(item, std::memory_order_relaxed);         // published by the next line (R1)
    tail_.store(t + 1, std::memory_order_release);                         // pairs with the acquire in pop()
    return true;
  }

  // Any thread. Null when empty; never null because another takes at the same time.
  T* pop() noexcept {
    std::uint64_t h = head_.load(std::memory_order_acquire);
    for (;;) {
      if (h >= tail_.load(std::memory_order_acquire)) return nullptr;          // pairs with try_push()
      T* const item = ring_[h & (kRoom - 1)].load(std::memory_order_relaxed);  // R2
      if (head_.compare_exchange_weak(h, h + 1, std::memory_order_acq_rel)) return item;
    }
  }

  bool looks_empty() const noexcept {  // a hint
    return head_.load(std::memory_order_relaxed) >= tail_.load(std::memory_order_relaxed);
  }

  // Any thread, for people: the entry that is `age`-th oldest now, or null. Taken by no one, so it may be gone at once.
  T* look(std::uint64_t age) const noexcept {
    const std::uint64_t h = head_.load(std::memory_order_acquire) + age;
    if (h >= tail_.load(std::memory_order_acquire)) return nullptr;
    return ring_[h & (kRoom - 1)].load(std::memory_order_relaxed);
  }

  // For the context switch in assembly, which adds to the ring: where its fields lie.
  static constexpr std::size_t kTailAt = 64, kEntriesAt = 128;

 private:
  alignas(64) std::atomic<std::uint64_t> head_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  alignas(64) std::atomic<T*> ring_[kRoom] = {};
};

}  // namespace ayatori::ult
