// SPDX-License-Identifier: Apache-2.0
// What a joiner and the end of its child agree through. Outside coherence, in memory mapped by all processes. Called by
// workers on any stack.
//
// J1. A join word goes from running (0) to done, once; in between it may hold the one waiting joiner, or the mark of a
//     detached thread.
// J2. A waiting joiner is published only after its context is saved and its stack left.
//     Where processes share no memory, a word says moved while its thread's stack is held by another process, which is
//     asked instead.
// J3. Whoever turns the word to done and finds a waiter owns the waiter's resumption, exactly once; who finds the
//     detached mark frees the thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace ayatori::ult {

class JoinWord {
 public:
  static constexpr std::uint64_t kRunning = 0;
  static constexpr std::uint64_t kDetached = 2;
  static constexpr std::uint64_t kMoved = 4;

  static constexpr std::uint64_t done_at(int process) noexcept {
    return (static_cast<std::uint64_t>(process) << 1) | 1;
  }
  static constexpr bool is_done(std::uint64_t word) noexcept { return (word & 1) != 0; }
  static constexpr int process_of(std::uint64_t done) noexcept { return static_cast<int>(done >> 1); }

  void reset() noexcept { word_.store(kRunning, std::memory_order_relaxed); }  // published by the fork's deque push
  // acquire: pairs with the exchange in finish()
  std::uint64_t load() const noexcept { return word_.load(std::memory_order_acquire); }

  // The child has ended at `process`. Returns the waiter, kDetached or kRunning (J3). acq_rel: publishes the child's end
  // to the joiner's load, and takes over what the waiter stored before wait().
  std::uint64_t finish(int process) noexcept { return word_.exchange(done_at(process), std::memory_order_acq_rel); }
  // As finish() where the joiner is known to be the continuation this worker resumes next: a plain store is enough.
  // `done`: done_at() of this process.
  void finish_unstolen(std::uint64_t done) noexcept { word_.store(done, std::memory_order_release); }

  // The thread leaves this process, or arrives: returns what the word was (kRunning, kDetached or a waiter).
  std::uint64_t move_out() noexcept { return word_.exchange(kMoved, std::memory_order_acq_rel); }
  void move_in(std::uint64_t word) noexcept { word_.store(word, std::memory_order_release); }

  // Publishes `waiter` (an even number above kMoved). Returns kRunning when it waits now, else the done word or kMoved.
  std::uint64_t wait(std::uint64_t waiter) noexcept { return leave(waiter); }
  // `waiter` does not wait any more. Returns kRunning, or what the word is instead of `waiter`.
  std::uint64_t leave_wait(std::uint64_t waiter) noexcept {
    std::uint64_t expected = waiter;
    // acq_rel: as wait() of others, and takes over what the waiter stored before its own
    return word_.compare_exchange_strong(expected, kRunning, std::memory_order_acq_rel) ? kRunning : expected;
  }
  // Returns kRunning when the thread will free itself, else the done word (the caller frees it) or kMoved.
  std::uint64_t detach() noexcept { return leave(kDetached); }

 private:
  std::uint64_t leave(std::uint64_t mark) noexcept {
    std::uint64_t expected = kRunning;
    word_.compare_exchange_strong(expected, mark, std::memory_order_acq_rel);  // pairs with the exchange in finish()
    return expected;
  }

  std::atomic<std::uint64_t> word_{kRunning};
};

}  // namespace ayatori::ult
