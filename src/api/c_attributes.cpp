// SPDX-License-Identifier: Apache-2.0
// Attributes of threads, and those of objects that are only kept, as include/ayatori/ayatori.h declares them.
#include "api/c_attributes.hpp"

#include <sched.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "api/c_sync.hpp"
#include "dsm/dsm.hpp"
#include "gas/space.hpp"

namespace {

namespace ayt = ayatori;
using ayt::api::kDestroyed;

constinit std::atomic<int> concurrency = 0;

constexpr int kLeastCeiling = 1, kMostCeiling = 99;  // of SCHED_FIFO, on Linux

std::size_t largest_stack_bytes() noexcept {
  // Less the guard, and a page for what lies below the first frame.
  return (ayt::gas::layout().slot_pages - ayt::dsm::kGuardPages - 1) << ayt::gas::kPageShift;
}

bool is_sharing(int shared) noexcept { return shared == AYATORI_PROCESS_PRIVATE || shared == AYATORI_PROCESS_SHARED; }

// The one value of several, from 0 on, that there is.
int only(int value, int supported, int count) noexcept {
  if (value < 0 || value >= count) return EINVAL;
  return value == supported ? 0 : ENOTSUP;
}

template <class Attribute>
int share(Attribute* attr, int shared) noexcept {
  if (!is_sharing(shared)) return EINVAL;
  attr->shared = shared;
  return 0;
}

}  // namespace

namespace ayatori::api {

bool valid(const ayatori_thread_attr_t& a) noexcept {
  return (a.detach_state == AYATORI_THREAD_CREATE_JOINABLE || a.detach_state == AYATORI_THREAD_CREATE_DETACHED) &&
         is_priority(a.priority) && a.stack_bytes >= AYATORI_THREAD_STACK_MIN;
}
bool fits(const ayatori_thread_attr_t& a) noexcept { return a.stack_bytes <= largest_stack_bytes(); }

void describe_stack(ayatori_thread_attr_t* attr, std::uint32_t slot) noexcept {
  const ayt::gas::Layout& l = ayt::gas::layout();
  const std::uintptr_t end = l.base + ((std::uintptr_t{slot} + 1) * l.slot_pages << ayt::gas::kPageShift);
  attr->stack_bytes = largest_stack_bytes();
  attr->stack_lowest = reinterpret_cast<void*>(end - attr->stack_bytes);  // NOLINT: of the space
}

bool is_priority(int priority) noexcept { return priority == 0 || priority == 1; }

int refuse_policy(int policy) noexcept {
  if (policy == SCHED_OTHER) return 0;
  return policy == SCHED_FIFO || policy == SCHED_RR ? ENOTSUP : EINVAL;
}

}  // namespace ayatori::api

