// SPDX-License-Identifier: Apache-2.0
#include "base/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.hpp"
#include "base/clock.hpp"

namespace ayatori::base {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

FutexResult futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                       std::int64_t timeout_ns) noexcept {
  timespec limit{};
  if (timeout_ns > 0) limit = {timeout_ns / kNsPerSecond, timeout_ns % kNsPerSecond};
  // Not FUTEX_PRIVATE_FLAG: the word may be mapped by several processes.
  const long result =
      syscall(SYS_futex, &word, FUTEX_WAIT, expected, timeout_ns == kForever ? nullptr : &limit, nullptr, 0);
  if (result == 0) return FutexResult::kWoken;
  switch (errno) {
    case EAGAIN: return FutexResult::kChanged;
    case ETIMEDOUT: return FutexResult::kTimeout;
    case EINTR: return FutexResult::kWoken;
    default: fatal("futex wait on {} failed with error {}", static_cast<const void*>(&word), errno);
  }
}

int futex_wake(const std::atomic<std::uint32_t>& word, int waiters) noexcept {
  const long woken = syscall(SYS_futex, &word, FUTEX_WAKE, waiters, nullptr, nullptr, 0);
  if (woken < 0) fatal("futex wake on {} failed with error {}", static_cast<const void*>(&word), errno);
  return static_cast<int>(woken);
}

}  // namespace ayatori::base
