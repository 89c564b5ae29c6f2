// SPDX-License-Identifier: Apache-2.0
#include "base/clock.hpp"

#include <time.h>

#include <atomic>

namespace ayatori::base {
namespace {

struct ClockState {
  std::atomic<const ClockSource*> source{nullptr};
};
constinit ClockState clock_state;

}  // namespace

std::int64_t real_now_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

std::int64_t now_ns() noexcept {
  // acquire: pairs with set_clock_source.
  const ClockSource* source = clock_state.source.load(std::memory_order_acquire);
  return source == nullptr ? real_now_ns() : source->now_ns(source->context);
}

const ClockSource* set_clock_source(const ClockSource* source) noexcept {
  // acq_rel: the source's fields are visible to whoever loads its address.
  return clock_state.source.exchange(source, std::memory_order_acq_rel);
}

}  // namespace ayatori::base
