// SPDX-License-Identifier: Apache-2.0
// Read-write and spin locks, as include/ayatori/ayatori.h declares them, over tasks::sync. Called on user-level threads
// and OS threads of the program.
#include <cerrno>
#include <cstdint>
#include <limits>

#include "api/c_sync.hpp"
#include "ayatori/ayatori.h"

namespace {

namespace api = ayatori::api;
namespace sync = ayatori::tasks::sync;
using api::Handle;
using api::kDestroyed;
using api::Kind;

static_assert(AYATORI_RWLOCK_PREFER_READER_NP == sync::kPreferReaders);
static_assert(AYATORI_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP == sync::kFirstComeFirstServed);

bool valid_kind(int kind) noexcept {
  return kind == AYATORI_RWLOCK_PREFER_READER_NP || kind == AYATORI_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
}
bool valid_shared(int shared) noexcept { return shared == AYATORI_PROCESS_PRIVATE || shared == AYATORI_PROCESS_SHARED; }

// 0: error_of says why.
Handle lock_of(ayatori_rwlock_t* lock) noexcept {
  if (lock->kind == kDestroyed) return api::find_object(&lock->handle, Kind::kRwLock);
  return api::ensure_object(&lock->handle, Kind::kRwLock, static_cast<std::uint32_t>(lock->kind));
}
int error_of(const ayatori_rwlock_t* lock) noexcept { return lock->kind == kDestroyed ? EINVAL : EAGAIN; }

int result_of(sync::RwLocked locked) noexcept {
  switch (locked) {
    case sync::RwLocked::kYes: return 0;
    case sync::RwLocked::kTimedOut: return ETIMEDOUT;
    case sync::RwLocked::kDeadlock: break;
  }
  return EDEADLK;
}

int lock_for(ayatori_rwlock_t* lock, bool shared) noexcept {
  const Handle h = lock_of(lock);
  if (h == 0) return error_of(lock);
  return result_of(sync::rwlock_lock(h, shared, std::numeric_limits<std::int64_t>::max()));
}

int try_lock(ayatori_rwlock_t* lock, bool shared) noexcept {
  const Handle h = lock_of(lock);
  if (h == 0) return error_of(lock);
  return sync::rwlock_try_lock(h, shared) ? 0 : EBUSY;
}

int lock_until(ayatori_rwlock_t* lock, bool shared, clockid_t clock, const timespec* until) noexcept {
  if (!api::has_deadlines(clock)) return EINVAL;
  const Handle h = lock_of(lock);
  if (h == 0) return error_of(lock);
  if (sync::rwlock_try_lock(h, shared)) return 0;  // the time is looked at only where the lock must be waited for
  if (!api::valid(until)) return EINVAL;
  return result_of(sync::rwlock_lock(h, shared, api::deadline_of(*until, clock)));
}

}  // namespace

