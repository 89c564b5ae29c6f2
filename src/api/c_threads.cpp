// SPDX-License-Identifier: Apache-2.0
// Threads and the job, as include/ayatori/ayatori.h declares them. Called on user-level threads; what the caller's own
// stack holds may lie in the space.
//
// C1. A thread's number (slot and generation) names it until it is joined or ends detached: the generation moves on then.
// C2. A thread that told its own number to anybody (self), or detached itself, is `handed_out`: its end looks for
//     waiters even if its creator's continuation was never taken.
// C3. ayatori_thread_exit unwinds up to bottom_of_thread or bottom_of_first and ends the thread from there, on the
//     unwinder's frames: the object in which it keeps its state lies below all frames, beside the routine's argument.
#include <pthread.h>
#include <unwind.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include "api/c_attributes.hpp"
#include "api/c_cancel.hpp"
#include "ayatori/ayatori.h"
#include "ayatori/ayatori.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "dsm/dsm.hpp"
#include "gas/space.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "tasks/keys.hpp"
#include "tasks/names.hpp"
#include "tasks/remote.hpp"
#include "tasks/runtime.hpp"
#include "ult/cancellation.hpp"
#include "ult/current.hpp"
#include "ult/fast.hpp"
#include "ult/fiber.hpp"
#include "ult/scheduler.hpp"

