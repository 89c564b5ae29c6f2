// SPDX-License-Identifier: Apache-2.0
// What the files of the C interface's synchronisation objects share. Called on any thread and stack.
#pragma once

#include <time.h>

#include <cerrno>
#include <cstdint>
#include <limits>

#include "api/c_objects.hpp"
#include "base/clock.hpp"

namespace ayatori::api {

// Type of a destroyed object, which must not be made anew by its next use. Looked at only where there is no object: one
// in static data may have been made anew by another process.
inline constexpr int kDestroyed = -1;

inline bool valid(const timespec* t) noexcept { return t && t->tv_nsec >= 0 && t->tv_nsec < base::kNsPerSecond; }
inline bool has_deadlines(clockid_t clock) noexcept { return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC; }

// The time `until` of `clock` on the scale of base::real_now_ns(), within what it can hold.
inline std::int64_t deadline_of(const timespec& until, clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  std::int64_t left = 0;
  const std::int64_t forever = std::numeric_limits<std::int64_t>::max() - 1;
  if (__builtin_sub_overflow(until.tv_sec, now.tv_sec, &left) ||
      __builtin_mul_overflow(left, base::kNsPerSecond, &left) ||
      __builtin_add_overflow(left, until.tv_nsec - now.tv_nsec, &left) ||
      __builtin_add_overflow(left, base::real_now_ns(), &left))
    return until.tv_sec > now.tv_sec ? forever : 0;
  return left;
}

// Ends what an initialiser or init made. `missing`: what to return where there is nothing.
inline int destroy(std::uint64_t* word, Kind kind, int missing) noexcept {
  const Handle h = find_object(word, kind);
  if (h == 0) return missing;
  if (tasks::sync::busy(h)) return EBUSY;
  destroy_object(word, h);
  return 0;
}

}  // namespace ayatori::api
