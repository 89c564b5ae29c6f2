// SPDX-License-Identifier: Apache-2.0
// The work-stealing deque of a worker (Chase and Lev, 2005; orders after Le, Pop, Cohen and Zappa Nardelli, 2013). Lies
// in memory mapped by all processes; the owner pushes and pops at the bottom, thieves of any process take at the top.
//
// D1. Only the owner writes bottom_ and ring entries; an entry is published by the release store of bottom_ after it.
// D2. The last entry is won by whoever moves top_ by compare-and-swap.
// D3. Indices only grow, so an index names one push for ever: pop_newest(index) succeeds only if nobody took that entry.
// D4. The ring has room for every thread that can exist (one stack slot each): push never overflows. It is mapped
//     lazily, so an unused ring costs nothing: the deque grows by being touched.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ayatori::ult {

template <class T>
class Deque {
 public:
  using Index = std::int64_t;

  // `ring` has `capacity` (a power of two) zeroed entries. Before any other call.
  void init(std::atomic<T*>* ring, std::uint64_t capacity) noexcept {
    static_assert(offsetof(Deque, top_) == kTopAt && offsetof(Deque, bottom_) == kBottomAt);
    static_assert(offsetof(Deque, ring_) == kRingAt && offsetof(Deque, mask_) == kMaskAt);
    ring_ = ring;
    mask_ = static_cast<Index>(capacity - 1);
  }

  // Owner. Returns the entry's index (D3).
  Index push(T* item) noexcept {
    const Index b = bottom_.load(std::memory_order_relaxed);  // owner only (D1)
    ring_[b & mask_].store(item, std::memory_order_relaxed);  // published by the next line (D1)
    bottom_.store(b + 1, std::memory_order_release);          // pairs with the acquire in steal()
    return b;
  }

  // Owner. Null when empty.
  T* pop() noexcept { return pop_at(bottom_.load(std::memory_order_relaxed) - 1); }

  // Owner. The entry pushed as `index` if it is the newest one and nobody took it, else null.
  T* pop_newest(Index index) noexcept {
    return bottom_.load(std::memory_order_relaxed) == index + 1 ? pop_at(index) : nullptr;
  }

  // Any thread. Takes the oldest entry; null when empty, or lost to another.
  T* steal() noexcept {
    Index t = top_.load(std::memory_order_seq_cst);
    const Index b = bottom_.load(std::memory_order_seq_cst);  // after top_ (see pop); acquire: pairs with push
    if (t >= b) return nullptr;
    T* item = ring_[t & mask_].load(std::memory_order_relaxed);  // valid if the exchange below succeeds (D2)
    if (!top_.compare_exchange_strong(t, t + 1, std::memory_order_seq_cst)) return nullptr;
    return item;
  }

  bool looks_empty() const noexcept {  // a hint
    return top_.load(std::memory_order_relaxed) >= bottom_.load(std::memory_order_relaxed);
  }

  // Any thread, for people: the entry that is `age`-th oldest now; null when there are no more. Taken by no one, so it
  // may be gone at once.
  T* look(std::uint64_t age) const noexcept {
    const Index t = top_.load(std::memory_order_acquire) + static_cast<Index>(age);
    if (t >= bottom_.load(std::memory_order_acquire)) return nullptr;  // pairs with push
    return ring_[t & mask_].load(std::memory_order_relaxed);
  }

  // For debuggers: where its fields lie.
  static constexpr std::size_t kTopAt = 0, kBottomAt = 64, kRingAt = 72, kMaskAt = 80;

 private:
  T* pop_at(Index b) noexcept {
    // seq_cst exchange: the store of bottom_ before the load of top_, against steal()'s reads in the other order
    bottom_.exchange(b, std::memory_order_seq_cst);
    Index t = top_.load(std::memory_order_seq_cst);
    if (t < b) [[likely]]
      return ring_[b & mask_].load(std::memory_order_relaxed);  // own store (D1)
    T* item = nullptr;
    if (t == b && top_.compare_exchange_strong(t, t + 1, std::memory_order_seq_cst))  // D2
      item = ring_[b & mask_].load(std::memory_order_relaxed);
    bottom_.store(b + 1, std::memory_order_relaxed);  // empty: nothing is published
    return item;
  }

  alignas(64) std::atomic<Index> top_{0};
  alignas(64) std::atomic<Index> bottom_{0};
  std::atomic<T*>* ring_ = nullptr;  // Constant after init.
  Index mask_ = 0;                   // Constant after init.
};

}  // namespace ayatori::ult
