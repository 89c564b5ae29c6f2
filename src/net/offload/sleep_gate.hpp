// SPDX-License-Identifier: Apache-2.0
// The sleep bit (thesis 4.4.2) for queues whose producers execute no locked instruction: they publish by a plain store and
// then look at the gate, which the consumer's side shuts before it looks at the queues and sleeps. Each side stores, then
// loads what the other stores; the fences between are base/asymmetric_fence.hpp's, so that a push that finds nobody asleep
// pays none.
//
// S1. The word is generation * 4 + state. shut() announces a generation of its own (kShutting), passes the heavy fence, and
//     makes it kShut unless it was changed meanwhile. So kShut says: whatever was pushed by one who found the gate open is
//     seen by who reads kShut, and every later push finds the gate not open.
// S2. The push that opens the gate owes one wake-up; no other does. Generations never repeat (62 bits).
#pragma once

#include <atomic>
#include <cstdint>

#include "base/asymmetric_fence.hpp"

namespace ayatori::net::offload {

class SleepGate {
 public:
  explicit SleepGate(bool asymmetric = base::asymmetric_fences()) noexcept : asymmetric_(asymmetric) {}

  // Producer, after it has published: true: the caller owes a wake-up.
  bool open_after_push() noexcept {
    std::uint64_t word;
    if (asymmetric_) [[likely]] {
      base::light_fence();
      word = word_.load(std::memory_order_relaxed);
    } else {
      word = word_.fetch_add(0, std::memory_order_seq_cst);
    }
    return (word & kStateMask) != kOpen && open();
  }

  // Consumer's side, any thread, before it looks at the queues a last time.
  void shut() noexcept {
    std::uint64_t word = word_.load(std::memory_order_acquire);  // pairs with who made it kShut (S1)
    while ((word & kStateMask) != kShut) {
      const std::uint64_t mine = ((word | kStateMask) + 1) | kShutting;  // the next generation
      if (!word_.compare_exchange_weak(word, mine, std::memory_order_seq_cst, std::memory_order_acquire)) continue;
      if (asymmetric_) base::heavy_fence();
      word = mine;
      // release: pairs with the loads above
      word_.compare_exchange_strong(word, (mine & ~kStateMask) | kShut, std::memory_order_acq_rel,
                                    std::memory_order_acquire);
      return;  // own pushes are ordered by the own fence, whoever opened meanwhile owes a wake-up
    }
  }
  // True: it was shut, and by nobody else opened.
  bool open() noexcept {
    // acq_rel: a generation that shut() announced and finds opened was opened by a push that it then sees
    return (word_.fetch_and(~kStateMask, std::memory_order_acq_rel) & kStateMask) != kOpen;
  }

 private:
  static constexpr std::uint64_t kOpen = 0, kShutting = 1, kShut = 2, kStateMask = 3;

  std::atomic<std::uint64_t> word_{kOpen};
  const bool asymmetric_;
};

}  // namespace ayatori::net::offload
