// SPDX-License-Identifier: Apache-2.0
// What the shm transport keeps per OS thread.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "net/completions.hpp"
#include "net/counter_stripe.hpp"

namespace ayatori::net::shm {

struct ThreadState {
  Completions completions;
  bool in_progress = false;  // runs handlers, completions of answers or failure notices
  unsigned number = kNoNumber;
  std::size_t stripe_bytes = 0;  // where the counters of this thread lie in its transport's

  static constexpr unsigned kNumbers = 64;
  static constexpr unsigned kNoNumber = kNumbers;  // more threads live than there are numbers

  ThreadState() {
    std::uint64_t free = free_numbers.load(std::memory_order_relaxed);  // the CAS validates it
    while (free != 0) {
      // acquire: pairs with the release of the number's last bearer, whose counters this thread goes on with
      if (free_numbers.compare_exchange_weak(free, free & (free - 1), std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
        number = static_cast<unsigned>(std::countr_zero(free));
        stripe_bytes = number * sizeof(CounterStripe);
        break;
      }
    }
  }
  ~ThreadState() {
    if (number != kNoNumber) free_numbers.fetch_or(std::uint64_t{1} << number, std::memory_order_release);
  }
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

  struct Closed {};
  constexpr explicit ThreadState(Closed) : completions(Completions::closed()) {}

  static constinit std::atomic<std::uint64_t> free_numbers;  // bit: no living thread has it
};
inline constinit std::atomic<std::uint64_t> ThreadState::free_numbers{~std::uint64_t{0}};

inline constinit thread_local ThreadState* own_thread_state = nullptr;
// The same, but on a thread that has none yet or no number one whose completions seem to run: no short way for it.
// Initial-exec: no call to find it, as this library is linked statically.
inline constinit ThreadState no_short_way{ThreadState::Closed{}};
[[gnu::tls_model("initial-exec")]] inline constinit thread_local ThreadState* short_way_thread = &no_short_way;

}  // namespace ayatori::net::shm
