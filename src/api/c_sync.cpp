// SPDX-License-Identifier: Apache-2.0
// Mutexes, condition variables, barriers, once and semaphores, as include/ayatori/ayatori.h declares them, over
// tasks::sync. Called on user-level threads and OS threads of the program.
//
// M1. The owner of a recursive or error-checking mutex is written by its holder only; a thread compares it with its own
//     number, so a value read without order is either its own, written by itself, or another one.
// M2. What stands beside the depth of a robust mutex is written by its holder, and read by the next one; that it is not
//     recoverable stays so until it is destroyed.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <limits>

#include "api/c_cancel.hpp"
#include "api/c_sync.hpp"
#include "ayatori/ayatori.h"
#include "ayatori/ayatori.hpp"
#include "base/clock.hpp"
#include "gas/space.hpp"
#include "tasks/keys.hpp"
#include "tasks/names.hpp"
#include "tasks/runtime.hpp"
#include "tasks/sync_fast.hpp"
#include "ult/current.hpp"
#include "ult/scheduler.hpp"

namespace {

namespace ayt = ayatori;
namespace sync = ayatori::tasks::sync;
namespace keys = ayatori::tasks::keys;
using ayt::api::deadline_of;
using ayt::api::destroy;
using ayt::api::ensure_object;
using ayt::api::find_object;
using ayt::api::Handle;
using ayt::api::has_deadlines;
using ayt::api::kDestroyed;
using ayt::api::Kind;
using ayt::api::Reach;
using ayt::api::valid;

// Never inlined: a thread-local's address is not kept across a switch of threads.
[[gnu::noinline]] int fail(int error) noexcept {
  errno = error;
  return -1;
}

// ------------------------------------------------------------------------------------------------ mutex

// 0: error_of says why.
Handle mutex_of(ayatori_mutex_t* m) noexcept {
  if (m->type == kDestroyed) return find_object(&m->handle, Kind::kMutex);
  return ensure_object(&m->handle, Kind::kMutex, static_cast<std::uint32_t>(m->type));
}
// What stands in the object: its handle, or something else (H1 to H4 of c_objects.hpp). acquire: as find_object().
Handle handle_in(ayatori_mutex_t* m) noexcept {
  return std::atomic_ref<std::uint64_t>(m->handle).load(std::memory_order_acquire);
}

int error_of(const ayatori_mutex_t* m) noexcept { return m->type == kDestroyed ? EINVAL : EAGAIN; }

// What a lock function returns without locking; -1: it has to lock.
int relock(Handle h, int if_checked) noexcept {
  const std::uint32_t type = sync::type_of(h);
  if (type == AYATORI_MUTEX_NORMAL) return -1;
  sync::Holding now = sync::holding(h);
  if ((now.depth & sync::kNotRecoverable) != 0) return ENOTRECOVERABLE;
  if (now.owner != sync::caller_number()) return (type & sync::kRobust) == 0 || keys::reserve_robust() ? -1 : EAGAIN;
  if ((type & ~sync::kRobust) == AYATORI_MUTEX_NORMAL) return -1;
  if ((type & ~sync::kRobust) == AYATORI_MUTEX_ERRORCHECK) return if_checked;
  if ((now.depth & sync::kDepthMask) == sync::kDepthMask) return EAGAIN;
  ++now.depth;
  sync::set_holding(h, now);
  return 0;
}

// The caller has just taken the lock. What a lock function returns: of a robust mutex EOWNERDEAD, or ENOTRECOVERABLE, and
// then it does not hold it.
int took(Handle h, std::uint32_t depth) noexcept {
  const std::uint32_t type = sync::type_of(h);
  if (type == AYATORI_MUTEX_NORMAL) return 0;
  std::uint32_t inconsistent = 0;
  if ((type & sync::kRobust) != 0) {
    const sync::Holding before = sync::holding(h);
    if ((before.depth & sync::kNotRecoverable) != 0) {
      sync::mutex_unlock(h);
      return ENOTRECOVERABLE;
    }
    inconsistent = before.depth & sync::kInconsistent;
    keys::add_robust(h);
  }
  sync::set_holding(h, {sync::caller_number(), depth | inconsistent});
  return inconsistent != 0 ? EOWNERDEAD : 0;
}

// The caller, which holds a mutex that knows its owner, is about to unlock it.
void leave(Handle h, const sync::Holding& now) noexcept {
  if ((sync::type_of(h) & sync::kRobust) != 0) keys::remove_robust(h);
  sync::set_holding(h, {0, (now.depth & sync::kInconsistent) != 0 ? sync::kNotRecoverable : 0});
}

// Who waits where another process would have to be asked to end the wait looks now and then whether it is cancelled.
std::int64_t slice(Handle h, std::int64_t deadline) noexcept {
  if (!ayt::gas::apart() || sync::keeper(h) == ayt::tasks::self() || !ayt::api::may_be_cancelled()) return deadline;
  return std::min(deadline, ayt::base::real_now_ns() + 100 * ayt::base::kNsPerMs);
}

// As sync::semaphore_wait, and a cancellation point.
bool wait_unit(ayatori_sem_t* sem, Handle h, std::int64_t deadline) {
  for (;;) {
    const std::int64_t end = slice(h, deadline);
    if (ayt::api::cancellable([&] { return sync::semaphore_wait(h, end); })) return true;
    ayt::api::cancellation_point();
    if (end == deadline) return false;
    h = find_object(&sem->handle, Kind::kSemaphore);  // of the process where it goes on
  }
}

// The rest of lock and unlock, apart so that their usual ways save no registers.
[[gnu::noinline]] int lock_slowly(ayatori_mutex_t* mutex) {
  const Handle h = mutex_of(mutex);
  if (h == 0) return error_of(mutex);
  if (const int done = relock(h, EDEADLK); done >= 0) return done;
  sync::mutex_lock(h);
  return took(h, 1);
}
[[gnu::noinline]] int unlock_slowly(ayatori_mutex_t* mutex) {
  const Handle h = find_object(&mutex->handle, Kind::kMutex);
  if (h == 0) return mutex->type == kDestroyed ? EINVAL : EPERM;
  if (sync::type_of(h) != AYATORI_MUTEX_NORMAL) {
    sync::Holding now = sync::holding(h);
    if (now.owner != sync::caller_number()) return EPERM;
    if ((now.depth & sync::kDepthMask) > 1) {
      --now.depth;
      sync::set_holding(h, now);
      return 0;
    }
    leave(h, now);
  }
  sync::mutex_unlock(h);
  return 0;
}

// Until the time `until` of *clock, or of the condition's own where clock is null; for ever without `until`.
int wait(ayatori_cond_t* cond, ayatori_mutex_t* mutex, const timespec* until, const clockid_t* clock) {
  const Handle c = cond->clock == kDestroyed
                       ? find_object(&cond->handle, Kind::kCondition)
                       : ensure_object(&cond->handle, Kind::kCondition, static_cast<std::uint32_t>(cond->clock));
  const Handle m = find_object(&mutex->handle, Kind::kMutex);
  if (c == 0 || m == 0) return EINVAL;
  std::int64_t deadline = std::numeric_limits<std::int64_t>::max();
  if (until) {
    if (!valid(until)) return EINVAL;
    deadline = deadline_of(*until, clock ? *clock : static_cast<clockid_t>(sync::type_of(c)));
  }
  ayt::api::cancellation_point();
  std::uint32_t depth = 0;
  if (sync::type_of(m) != AYATORI_MUTEX_NORMAL) {
    const sync::Holding now = sync::holding(m);
    if (now.owner != sync::caller_number()) return EPERM;
    depth = now.depth & sync::kDepthMask;
    leave(m, now);
  }
  const std::int64_t end = slice(c, deadline);
  const bool in_time = ayt::api::cancellable([&] { return sync::condition_wait(c, m, end); });
  const int lost = took(find_object(&mutex->handle, Kind::kMutex), depth);
  if (!in_time) ayt::api::cancellation_point();
  if (lost != 0 || in_time) return lost;
  return end == deadline ? ETIMEDOUT : 0;  // a slice's end is a wake-up without reason
}

int notify(ayatori_cond_t* cond, bool all) noexcept {
  if (const Handle c = find_object(&cond->handle, Kind::kCondition)) {
    sync::condition_notify(c, all);
    return 0;
  }
  return cond->clock == kDestroyed ? EINVAL : 0;  // nobody has waited on an initialiser that has no object yet
}

// ------------------------------------------------------------------------------------------------ once

// False: no room for the control's mutex.
bool run_once(ayatori_once_t* control, void (*routine)()) {
  struct Unlock {
    Handle handle;
    ~Unlock() { sync::mutex_unlock(handle); }
  };
  // What lies outside the space is this process's: the thread must not go on elsewhere with the control or the globals
  // that the routine sets half done.
  struct Pin {
    int pins;
    explicit Pin(int n) : pins(n) { ayt::detail::pin_current(+pins); }
    ~Pin() { ayt::detail::pin_current(-pins); }
  };
  const Pin pin(ayt::gas::contains(control) ? 0 : 1);
  const Handle mutex = ensure_object(&control->handle, Kind::kMutex, AYATORI_MUTEX_NORMAL, Reach::kProcess);
  if (mutex == 0) return false;
  std::atomic_ref<int> done(control->done);
  sync::mutex_lock(mutex);
  const Unlock unlock{mutex};
  if (done.load(std::memory_order_relaxed) != 0) return true;
  try {
    routine();
  } catch (...) {
    if (std::current_exception()) std::terminate();
    throw;  // ayatori_thread_exit: no exception of C++
  }
  done.store(1, std::memory_order_release);  // pairs with the look without the lock, in this process
  return true;
}

}  // namespace