namespace {

namespace ayt = ayatori;
namespace ult = ayatori::ult;
namespace names = ayatori::tasks::names;
using ult::Descriptor;
using ult::JoinWord;

// On the bottom of the stack of a thread of this interface.
struct Thread {
  void* (*routine)(void*);
  void* argument;
  _Unwind_Exception unwinding;
};
struct First {
  int (*function)(int, char**);
  _Unwind_Exception unwinding;
};

struct State {
  bool first_is_ours = false;  // constant once threads run
};
constinit State state;

Descriptor* current() noexcept { return ult::current_thread(); }

// Of the current worker; the job may have to wait for begun and ended to agree (exit of the first thread).
void count(std::uint64_t ult::WorkerCounters::* counter) noexcept {
  const std::atomic_ref<std::uint64_t> c(ult::current_worker()->counters.*counter);
  c.store(c.load(std::memory_order_relaxed) + 1, std::memory_order_release);  // pairs with all_ended
}

std::uint64_t sum(std::uint64_t ult::WorkerCounters::* counter) noexcept {
  std::uint64_t all = 0;
  for (int p = 0; p < ayt::tasks::processes(); ++p) {
    ult::ProcessQueues& q = ult::queues_of(p);
    for (int i = 0; i < q.workers; ++i)
      all += std::atomic_ref<std::uint64_t>(q.worker[i].counters.*counter).load(std::memory_order_acquire);
  }
  return all;
}

// Ended are counted first: only threads that live begin others, so equal sums mean that none lived in between.
bool all_ended() noexcept {
  if (ayt::gas::apart()) {
    std::uint64_t ended = 0, begun = 0;
    for (int p = 0; p < ayt::tasks::processes(); ++p) ended += ayt::tasks::remote::c_threads(p).ended;
    for (int p = 0; p < ayt::tasks::processes(); ++p) begun += ayt::tasks::remote::c_threads(p).begun;
    return begun == ended;
  }
  const std::uint64_t ended = sum(&ult::WorkerCounters::c_ended);
  return sum(&ult::WorkerCounters::c_begun) == ended;
}

// Before the thread is counted as ended: its destructors may begin others.
void end_values() noexcept {
  if (current()->has_values) ayt::tasks::keys::end_values();
}

// An exception that leaves the routine finds no handler and ends the job by std::terminate, as this is noexcept.
[[gnu::noinline]] void bottom_of_thread(void* object) noexcept {
  const auto* t = static_cast<Thread*>(object);
  void* const result = t->routine(t->argument);
  current()->result = result;
  end_values();
  count(&ult::WorkerCounters::c_ended);
}

[[gnu::noinline]] int bottom_of_first(void* object, ayt::detail::RootArgs args) noexcept {
  ult::begin_cancellation(current(), ult::kCancellable);
  return static_cast<First*>(object)->function(args.argc, args.argv);
}

// ------------------------------------------------------------------------------------------------ exit

[[noreturn]] void finish_exit() noexcept {
  ayt::api::run_cleanup(current()->stack_top);  // of frames that could not be unwound
  end_values();
  if (current()->root) {
    while (!all_ended()) ult::sleep(ayt::base::kNsPerMs);
    ayt::net::bootstrap::set_result(0);
  } else {
    count(&ult::WorkerCounters::c_ended);
  }
  ult::end_thread();
}

_Unwind_Reason_Code stop_at_bottom(int, _Unwind_Action actions, _Unwind_Exception_Class, _Unwind_Exception*,
                                   _Unwind_Context* context, void*) {
  const auto ip = reinterpret_cast<void*>(_Unwind_GetIP(context) - 1);  // NOLINT: inside the call
  const void* function = _Unwind_FindEnclosingFunction(ip);
  if ((actions & _UA_END_OF_STACK) != 0 || function == reinterpret_cast<void*>(&bottom_of_thread) ||
      function == reinterpret_cast<void*>(&bottom_of_first))
    finish_exit();
  ayt::api::run_cleanup(reinterpret_cast<void*>(_Unwind_GetCFA(context)));  // NOLINT: of the frames that were left
  return _URC_NO_REASON;
}

void swallowed(_Unwind_Reason_Code, _Unwind_Exception*) {
  ayt::base::fatal("a catch (...) did not let ayatori_thread_exit pass: it must throw again");
}

// ------------------------------------------------------------------------------------------------ numbers

// Null: can name no thread.
Descriptor* thread_of(ayatori_thread_t number) noexcept {
  const auto slot = static_cast<std::uint32_t>(number) - 1;
  if (slot >= ult::config().thread_count) return nullptr;
  return &ult::config().threads[slot];
}

// Of a thread, wherever it is held.
ayt::tasks::remote::ThreadFacts facts_of(const Descriptor* d) noexcept {
  if (ayt::gas::apart()) return ayt::tasks::remote::facts_of(d);
  return {ult::number_of(d), d->invoke, d->join.load(), d->root, d->high.load(std::memory_order_relaxed)};
}

// Why the thread can be neither joined nor detached, or 0.
int refuse(ayatori_thread_t number, Descriptor** thread) noexcept {
  if (!ult::on_user_thread()) return EPERM;
  Descriptor* d = thread_of(number);
  if (!d) return ESRCH;
  const auto facts = facts_of(d);
  if (facts.number != number) return ESRCH;
  if (facts.invoke != &bottom_of_thread && !facts.root) return EINVAL;
  if (facts.join != JoinWord::kRunning && !JoinWord::is_done(facts.join)) return EINVAL;  // detached, or somebody waits
  *thread = d;
  return 0;
}

int exists(ayatori_thread_t number) noexcept {
  if (!ult::on_user_thread()) return EPERM;
  const Descriptor* d = thread_of(number);
  return d && facts_of(d).number == number ? 0 : ESRCH;
}

// Is `d` the caller, or does it wait for the caller's end?
bool waits_for_caller(const Descriptor* d) noexcept {
  return d == current() || ayt::tasks::remote::is_waiter(d, current());
}

}  // namespace

