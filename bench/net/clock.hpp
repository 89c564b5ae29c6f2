// SPDX-License-Identifier: Apache-2.0
// The clock of the measurements: the time-stamp counter where the CPU says that it runs evenly, CLOCK_MONOTONIC
// elsewhere. Made once, before the members are forked; read by any thread.
//
// K1. now() is ordered: it does not begin before what precedes it has ended, nor does what follows begin before it.
// K2. What lies between two now() includes the cost of one of them: read_ns(), the median of times between which nothing
//     lies. median_ns() subtracts it.
// K3. A counter may advance in steps of several ticks, a tick more or less. A time that is a whole number of steps then stands
//     for all times half a step around it, evenly: median_ns() is the median of these (the median of grouped data), finer than
//     a step.
// K4. The two clocks are compared twice, each time by the closest of many readings: a machine that stood still in between
//     (a virtual one does, for hundreds of milliseconds) would give ticks of any length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/clock.hpp"

#ifdef __x86_64__
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace bench {

class Clock {
 public:
  Clock() {
#ifdef __x86_64__
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kPowerManagement = 0x80000007, kInvariant = 1u << 8;
    counter_ = __get_cpuid(kPowerManagement, &a, &b, &c, &d) != 0 && (d & kInvariant) != 0;
#endif
    constexpr std::int64_t kCalibrationNs = 20 * ayatori::base::kNsPerMs;
    const Both start = read_both();
    while (ayatori::base::real_now_ns() - start.ns < kCalibrationNs) {
    }
    const Both end = read_both();
    tick_ns_ = static_cast<double>(end.ns - start.ns) / static_cast<double>(end.ticks - start.ticks);
    std::vector<std::uint64_t> reads(10'001);
    for (std::uint64_t& read : reads) {
      const std::uint64_t before = now();
      read = now() - before;
    }
    step_ = step_of(reads);
    read_ns_ = median_ns(std::move(reads), 0);
  }

  // The steps in which a counter advances that gave these times (K3): the least distance between two that differ, each the
  // middle one of its like, if nearly all are multiples of it. 1: they are not, or all are alike.
  static std::uint64_t step_of(std::vector<std::uint64_t> times) {
    std::sort(times.begin(), times.end());
    std::uint64_t step = 0, last = 0;
    for (std::size_t first = 0, end = 1; end <= times.size(); ++end) {
      if (end != times.size() && times[end] <= times[end - 1] + kJitter) continue;
      const std::uint64_t middle = times[(first + end - 1) / 2];
      if (first != 0 && (step == 0 || middle - last < step)) step = middle - last;
      last = middle;
      first = end;
    }
    if (step == 0) return 1;
    const auto fits = std::count_if(times.begin(), times.end(),
                                    [step](std::uint64_t time) { return (time + kJitter) % step <= 2 * kJitter; });
    return static_cast<std::size_t>(fits) >= times.size() - times.size() / 10 ? step : 1;
  }

  std::uint64_t now() const noexcept {  // in ticks
#ifdef __x86_64__
    if (counter_) {
      unsigned cpu;
      const std::uint64_t ticks = __rdtscp(&cpu);
      _mm_lfence();  // K1
      return ticks;
    }
#endif
    return static_cast<std::uint64_t>(ayatori::base::real_now_ns());
  }
  // Of times that include `reads` more readings of the clock than they should (K2, K3). Not empty.
  double median_ns(std::vector<std::uint64_t> times, int reads) const {
    if (step_ > 2 * kJitter)
      for (std::uint64_t& time : times) time = (time + step_ / 2) / step_ * step_;
    const std::size_t half = times.size() / 2;
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(half);
    std::nth_element(times.begin(), middle, times.end());
    const std::uint64_t value = *middle;
    const auto below = std::count_if(times.begin(), times.end(), [value](std::uint64_t t) { return t < value; });
    const auto equal = std::count(times.begin(), times.end(), value);
    const double place = (static_cast<double>(times.size()) / 2 - static_cast<double>(below)) /
                         static_cast<double>(equal);  // 0 to 1, from half a step below to half a step above
    const double ticks = static_cast<double>(value) + (place - 0.5) * static_cast<double>(step_);
    return std::max(0.0, ticks * tick_ns_ - reads * read_ns_);
  }
  double ns(std::uint64_t ticks) const noexcept { return static_cast<double>(ticks) * tick_ns_; }
  std::uint64_t ticks(double ns) const noexcept { return static_cast<std::uint64_t>(ns / tick_ns_); }
  double read_ns() const noexcept { return read_ns_; }
  const char* source() const noexcept { return counter_ ? "time-stamp counter" : "CLOCK_MONOTONIC"; }

 private:
  struct Both {
    std::int64_t ns;
    std::uint64_t ticks;
  };
  // K4.
  Both read_both() const {
    Both best{};
    std::uint64_t least = ~std::uint64_t{0};
    for (int i = 0; i < 100; ++i) {
      const std::uint64_t before = now();
      const std::int64_t ns = ayatori::base::real_now_ns();
      const std::uint64_t between = now() - before;
      if (between >= least) continue;
      least = between;
      best = {ns, before + between / 2};
    }
    return best;
  }

  static constexpr std::uint64_t kJitter = 2;  // ticks by which steps differ
  bool counter_ = false;
  double tick_ns_ = 1;
  std::uint64_t step_ = 1;  // in ticks
  double read_ns_ = 0;
};

}  // namespace bench