extern "C" {

int ayatori_mutex_init(ayatori_mutex_t* mutex, const ayatori_mutexattr_t* attr) {
  const int type = attr ? attr->type : AYATORI_MUTEX_DEFAULT;
  if (type < AYATORI_MUTEX_NORMAL || type > AYATORI_MUTEX_ERRORCHECK) return EINVAL;
  const bool robust = attr && attr->robust == AYATORI_MUTEX_ROBUST;
  const std::uint32_t kind = static_cast<std::uint32_t>(type) | (robust ? sync::kRobust : 0);
  mutex->type = static_cast<int>(kind);
  mutex->reserved = 0;
  return ayt::api::init_object(&mutex->handle, Kind::kMutex, kind, 0) != 0 ? 0 : EAGAIN;
}

int ayatori_mutex_destroy(ayatori_mutex_t* mutex) {
  const int failed = destroy(&mutex->handle, Kind::kMutex, mutex->type == kDestroyed ? EINVAL : 0);
  if (failed == 0) mutex->type = kDestroyed;
  return failed;
}

int ayatori_mutex_lock(ayatori_mutex_t* mutex) {
  if (sync::mutex_lock_at_once(handle_in(mutex))) [[likely]]
    return 0;
  return lock_slowly(mutex);
}

int ayatori_mutex_trylock(ayatori_mutex_t* mutex) {
  const Handle h = mutex_of(mutex);
  if (h == 0) return error_of(mutex);
  if (const int done = relock(h, EBUSY); done >= 0) return done;
  if (!sync::mutex_try_lock(h)) return EBUSY;
  return took(h, 1);
}

int ayatori_mutex_timedlock(ayatori_mutex_t* mutex, const struct timespec* until) {
  return ayatori_mutex_clocklock(mutex, CLOCK_REALTIME, until);
}

int ayatori_mutex_clocklock(ayatori_mutex_t* mutex, clockid_t clock, const struct timespec* until) {
  if (!has_deadlines(clock)) return EINVAL;
  const Handle h = mutex_of(mutex);
  if (h == 0) return error_of(mutex);
  if (const int done = relock(h, EDEADLK); done >= 0) return done;
  if (!sync::mutex_try_lock(h)) {  // the time is looked at only where the lock must be waited for
    if (!valid(until)) return EINVAL;
    if (!sync::mutex_lock_until(h, deadline_of(*until, clock))) return ETIMEDOUT;
  }
  return took(h, 1);
}

int ayatori_mutex_unlock(ayatori_mutex_t* mutex) {
  if (sync::mutex_unlock_at_once(handle_in(mutex))) [[likely]]
    return 0;
  return unlock_slowly(mutex);
}

int ayatori_mutex_consistent(ayatori_mutex_t* mutex) {
  const Handle h = find_object(&mutex->handle, Kind::kMutex);
  if (h == 0 || (sync::type_of(h) & sync::kRobust) == 0) return EINVAL;
  sync::Holding now = sync::holding(h);
  if ((now.depth & sync::kInconsistent) == 0) return EINVAL;
  if (now.owner != sync::caller_number()) return now.owner == 0 ? EINVAL : EPERM;
  now.depth &= ~sync::kInconsistent;
  sync::set_holding(h, now);
  return 0;
}

int ayatori_mutexattr_init(ayatori_mutexattr_t* attr) noexcept {
  *attr = {AYATORI_MUTEX_DEFAULT, AYATORI_PROCESS_PRIVATE, AYATORI_MUTEX_STALLED, 1};
  return 0;
}
int ayatori_mutexattr_destroy(ayatori_mutexattr_t* attr) noexcept {
  *attr = {kDestroyed, kDestroyed, kDestroyed, kDestroyed};
  return 0;
}
int ayatori_mutexattr_settype(ayatori_mutexattr_t* attr, int type) noexcept {
  if (type < AYATORI_MUTEX_NORMAL || type > AYATORI_MUTEX_ERRORCHECK) return EINVAL;
  attr->type = type;
  return 0;
}
int ayatori_mutexattr_gettype(const ayatori_mutexattr_t* attr, int* type) noexcept {
  *type = attr->type;
  return 0;
}

int ayatori_cond_init(ayatori_cond_t* cond, const ayatori_condattr_t* attr) {
  cond->clock = attr ? attr->clock : CLOCK_REALTIME;
  cond->reserved = 0;
  const auto clock = static_cast<std::uint32_t>(cond->clock);
  return ayt::api::init_object(&cond->handle, Kind::kCondition, clock, 0) != 0 ? 0 : EAGAIN;
}

int ayatori_cond_destroy(ayatori_cond_t* cond) {
  const int failed = destroy(&cond->handle, Kind::kCondition, cond->clock == kDestroyed ? EINVAL : 0);
  if (failed == 0) cond->clock = kDestroyed;
  return failed;
}

int ayatori_cond_wait(ayatori_cond_t* cond, ayatori_mutex_t* mutex) { return wait(cond, mutex, nullptr, nullptr); }
int ayatori_cond_timedwait(ayatori_cond_t* cond, ayatori_mutex_t* mutex, const struct timespec* until) {
  return until ? wait(cond, mutex, until, nullptr) : EINVAL;
}
int ayatori_cond_clockwait(ayatori_cond_t* cond, ayatori_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  return until && has_deadlines(clock) ? wait(cond, mutex, until, &clock) : EINVAL;
}
int ayatori_cond_signal(ayatori_cond_t* cond) { return notify(cond, false); }
int ayatori_cond_broadcast(ayatori_cond_t* cond) { return notify(cond, true); }

int ayatori_condattr_init(ayatori_condattr_t* attr) noexcept {
  *attr = {CLOCK_REALTIME, AYATORI_PROCESS_PRIVATE};
  return 0;
}
int ayatori_condattr_destroy(ayatori_condattr_t* attr) noexcept {
  *attr = {kDestroyed, kDestroyed};
  return 0;
}
int ayatori_condattr_setclock(ayatori_condattr_t* attr, clockid_t clock) noexcept {
  if (!has_deadlines(clock)) return EINVAL;
  attr->clock = clock;
  return 0;
}
int ayatori_condattr_getclock(const ayatori_condattr_t* attr, clockid_t* clock) noexcept {
  *clock = attr->clock;
  return 0;
}

int ayatori_barrier_init(ayatori_barrier_t* barrier, const ayatori_barrierattr_t*, unsigned count) {
  if (count == 0) return EINVAL;
  return ayt::api::init_object(&barrier->handle, Kind::kBarrier, 0, count) != 0 ? 0 : EAGAIN;
}

int ayatori_barrier_destroy(ayatori_barrier_t* barrier) { return destroy(&barrier->handle, Kind::kBarrier, EINVAL); }

int ayatori_barrier_wait(ayatori_barrier_t* barrier) {
  const Handle h = find_object(&barrier->handle, Kind::kBarrier);
  if (h == 0) return EINVAL;
  return sync::barrier_wait(h) ? AYATORI_BARRIER_SERIAL_THREAD : 0;
}

int ayatori_barrierattr_init(ayatori_barrierattr_t* attr) noexcept {
  attr->shared = AYATORI_PROCESS_PRIVATE;
  return 0;
}
int ayatori_barrierattr_destroy(ayatori_barrierattr_t*) noexcept { return 0; }

int ayatori_once(ayatori_once_t* control, void (*routine)(void)) {
  if (!control || !routine) return EINVAL;
  // Inside one process what is done is seen by a plain look. Between processes only the lock brings what the routine wrote.
  const bool own_process = !ayt::gas::contains(control) || ayt::tasks::processes() == 1;
  if (own_process && std::atomic_ref<int>(control->done).load(std::memory_order_acquire) != 0) return 0;
  return run_once(control, routine) ? 0 : EAGAIN;
}

int ayatori_sem_init(ayatori_sem_t* sem, int, unsigned value) {
  if (value > AYATORI_SEM_VALUE_MAX) return fail(EINVAL);
  return ayt::api::init_object(&sem->handle, Kind::kSemaphore, 0, value) != 0 ? 0 : fail(ENOSPC);
}

int ayatori_sem_destroy(ayatori_sem_t* sem) {
  if (ayt::tasks::names::is_named(&sem->handle)) return fail(EINVAL);
  const int failed = destroy(&sem->handle, Kind::kSemaphore, EINVAL);
  return failed == 0 ? 0 : fail(failed);
}

int ayatori_sem_wait(ayatori_sem_t* sem) {
  const Handle h = find_object(&sem->handle, Kind::kSemaphore);
  if (h == 0) return fail(EINVAL);
  ayt::api::cancellation_point();
  wait_unit(sem, h, std::numeric_limits<std::int64_t>::max());
  return 0;
}

int ayatori_sem_trywait(ayatori_sem_t* sem) {
  const Handle h = find_object(&sem->handle, Kind::kSemaphore);
  if (h == 0) return fail(EINVAL);
  return sync::semaphore_try_wait(h) ? 0 : fail(EAGAIN);
}

int ayatori_sem_timedwait(ayatori_sem_t* sem, const struct timespec* until) {
  return ayatori_sem_clockwait(sem, CLOCK_REALTIME, until);
}

int ayatori_sem_clockwait(ayatori_sem_t* sem, clockid_t clock, const struct timespec* until) {
  if (!has_deadlines(clock)) return fail(EINVAL);
  const Handle h = find_object(&sem->handle, Kind::kSemaphore);
  if (h == 0) return fail(EINVAL);
  ayt::api::cancellation_point();
  if (sync::semaphore_try_wait(h)) return 0;  // the time is looked at only where it must wait
  if (!valid(until)) return fail(EINVAL);
  return wait_unit(sem, h, deadline_of(*until, clock)) ? 0 : fail(ETIMEDOUT);
}

int ayatori_sem_post(ayatori_sem_t* sem) {
  const Handle h = find_object(&sem->handle, Kind::kSemaphore);
  if (h == 0) return fail(EINVAL);
  return sync::semaphore_post(h) ? 0 : fail(EOVERFLOW);
}

int ayatori_sem_getvalue(ayatori_sem_t* sem, int* value) {
  const Handle h = find_object(&sem->handle, Kind::kSemaphore);
  if (h == 0) return fail(EINVAL);
  *value = static_cast<int>(sync::semaphore_value(h));
  return 0;
}

}  // extern "C"