extern "C" {

int ayatori_rwlock_init(ayatori_rwlock_t* lock, const ayatori_rwlockattr_t* attr) {
  const int kind = attr ? attr->kind : AYATORI_RWLOCK_DEFAULT_NP;
  if (!valid_kind(kind)) return EINVAL;
  lock->kind = kind;
  lock->reserved = 0;
  return api::init_object(&lock->handle, Kind::kRwLock, static_cast<std::uint32_t>(kind), 0) != 0 ? 0 : EAGAIN;
}

int ayatori_rwlock_destroy(ayatori_rwlock_t* lock) {
  const int failed = api::destroy(&lock->handle, Kind::kRwLock, lock->kind == kDestroyed ? EINVAL : 0);
  if (failed == 0) lock->kind = kDestroyed;
  return failed;
}

int ayatori_rwlock_rdlock(ayatori_rwlock_t* lock) { return lock_for(lock, true); }
int ayatori_rwlock_wrlock(ayatori_rwlock_t* lock) { return lock_for(lock, false); }
int ayatori_rwlock_tryrdlock(ayatori_rwlock_t* lock) { return try_lock(lock, true); }
int ayatori_rwlock_trywrlock(ayatori_rwlock_t* lock) { return try_lock(lock, false); }
int ayatori_rwlock_timedrdlock(ayatori_rwlock_t* lock, const struct timespec* until) {
  return lock_until(lock, true, CLOCK_REALTIME, until);
}
int ayatori_rwlock_timedwrlock(ayatori_rwlock_t* lock, const struct timespec* until) {
  return lock_until(lock, false, CLOCK_REALTIME, until);
}
int ayatori_rwlock_clockrdlock(ayatori_rwlock_t* lock, clockid_t clock, const struct timespec* until) {
  return lock_until(lock, true, clock, until);
}
int ayatori_rwlock_clockwrlock(ayatori_rwlock_t* lock, clockid_t clock, const struct timespec* until) {
  return lock_until(lock, false, clock, until);
}

int ayatori_rwlock_unlock(ayatori_rwlock_t* lock) {
  const Handle h = api::find_object(&lock->handle, Kind::kRwLock);
  if (h == 0) return lock->kind == kDestroyed ? EINVAL : EPERM;
  return sync::rwlock_unlock(h) ? 0 : EPERM;
}

int ayatori_rwlockattr_init(ayatori_rwlockattr_t* attr) noexcept {
  *attr = {AYATORI_RWLOCK_DEFAULT_NP, AYATORI_PROCESS_PRIVATE};
  return 0;
}
int ayatori_rwlockattr_destroy(ayatori_rwlockattr_t* attr) noexcept {
  *attr = {kDestroyed, kDestroyed};
  return 0;
}
int ayatori_rwlockattr_setkind_np(ayatori_rwlockattr_t* attr, int kind) noexcept {
  if (!valid_kind(kind)) return EINVAL;
  attr->kind = kind;
  return 0;
}
int ayatori_rwlockattr_getkind_np(const ayatori_rwlockattr_t* attr, int* kind) noexcept {
  *kind = attr->kind;
  return 0;
}
int ayatori_rwlockattr_setpshared(ayatori_rwlockattr_t* attr, int shared) noexcept {
  if (!valid_shared(shared)) return EINVAL;
  attr->shared = shared;
  return 0;
}
int ayatori_rwlockattr_getpshared(const ayatori_rwlockattr_t* attr, int* shared) noexcept {
  *shared = attr->shared;
  return 0;
}

int ayatori_spin_init(ayatori_spinlock_t* lock, int shared) {
  if (!valid_shared(shared)) return EINVAL;
  return api::init_object(&lock->handle, Kind::kMutex, AYATORI_MUTEX_ERRORCHECK, 0) != 0 ? 0 : EAGAIN;
}
int ayatori_spin_destroy(ayatori_spinlock_t* lock) { return api::destroy(&lock->handle, Kind::kMutex, EINVAL); }

int ayatori_spin_lock(ayatori_spinlock_t* lock) {
  const Handle h = api::find_object(&lock->handle, Kind::kMutex);
  if (h == 0) return EINVAL;
  if (sync::holding(h).owner == sync::caller_number()) return EDEADLK;
  sync::mutex_lock(h);
  sync::set_holding(h, {sync::caller_number(), 1});
  return 0;
}
int ayatori_spin_trylock(ayatori_spinlock_t* lock) {
  const Handle h = api::find_object(&lock->handle, Kind::kMutex);
  if (h == 0) return EINVAL;
  if (!sync::mutex_try_lock(h)) return EBUSY;
  sync::set_holding(h, {sync::caller_number(), 1});
  return 0;
}
int ayatori_spin_unlock(ayatori_spinlock_t* lock) {
  const Handle h = api::find_object(&lock->handle, Kind::kMutex);
  if (h == 0) return EINVAL;
  if (sync::holding(h).owner != sync::caller_number()) return EPERM;
  sync::set_holding(h, {0, 0});
  sync::mutex_unlock(h);
  return 0;
}

}  // extern "C"