extern "C" {

int ayatori_run(int argc, char** argv, int (*f)(int, char**)) {
  First first{f, {}};
  state.first_is_ours = true;
  return ayt::detail::run_job(
      argc, argv, [](void* where, void* from) { ::new (where) First(*static_cast<First*>(from)); }, &bottom_of_first,
      [](void*) {}, &first, alignof(First), sizeof(First));
}

int ayatori_thread_create(ayatori_thread_t* thread, const ayatori_thread_attr_t* attr, void* (*routine)(void*),
                          void* argument) {
  if (!ult::on_user_thread()) return EPERM;
  if (attr && !ayt::api::valid(*attr)) return EINVAL;
  if (attr && !ayt::api::fits(*attr)) return EAGAIN;
  const ult::Room room = ult::allocate(alignof(Thread), sizeof(Thread));
  if (!room.thread) return EAGAIN;
  ::new (room.object) Thread{routine, argument, {}};
  room.thread->result = nullptr;
  if (attr && attr->detach_state == AYATORI_THREAD_CREATE_DETACHED) {
    room.thread->handed_out = true;  // C2
    room.thread->join.detach();
  }
  const bool high = attr && attr->inherit == AYATORI_EXPLICIT_SCHED ? attr->priority != 0
                                                                    : current()->high.load(std::memory_order_relaxed);
  if (high) room.thread->high.store(true, std::memory_order_relaxed);
  ult::begin_cancellation(room.thread, ult::kCancellable);
  *thread = ult::number_of(room.thread);
  count(&ult::WorkerCounters::c_begun);
  ult::fork(room.thread, &bottom_of_thread);
  return 0;
}

int ayatori_thread_join(ayatori_thread_t thread, void** result) {
  ayt::api::cancellation_point();
  Descriptor* d = nullptr;
  if (const int refused = refuse(thread, &d)) return refused;
  if (waits_for_caller(d)) return EDEADLK;
  current()->timed_out = false;
  ayt::api::cancellable([d] { return ult::join(d); });
  if (current()->timed_out) ayt::api::end_cancelled();
  void* const value = d->result;
  ++d->generation;  // C1
  ult::reap(d);
  if (result) *result = value;
  return 0;
}

int ayatori_thread_detach(ayatori_thread_t thread) {
  Descriptor* d = nullptr;
  if (const int refused = refuse(thread, &d)) return refused;
  if (d == current()) d->handed_out = true;  // C2
  (void)ult::detach(d);
  return 0;
}

int ayatori_thread_cancel(ayatori_thread_t thread) {
  if (!ult::on_user_thread()) return EPERM;
  const Descriptor* d = thread_of(thread);
  if (!d) return ESRCH;
  const auto facts = facts_of(d);
  if (facts.number != thread) return ESRCH;
  if (facts.invoke != &bottom_of_thread && !(facts.root && state.first_is_ours)) return EINVAL;
  ayt::tasks::remote::cancel(d, static_cast<std::uint32_t>(thread >> 32));
  return 0;
}

int ayatori_thread_setschedparam(ayatori_thread_t thread, int policy, const struct sched_param* param) {
  if (const int refused = ayt::api::refuse_policy(policy)) return refused;
  return ayatori_thread_setschedprio(thread, param->sched_priority);
}

int ayatori_thread_getschedparam(ayatori_thread_t thread, int* policy, struct sched_param* param) {
  if (!ult::on_user_thread()) return EPERM;
  const Descriptor* const d = thread_of(thread);
  if (!d) return ESRCH;
  const auto facts = facts_of(d);
  if (facts.number != thread) return ESRCH;
  *policy = SCHED_OTHER;
  param->sched_priority = facts.high ? 1 : 0;
  return 0;
}

int ayatori_thread_setschedprio(ayatori_thread_t thread, int priority) {
  if (const int refused = exists(thread)) return refused;
  if (!ayt::api::is_priority(priority)) return EINVAL;
  ayt::tasks::remote::set_priority(thread_of(thread), static_cast<std::uint32_t>(thread >> 32), priority != 0);
  return 0;
}

int ayatori_thread_getattr_np(ayatori_thread_t thread, ayatori_thread_attr_t* attr) {
  if (const int refused = exists(thread)) return refused;
  const Descriptor* d = thread_of(thread);
  ayatori_thread_attr_init(attr);
  ayt::api::describe_stack(attr, static_cast<std::uint32_t>(thread) - 1);
  if (facts_of(d).join == JoinWord::kDetached) attr->detach_state = AYATORI_THREAD_CREATE_DETACHED;
  return 0;
}

int ayatori_thread_setname_np(ayatori_thread_t thread, const char* name) {
  if (const int refused = exists(thread)) return refused;
  char copy[names::kThreadName] = {};
  if (std::strlen(name) >= sizeof copy) return ERANGE;
  std::strcpy(copy, name);
  names::set_thread_name(thread, copy);
  return 0;
}

int ayatori_thread_getname_np(ayatori_thread_t thread, char* name, size_t bytes) {
  if (const int refused = exists(thread)) return refused;
  if (bytes < names::kThreadName) return ERANGE;
  char given[names::kThreadName] = {};
  if (!names::get_thread_name(thread, given)) std::strncpy(given, program_invocation_short_name, sizeof given - 1);
  std::memcpy(name, given, sizeof given);
  return 0;
}

int ayatori_thread_getcpuclockid(ayatori_thread_t thread, clockid_t*) {
  if (const int refused = exists(thread)) return refused;
  return ENOTSUP;
}

int ayatori_thread_kill(ayatori_thread_t thread, int signal) {
  if (signal < 0 || signal >= NSIG) return EINVAL;
  if (const int refused = exists(thread)) return refused;
  if (signal == 0) return 0;
  if (thread != ayatori_thread_self()) return ENOTSUP;
  return raise(signal) == 0 ? 0 : errno;
}

int ayatori_thread_sigmask(int how, const sigset_t* set, sigset_t* old) {
  if (set) return how == SIG_BLOCK || how == SIG_UNBLOCK || how == SIG_SETMASK ? ENOTSUP : EINVAL;
  return pthread_sigmask(SIG_BLOCK, nullptr, old);
}

int ayatori_thread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  return pthread_atfork(prepare, parent, child);
}

