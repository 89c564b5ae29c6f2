// SPDX-License-Identifier: Apache-2.0
// How OS threads of the program wait for objects (sync_object.hpp, and sync.hpp's part for remote.hpp).
#include <unistd.h>

#include <atomic>
#include <new>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/futex.hpp"
#include "tasks/sync_object.hpp"
#include "ult/current.hpp"

namespace ayatori::tasks::sync {

namespace {

// The descriptor of a waiting OS thread of the program. In memory mapped by all before the fork: who wakes it may run in
// any process (apart: it is woken here, by a message). A used one keeps its wait_sequence, so that a timer that outlived its wait is known.
class OsWaiter {
 public:
  OsWaiter() {
    Pool& pool = *state.pool;
    pool.lock.lock();
    d_ = pool.free_os_waiters;
    if (d_)
      pool.free_os_waiters = d_->next;
    else if (pool.os_waiters_used < kOsWaiters)
      d_ = new (&state.os_waiters[pool.os_waiters_used++]) Descriptor{};
    pool.lock.unlock();
    AYT_CHECK(d_ != nullptr, "more than {} OS threads wait for mutexes, condition variables and barriers", kOsWaiters);
    d_->os_thread = true;
    d_->os_process = self();
  }
  ~OsWaiter() {
    Pool& pool = *state.pool;
    pool.lock.lock();
    d_->next = pool.free_os_waiters;
    pool.free_os_waiters = d_;
    pool.lock.unlock();
  }
  OsWaiter(const OsWaiter&) = delete;
  OsWaiter& operator=(const OsWaiter&) = delete;
  Descriptor* get() const noexcept { return d_; }

 private:
  Descriptor* d_;
};

}  // namespace

Descriptor* os_descriptor() {
  thread_local OsWaiter mine;
  return mine.get();
}

void os_block(Descriptor* d) {
  while (d->os_wake.load(std::memory_order_acquire) == 0)  // pairs with make_ready
    base::futex_wait(d->os_wake, 0, 100 * base::kNsPerMs);
  d->os_wake.store(0, std::memory_order_relaxed);
}

Descriptor* os_waiter(std::uint32_t index) noexcept {
  AYT_CHECK(index < kOsWaiters, "a peer named waiter {}", index);
  return &state.os_waiters[index];
}
std::uint32_t os_waiter_index(const Descriptor* d) noexcept { return static_cast<std::uint32_t>(d - state.os_waiters); }

std::uint64_t caller_number() noexcept {
  if (ult::on_user_thread()) return ult::number_of(ult::current_thread());
  return std::uint64_t{1} << 63 | static_cast<std::uint64_t>(self()) << 32 | static_cast<std::uint32_t>(gettid());
}

}  // namespace ayatori::tasks::sync
