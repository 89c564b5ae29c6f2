// SPDX-License-Identifier: Apache-2.0
#include "base/waiter.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>

#include "base/shared_lock.hpp"

namespace ayatori::base {
namespace {

struct WaiterState {
  std::atomic<const Waiter*> waiter{nullptr};
};
constinit WaiterState waiter_state;

}  // namespace

void set_waiter(const Waiter* waiter) noexcept {
  // release: pairs with the acquire load in waiter(); the table's fields are written before.
  waiter_state.waiter.store(waiter, std::memory_order_release);
}

const Waiter* waiter() noexcept { return waiter_state.waiter.load(std::memory_order_acquire); }

std::int64_t SpinThenSleep::next() noexcept {
  if (++misses_ > sleep_after_) {
    const std::int64_t ns = sleep_ns_;
    sleep_ns_ = std::min(2 * sleep_ns_, kSleepNsMax);
    return ns;
  }
  if (misses_ % kYieldEvery == 0) {
    sched_yield();
  } else {
    for (int i = 0; i < pauses_; ++i) cpu_pause();
    pauses_ = std::min(2 * pauses_, kPausesMax);
  }
  return 0;
}

void SpinThenSleep::reset() noexcept {
  misses_ = 0;
  pauses_ = kPausesMin;
  sleep_ns_ = kSleepNsMin;
}

void SpinThenSleep::sleep(std::int64_t ns) noexcept {
  const timespec nap{0, ns};
  nanosleep(&nap, nullptr);
}

}  // namespace ayatori::base
