// SPDX-License-Identifier: Apache-2.0
#include "net/bootstrap/barrier.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/shared_lock.hpp"

namespace ayatori::net::bootstrap {
namespace {

constexpr std::int64_t kLookNs = 100 * base::kNsPerMs;  // B2
constexpr int kSpins = 100;

std::uint32_t generation_of(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word >> 32); }

// The futex is the generation's half of the word.
const std::atomic<std::uint32_t>& generation_word(const JobControl& control) noexcept {
  static_assert(std::endian::native == std::endian::little);
  return reinterpret_cast<const std::atomic<std::uint32_t>*>(&control.barrier)[1];
}

}  // namespace

BarrierResult barrier_wait(JobControl& control, std::int64_t timeout_ns) noexcept {
  const auto members = static_cast<std::uint32_t>(control.process_count);
  // acq_rel (B3): pairs with the other members' arrivals on the same word.
  std::uint64_t word = control.barrier.load(std::memory_order_relaxed);
  const auto last = [&] { return static_cast<std::uint32_t>(word) + 1 == members; };
  const auto next = [&] { return last() ? static_cast<std::uint64_t>(generation_of(word) + 1) << 32 : word + 1; };
  while (!control.barrier.compare_exchange_weak(word, next(), std::memory_order_acq_rel, std::memory_order_relaxed)) {
  }
  const std::uint32_t generation = generation_of(word);
  if (last()) {
    base::futex_wake(generation_word(control), base::kAllWaiters);
    return BarrierResult::kPassed;
  }

  // acquire: pairs with the last arrival's exchange.
  const auto passed = [&] { return generation_of(control.barrier.load(std::memory_order_acquire)) != generation; };
  for (int i = 0; i < kSpins; ++i) {
    if (passed()) return BarrierResult::kPassed;
    base::cpu_pause();
  }
  const std::int64_t deadline_ns =
      timeout_ns < 0 ? std::numeric_limits<std::int64_t>::max() : base::real_now_ns() + timeout_ns;
  for (;;) {
    if (passed()) return BarrierResult::kPassed;
    const std::int64_t left_ns = deadline_ns - base::real_now_ns();
    const bool ending = control.ending.load(std::memory_order_acquire) != 0;  // pairs with whoever ends the job
    if (ending || left_ns <= 0) {
      word = control.barrier.load(std::memory_order_acquire);
      while (generation_of(word) == generation) {
        if (control.barrier.compare_exchange_weak(word, word - 1, std::memory_order_acq_rel, std::memory_order_acquire))
          return ending ? BarrierResult::kEnding : BarrierResult::kTimeout;
      }
      return BarrierResult::kPassed;
    }
    base::futex_wait(generation_word(control), generation, std::min(left_ns, kLookNs));
  }
}

}  // namespace ayatori::net::bootstrap