extern "C" {

int ayatori_thread_attr_init(ayatori_thread_attr_t* attr) noexcept {
  *attr = {largest_stack_bytes(),
           ayt::dsm::kGuardPages << ayt::gas::kPageShift,
           AYATORI_THREAD_CREATE_JOINABLE,
           AYATORI_INHERIT_SCHED,
           0,
           nullptr};
  return 0;
}
int ayatori_thread_attr_destroy(ayatori_thread_attr_t* attr) noexcept {
  *attr = {0, 0, kDestroyed, kDestroyed, kDestroyed, nullptr};
  return 0;
}
int ayatori_thread_attr_setdetachstate(ayatori_thread_attr_t* attr, int detach_state) noexcept {
  if (detach_state != AYATORI_THREAD_CREATE_JOINABLE && detach_state != AYATORI_THREAD_CREATE_DETACHED) return EINVAL;
  attr->detach_state = detach_state;
  return 0;
}
int ayatori_thread_attr_getdetachstate(const ayatori_thread_attr_t* attr, int* detach_state) noexcept {
  *detach_state = attr->detach_state;
  return 0;
}
int ayatori_thread_attr_setstacksize(ayatori_thread_attr_t* attr, size_t bytes) noexcept {
  if (bytes < AYATORI_THREAD_STACK_MIN) return EINVAL;
  attr->stack_bytes = bytes;
  attr->stack_lowest = nullptr;
  return 0;
}
int ayatori_thread_attr_getstacksize(const ayatori_thread_attr_t* attr, size_t* bytes) noexcept {
  *bytes = attr->stack_bytes;
  return 0;
}

int ayatori_thread_attr_setstack(ayatori_thread_attr_t*, void*, size_t bytes) noexcept {
  return bytes < AYATORI_THREAD_STACK_MIN ? EINVAL : ENOTSUP;
}
int ayatori_thread_attr_getstack(const ayatori_thread_attr_t* attr, void** lowest, size_t* bytes) noexcept {
  *lowest = attr->stack_lowest;
  *bytes = attr->stack_bytes;
  return 0;
}
int ayatori_thread_attr_setguardsize(ayatori_thread_attr_t* attr, size_t bytes) noexcept {
  attr->guard_bytes = bytes;
  return 0;
}
int ayatori_thread_attr_getguardsize(const ayatori_thread_attr_t* attr, size_t* bytes) noexcept {
  *bytes = attr->guard_bytes;
  return 0;
}
int ayatori_thread_attr_setscope(ayatori_thread_attr_t*, int scope) noexcept {
  return only(scope, AYATORI_SCOPE_PROCESS, 2);
}
int ayatori_thread_attr_getscope(const ayatori_thread_attr_t*, int* scope) noexcept {
  *scope = AYATORI_SCOPE_PROCESS;
  return 0;
}
int ayatori_thread_attr_setinheritsched(ayatori_thread_attr_t* attr, int inherit) noexcept {
  if (inherit != AYATORI_INHERIT_SCHED && inherit != AYATORI_EXPLICIT_SCHED) return EINVAL;
  attr->inherit = inherit;
  return 0;
}
int ayatori_thread_attr_getinheritsched(const ayatori_thread_attr_t* attr, int* inherit) noexcept {
  *inherit = attr->inherit;
  return 0;
}
int ayatori_thread_attr_setschedpolicy(ayatori_thread_attr_t*, int policy) noexcept {
  return ayt::api::refuse_policy(policy);
}
int ayatori_thread_attr_getschedpolicy(const ayatori_thread_attr_t*, int* policy) noexcept {
  *policy = SCHED_OTHER;
  return 0;
}
int ayatori_thread_attr_setschedparam(ayatori_thread_attr_t* attr, const struct sched_param* param) noexcept {
  if (!ayt::api::is_priority(param->sched_priority)) return EINVAL;
  attr->priority = param->sched_priority;
  return 0;
}
int ayatori_thread_attr_getschedparam(const ayatori_thread_attr_t* attr, struct sched_param* param) noexcept {
  param->sched_priority = attr->priority;
  return 0;
}
int ayatori_thread_setconcurrency(int level) noexcept {
  if (level < 0) return EINVAL;
  concurrency.store(level, std::memory_order_relaxed);  // a number alone
  return 0;
}
int ayatori_thread_getconcurrency(void) noexcept { return concurrency.load(std::memory_order_relaxed); }

int ayatori_mutexattr_setpshared(ayatori_mutexattr_t* attr, int shared) noexcept { return share(attr, shared); }
int ayatori_mutexattr_getpshared(const ayatori_mutexattr_t* attr, int* shared) noexcept {
  *shared = attr->shared;
  return 0;
}
int ayatori_mutexattr_setprotocol(ayatori_mutexattr_t*, int protocol) noexcept {
  return only(protocol, AYATORI_PRIO_NONE, 3);
}
int ayatori_mutexattr_getprotocol(const ayatori_mutexattr_t*, int* protocol) noexcept {
  *protocol = AYATORI_PRIO_NONE;
  return 0;
}
int ayatori_mutexattr_setrobust(ayatori_mutexattr_t* attr, int robust) noexcept {
  if (robust != AYATORI_MUTEX_STALLED && robust != AYATORI_MUTEX_ROBUST) return EINVAL;
  attr->robust = robust;
  return 0;
}
int ayatori_mutexattr_getrobust(const ayatori_mutexattr_t* attr, int* robust) noexcept {
  *robust = attr->robust;
  return 0;
}
int ayatori_mutexattr_setprioceiling(ayatori_mutexattr_t* attr, int ceiling) noexcept {
  if (ceiling < kLeastCeiling || ceiling > kMostCeiling) return EINVAL;
  attr->ceiling = ceiling;
  return 0;
}
int ayatori_mutexattr_getprioceiling(const ayatori_mutexattr_t* attr, int* ceiling) noexcept {
  *ceiling = attr->ceiling;
  return 0;
}
int ayatori_mutex_setprioceiling(ayatori_mutex_t*, int, int*) noexcept { return EINVAL; }
int ayatori_mutex_getprioceiling(const ayatori_mutex_t*, int*) noexcept { return EINVAL; }

int ayatori_condattr_setpshared(ayatori_condattr_t* attr, int shared) noexcept { return share(attr, shared); }
int ayatori_condattr_getpshared(const ayatori_condattr_t* attr, int* shared) noexcept {
  *shared = attr->shared;
  return 0;
}
int ayatori_barrierattr_setpshared(ayatori_barrierattr_t* attr, int shared) noexcept { return share(attr, shared); }
int ayatori_barrierattr_getpshared(const ayatori_barrierattr_t* attr, int* shared) noexcept {
  *shared = attr->shared;
  return 0;
}

}  // extern "C"
