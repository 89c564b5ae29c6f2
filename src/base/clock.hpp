// SPDX-License-Identifier: Apache-2.0
// Time, behind a seam: the simulation replaces it by virtual time. Read on any thread, also in fault handlers.
//
// T1. Times never go back within one process; with the real clock they are comparable between processes of one machine.
// T2. The source is replaced only while a single thread uses it (simulation, unit tests).
#pragma once

#include <cstdint>

namespace ayatori::base {

inline constexpr std::int64_t kNsPerUs = 1'000;
inline constexpr std::int64_t kNsPerMs = 1'000'000;
inline constexpr std::int64_t kNsPerSecond = 1'000'000'000;

std::int64_t now_ns() noexcept;       // of the source; CLOCK_MONOTONIC unless replaced
std::int64_t real_now_ns() noexcept;  // CLOCK_MONOTONIC, whatever the source

struct ClockSource {
  std::int64_t (*now_ns)(void* context);
  void* context;
};
// nullptr: the real clock. *source must live as long as it is set. Returns what was set before.
const ClockSource* set_clock_source(const ClockSource* source) noexcept;

// Sets a source for a scope.
class ScopedClock {
 public:
  explicit ScopedClock(const ClockSource* source) noexcept : before_(set_clock_source(source)) {}
  ~ScopedClock() { set_clock_source(before_); }
  ScopedClock(const ScopedClock&) = delete;
  ScopedClock& operator=(const ScopedClock&) = delete;

 private:
  const ClockSource* before_;
};

}  // namespace ayatori::base