void ayatori_thread_exit(void* result) {
  AYT_CHECK(ult::on_user_thread(), "ayatori_thread_exit was called outside ayatori's threads");
  Descriptor* d = current();
  _Unwind_Exception* unwinding = nullptr;
  if (d->root && state.first_is_ours)
    unwinding = &static_cast<First*>(d->object)->unwinding;
  else if (!d->root && d->invoke == &bottom_of_thread)
    unwinding = &static_cast<Thread*>(d->object)->unwinding;
  AYT_CHECK(unwinding, "ayatori_thread_exit was called in a thread that ayatori_thread_create did not make");
  ayt::api::disable_cancellation();
  d->result = result;
  unwinding->exception_class = 0;
  unwinding->exception_cleanup = &swallowed;
  ult::fiber::before_unwind();
  const _Unwind_Reason_Code failed = _Unwind_ForcedUnwind(unwinding, &stop_at_bottom, nullptr);
  // A frame without unwind tables: nothing of what is above was undone.
  if (failed == _URC_END_OF_STACK) finish_exit();
  ayt::base::fatal("ayatori_thread_exit: the stack cannot be unwound (reason {})", static_cast<int>(failed));
}

ayatori_thread_t ayatori_thread_self(void) noexcept {
  if (!ult::on_user_thread()) return 0;
  current()->handed_out = true;  // C2
  return ult::number_of(current());
}

[[gnu::noinline]] int* ayatori_errno_location(void) noexcept {
  asm volatile("" ::: "memory");  // no pure function, whatever is optimised at link time
  return __errno_location();
}

int ayatori_thread_equal(ayatori_thread_t a, ayatori_thread_t b) noexcept { return a == b; }

int ayatori_thread_yield(void) {
  ayt::detail::yield_thread();
  ayt::api::cancellation_point_at_once();
  return 0;
}

}  // extern "C"
