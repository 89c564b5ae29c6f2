// SPDX-License-Identifier: Apache-2.0
#include "tasks/sync.hpp"

#include <unistd.h>

#include <atomic>
#include <new>
#include <system_error>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/futex.hpp"
#include "gas/space.hpp"
#include "tasks/address_table.hpp"
#include "tasks/runtime.hpp"
#include "ult/current.hpp"
#include "ult/scheduler.hpp"

namespace ayatori::tasks::sync {

namespace {

using ult::Descriptor;
using ult::ThreadState;
using ult::Worker;

// word of a mutex: bit 0 locked, bit 1 waiters, from bit 8 the process of the last holder.
constexpr std::uint32_t kLocked = 1;
constexpr std::uint32_t kWaiters = 2;
constexpr std::uint32_t last(int process) { return static_cast<std::uint32_t>(process) << 8; }

struct alignas(64) Object {
  Kind kind;
  std::uint32_t next_free;  // Guarded by the pool's lock.
  base::SharedLock guard;
  std::atomic<std::uint32_t> word;   // mutex
  ult::List waiters;                 // Guarded by guard.
  std::ptrdiff_t expected, arrived;  // barrier; expected: a semaphore's value; guarded by guard
  std::uint64_t arrived_processes;   // barrier; semaphore: who posted what is in the value; guarded by guard
  std::uint64_t leaving_processes;   // barrier; of the last one to arrive
  ult::List leaving;                 // barrier; of the last one to arrive, until barrier_release; guarded
  bool completing;                   // barrier: all have arrived, barrier_release is still to come; guarded
  std::uint32_t users;               // Y6; 0: not in static data. Guarded by the pool's statics.
  std::atomic<std::uint64_t> phase;  // barrier: releases so far; changed under guard
  Extra extra;
};

constexpr std::uint32_t kObjects = 1u << 24;

struct Pool {
  base::SharedLock lock;
  base::SharedLock statics;               // before lock
  std::uint32_t used = 0;                 // Guarded by lock.
  std::uint32_t free_head = 0;            // Guarded by lock.
  std::uint32_t os_waiters_used = 0;      // Guarded by lock.
  Descriptor* free_os_waiters = nullptr;  // Guarded by lock; linked through next
};

struct State {
  Pool* pool = nullptr;
  Object* objects = nullptr;
  Descriptor* os_waiters = nullptr;
  std::atomic<pid_t> member = 0;  // set with the first object in static data; a number, nothing is ordered by it
};
constinit State state;

Object& object(Handle h, Kind kind) {
  AYT_CHECK(h != 0 && h < kObjects && state.objects[h].kind == kind,
            "a mutex, condition variable or barrier was used that is not alive (handle {})", h);
  return state.objects[h];
}

struct Creation {
  Kind kind;
  std::uint32_t made;
};
void create_native(void* argument) {
  auto& c = *static_cast<Creation*>(argument);
  Pool& pool = *state.pool;
  pool.lock.lock();
  c.made = pool.free_head;
  if (c.made != 0)
    pool.free_head = state.objects[c.made].next_free;
  else if (pool.used + 1 < kObjects)
    c.made = ++pool.used;
  pool.lock.unlock();
}

void destroy_native(void* argument) {
  const auto h = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(argument));
  Pool& pool = *state.pool;
  pool.lock.lock();
  state.objects[h].kind = Kind::kFree;
  state.objects[h].next_free = pool.free_head;
  pool.free_head = h;
  pool.lock.unlock();
}

Handle create(Kind kind) {
  thread_local Creation creation;  // not on the stack: that may lie in the space
  creation = {kind, 0};
  // The thread stays on this worker: call_native does not switch threads.
  call_native(&create_native, &creation);
  const std::uint32_t h = creation.made;
  if (h == 0) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "ayatori");
  Object& o = state.objects[h];
  o.kind = kind;
  o.waiters = {};
  o.leaving = {};
  o.word.store(last(self()), std::memory_order_relaxed);  // published with the handle
  o.expected = o.arrived = 0;
  o.arrived_processes = 0;
  o.completing = false;
  o.users = 0;
  o.phase.store(0, std::memory_order_relaxed);
  o.extra.type = o.extra.depth = 0;
  o.extra.owner.store(0, std::memory_order_relaxed);
  return h;
}

void destroy(Handle h, Kind kind) {
  if (h == 0) return;
  (void)object(h, kind);
  call_native(&destroy_native, reinterpret_cast<void*>(h));  // NOLINT
}

// ------------------------------------------------------------------------------------------------ static data (Y6)

struct Sharing {
  const void* where;
  Kind kind;
  Handle handle;  // of share: made, then agreed on; of unshare: 0 unless this was the last user
};
thread_local Sharing sharing_slot;  // as object_slot below
[[gnu::noinline]] Sharing& sharing() { return sharing_slot; }

void share_native(void* argument) {
  auto& s = *static_cast<Sharing*>(argument);
  Pool& pool = *state.pool;
  pool.statics.lock();
  const Handle there = address_table::find(s.where);
  const bool lives = alive(there, s.kind) && state.objects[there].users != 0;
  s.handle = lives ? there : address_table::replace(s.where, there, s.handle);
  if (s.handle != 0) ++state.objects[s.handle].users;
  pool.statics.unlock();
}

void unshare_native(void* argument) {
  auto& s = *static_cast<Sharing*>(argument);
  Pool& pool = *state.pool;
  pool.statics.lock();
  if (--state.objects[s.handle].users != 0)
    s.handle = 0;
  else
    address_table::erase(s.where);
  pool.statics.unlock();
}

// ------------------------------------------------------------------------------------------------ waiters

constexpr std::uint32_t kOsWaiters = 1u << 16;  // of all processes together

// The descriptor of a waiting OS thread of the program. In memory mapped by all before the fork: who wakes it may run in
// any process. A used one keeps its wait_sequence, so that a timer that outlived its wait is known.
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

Descriptor* os_descriptor() {
  thread_local OsWaiter mine;
  return mine.get();
}

void os_block(Descriptor* d) {
  while (d->os_wake.load(std::memory_order_acquire) == 0)  // pairs with make_ready
    base::futex_wait(d->os_wake, 0, 100 * base::kNsPerMs);
  d->os_wake.store(0, std::memory_order_relaxed);
}

// ------------------------------------------------------------------------------------------------ mutex

// Takes the lock if it is free. Returns the process of the last holder, or -1.
int try_take(Object& o) {
  std::uint32_t w = o.word.load(std::memory_order_relaxed);
  while ((w & kLocked) == 0) {
    // acquire: pairs with the release in unlock
    if (o.word.compare_exchange_weak(w, (w & ~0xffu) | (w & kWaiters) | kLocked, std::memory_order_acquire))
      return static_cast<int>(w >> 8);
  }
  return -1;
}

// The timer of d's wait number `sequence` for a mutex or a semaphore (Y5).
bool wait_timed_out(Descriptor* d, std::uint64_t sequence) {
  auto* const o = static_cast<Object*>(d->wait_condition);  // objects stay mapped, whatever d does meanwhile
  if (!o) return false;
  o->guard.lock();
  const bool waits = d->wait_sequence == sequence && d->wait_condition == o && o->waiters.remove(d);
  o->guard.unlock();
  if (waits) {
    d->timed_out = true;
    ult::make_ready(d, true);
  }
  return false;
}

// `d` waits for `o` from here on, until deadline_ns unless that is INT64_MAX. Under o's guard, native stack.
void wait_guarded(Object& o, Descriptor* d, ThreadState why, std::int64_t deadline_ns) {
  d->state = why;
  d->wait_object = &o;
  d->wait_condition = &o;
  ++d->wait_sequence;
  if (deadline_ns != INT64_MAX) ult::add_timer(d, deadline_ns, wait_timed_out, d->wait_sequence);
  o.waiters.push(d);
}

// Takes the lock for `d` or lets it wait. Returns the last holder's process, or -1: it waits. Native stack.
int take_or_wait(Object& o, Descriptor* d, std::int64_t deadline_ns = INT64_MAX) {
  o.guard.lock();
  int from = try_take(o);
  while (from < 0) {
    std::uint32_t w = o.word.load(std::memory_order_relaxed);
    if ((w & kLocked) == 0) {
      from = try_take(o);
      continue;
    }
    if (o.word.compare_exchange_weak(w, w | kWaiters, std::memory_order_acq_rel)) break;
  }
  if (from < 0) wait_guarded(o, d, ThreadState::kLocking, deadline_ns);
  o.guard.unlock();
  return from;
}

void* op_lock(Worker& w, Descriptor* self_, void* argument) {
  Object& o = *static_cast<Object*>(argument);
  const int from = take_or_wait(o, self_);
  if (from < 0) return ult::schedule(w);
  if (from != self()) fences().pass(from, self());
  return ult::resume_here(w, self_);
}

void* op_lock_until(Worker& w, Descriptor* self_, void* argument) {
  self_->timed_out = false;
  const int from = take_or_wait(*static_cast<Object*>(argument), self_, self_->deadline_ns);
  if (from < 0) return ult::schedule(w);
  if (from != self()) fences().pass(from, self());
  return ult::resume_here(w, self_);
}

void pass_native(void* argument) { fences().pass(static_cast<int>(reinterpret_cast<std::intptr_t>(argument)), self()); }

// A lock taken from process `from` is held: see what was written under it.
void see(int from) {
  if (from != self()) call_native(&pass_native, reinterpret_cast<void*>(static_cast<std::intptr_t>(from)));  // NOLINT
}

// Hands the lock to the first waiter, or frees it. Native stack.
void unlock_native(Object& o) {
  o.guard.lock();
  Descriptor* next = o.waiters.pop();
  const std::uint32_t waiters = o.waiters.empty() ? 0 : kWaiters;
  if (next)
    o.word.store(last(self()) | kLocked | waiters, std::memory_order_release);  // Y4; waiters under guard
  else
    o.word.store(last(self()), std::memory_order_release);
  o.guard.unlock();
  if (next) ult::make_ready(next, false);
}

void unlock_call(void* argument) { unlock_native(*static_cast<Object*>(argument)); }

bool unlock_fast(Object& o) {
  std::uint32_t w = o.word.load(std::memory_order_relaxed);
  AYT_CHECK((w & kLocked) != 0, "an ayatori::mutex that is not locked was unlocked");
  return (w & kWaiters) == 0 && o.word.compare_exchange_strong(w, last(self()), std::memory_order_release);  // Y3
}

// ------------------------------------------------------------------------------------------------ condition variable

// `d` was woken, or its time is over: it needs its mutex again. Native stack.
void relock(Descriptor* d, Object& mutex) {
  const int from = take_or_wait(mutex, d);
  if (from < 0) return;  // it gets the lock in its turn
  // The lock is taken on behalf of d: its process must see what the last holder wrote.
  if (from != self()) fences().give(from);
  if (!d->os_thread && ult::config().hooks.home(d) == self() && from != self()) d->needs_acquire = true;
  ult::make_ready(d, false);
}

// The timer of d's wait number `sequence`. A timer that outlived its wait finds another number, or d in no list.
bool timed_out(Descriptor* d, std::uint64_t sequence) {
  auto* const condition = static_cast<Object*>(d->wait_condition);  // objects stay mapped, whatever d does meanwhile
  if (!condition) return false;
  condition->guard.lock();
  const bool waits = d->wait_sequence == sequence && condition->waiters.remove(d);
  condition->guard.unlock();
  if (waits) {
    d->timed_out = true;
    relock(d, *static_cast<Object*>(d->wait_mutex));
  }
  return false;  // made ready by relock or by the notifier
}

void enlist(Object& condition, Descriptor* d) {
  condition.guard.lock();
  d->wait_condition = &condition;
  ++d->wait_sequence;
  d->timed_out = false;
  condition.waiters.push(d);
  condition.guard.unlock();
}

void* op_condition_wait(Worker& w, Descriptor* self_, void* argument) {
  Object& condition = *static_cast<Object*>(argument);
  Object& mutex = *static_cast<Object*>(self_->wait_mutex);
  const std::int64_t deadline = self_->deadline_ns;
  self_->state = ThreadState::kWaiting;
  self_->wait_object = &condition;
  const bool timed = deadline != INT64_MAX;
  enlist(condition, self_);
  // The mutex is still held: nobody who notifies under it can be earlier than the timer.
  if (timed) ult::add_timer(self_, deadline, timed_out, self_->wait_sequence);
  if (!unlock_fast(mutex)) unlock_native(mutex);
  return ult::schedule(w);
}

void notify_native(Object& condition, bool all) {
  for (;;) {
    condition.guard.lock();
    Descriptor* d = condition.waiters.pop();
    condition.guard.unlock();
    if (!d) return;
    relock(d, *static_cast<Object*>(d->wait_mutex));
    if (!all) return;
  }
}

// ------------------------------------------------------------------------------------------------ barrier

// Everything written at `from_processes` before is at its owner, and this process looks again (Y2).
void see_all(std::uint64_t from_processes) {
  for (int p = 0; p < processes(); ++p)
    if ((from_processes >> p & 1) != 0 && p != self()) fences().give(p);
  if ((from_processes & ~(std::uint64_t{1} << self())) != 0) fences().take(self());
}

void arrive_native_last(Object& o) { see_all(o.leaving_processes); }

// Counts an arrival. Returns true for the last one, which holds the barrier until barrier_release.
bool count_arrival(Object& o, std::ptrdiff_t count, bool drop, Descriptor* waiter) {
  o.guard.lock();
  o.arrived += count;
  o.arrived_processes |= std::uint64_t{1} << self();
  if (drop) {
    --o.expected;
    --o.arrived;
  }
  const bool is_last = o.arrived >= o.expected;
  if (is_last) {
    o.completing = true;
    o.arrived = 0;
    o.leaving_processes = o.arrived_processes;
    o.arrived_processes = 0;
    o.leaving = o.waiters;
    o.waiters = {};
  } else if (waiter) {
    waiter->state = ThreadState::kWaiting;
    waiter->wait_object = &o;
    waiter->barrier_last = false;  // here: once the guard is left it may run elsewhere, and arrive again
    o.waiters.push(waiter);
  }
  o.guard.unlock();
  return is_last;
}

void* op_arrive_wait(Worker& w, Descriptor* self_, void* argument) {
  Object& o = *static_cast<Object*>(argument);
  if (!count_arrival(o, 1, false, self_)) return ult::schedule(w);
  self_->barrier_last = true;
  if (processes() > 1) arrive_native_last(o);
  return ult::resume_here(w, self_);
}

// Arguments on their way to the native stack: the caller's own stack may lie in the space (G3). Set and read on one worker.
struct BarrierCall {
  std::ptrdiff_t count;
  bool drop;
  std::uint64_t phase;
};
[[gnu::noinline]] BarrierCall& barrier_call() {
  thread_local BarrierCall call;
  return call;
}

void* op_arrive(Worker& w, Descriptor* self_, void* argument) {
  Object& o = *static_cast<Object*>(argument);
  self_->barrier_last = count_arrival(o, barrier_call().count, barrier_call().drop, nullptr);
  if (self_->barrier_last && processes() > 1) arrive_native_last(o);
  return ult::resume_here(w, self_);
}

void release_native(void* argument) {
  Object& o = *static_cast<Object*>(argument);
  if (processes() > 1) fences().give(self());  // what the completion wrote, too
  o.guard.lock();
  ult::List leaving = o.leaving;
  o.leaving = {};
  o.completing = false;
  o.phase.fetch_add(1, std::memory_order_relaxed);
  o.guard.unlock();
  while (Descriptor* d = leaving.pop()) ult::make_ready(d, true);
}

// Waits for the end of phase `phase`. Native stack. True: it has ended, nobody waits.
bool wait_phase(Object& o, Descriptor* d, std::uint64_t phase) {
  o.guard.lock();
  const bool ended = o.phase.load(std::memory_order_relaxed) != phase;
  if (!ended) {
    d->state = ThreadState::kWaiting;
    d->wait_object = &o;
    (o.completing ? o.leaving : o.waiters).push(d);
  }
  o.guard.unlock();
  if (ended && processes() > 1) fences().take(self());
  return ended;
}

void* op_wait_phase(Worker& w, Descriptor* self_, void* argument) {
  return wait_phase(*static_cast<Object*>(argument), self_, barrier_call().phase) ? ult::resume_here(w, self_)
                                                                                  : ult::schedule(w);
}

// Arrives for `d`, which waits unless it is the last: then the round is over, and the others go on. Native stack.
bool finish_or_wait(Object& o, Descriptor* d) {
  o.guard.lock();
  o.arrived_processes |= std::uint64_t{1} << self();
  const bool is_last = ++o.arrived >= o.expected;
  d->barrier_last = is_last;
  if (!is_last) {
    wait_guarded(o, d, ThreadState::kWaiting, INT64_MAX);
    o.guard.unlock();
    return false;
  }
  ult::List leaving = o.waiters;
  const std::uint64_t arrived_processes = o.arrived_processes;
  o.waiters = {};
  o.arrived = 0;
  o.arrived_processes = 0;
  o.guard.unlock();
  see_all(arrived_processes);
  if (processes() > 1) fences().give(self());
  while (Descriptor* other = leaving.pop()) ult::make_ready(other, true);
  return true;
}

void* op_barrier_wait(Worker& w, Descriptor* self_, void* argument) {
  return finish_or_wait(*static_cast<Object*>(argument), self_) ? ult::resume_here(w, self_) : ult::schedule(w);
}

// ------------------------------------------------------------------------------------------------ semaphore

// Takes a unit for `d` and stores who posted, or lets it wait (false). Native stack. Without d: does not wait.
bool take_unit(Object& o, Descriptor* d, std::int64_t deadline_ns, std::uint64_t* posters) {
  o.guard.lock();
  const bool taken = o.expected > 0;
  if (taken) {
    *posters = o.arrived_processes;
    if (--o.expected == 0) o.arrived_processes = 0;
  } else if (d) {
    wait_guarded(o, d, ThreadState::kWaiting, deadline_ns);
  }
  o.guard.unlock();
  return taken;
}

void* op_semaphore_wait(Worker& w, Descriptor* self_, void* argument) {
  self_->timed_out = false;
  std::uint64_t posters = 0;
  if (!take_unit(*static_cast<Object*>(argument), self_, self_->deadline_ns, &posters)) return ult::schedule(w);
  see_all(posters);
  return ult::resume_here(w, self_);
}

// Carried over to the native stack in place, as call_native takes one pointer and stacks may lie in the space.
struct ObjectCall {
  Object* object;
  bool done;
};
thread_local ObjectCall object_slot;
[[gnu::noinline]] ObjectCall& object_call() { return object_slot; }

void try_wait_native(void* argument) {
  auto& call = *static_cast<ObjectCall*>(argument);
  std::uint64_t posters = 0;
  call.done = take_unit(*call.object, nullptr, INT64_MAX, &posters);
  if (call.done) see_all(posters);
}

void post_native(void* argument) {
  auto& call = *static_cast<ObjectCall*>(argument);
  Object& o = *call.object;
  o.guard.lock();
  Descriptor* d = o.waiters.pop();
  call.done = d || o.expected < kSemaphoreMax;
  if (!d && call.done) {
    ++o.expected;
    o.arrived_processes |= std::uint64_t{1} << self();
  }
  o.guard.unlock();
  if (d) ult::make_ready(d, false);
}

bool call_object(void (*f)(void*), Object& o) {
  ObjectCall& call = object_call();
  call = {&o, false};
  call_native(f, &call);
  return object_call().done;  // call_native does not switch threads
}

void busy_native(void* argument) {
  auto& call = *static_cast<ObjectCall*>(argument);
  Object& o = *call.object;
  o.guard.lock();
  call.done = !o.waiters.empty() || (o.kind == Kind::kMutex && (o.word.load(std::memory_order_relaxed) & kLocked) != 0);
  o.guard.unlock();
}

Descriptor* current() { return ult::current_worker()->current; }

}  // namespace

void reserve() {
  state.pool = new (gas::shared_map(sizeof(Pool), "synchronisation objects")) Pool;
  address_table::reserve();
  state.objects =
      static_cast<Object*>(gas::shared_map(std::size_t{kObjects} * sizeof(Object), "synchronisation objects"));
  state.os_waiters =
      static_cast<Descriptor*>(gas::shared_map(std::size_t{kOsWaiters} * sizeof(Descriptor), "waiting OS threads"));
}

Handle mutex_create() { return create(Kind::kMutex); }
void mutex_destroy(Handle h) noexcept { destroy(h, Kind::kMutex); }

void mutex_lock(Handle h) {
  Object& o = object(h, Kind::kMutex);
  std::uint32_t free_here = last(self());
  if (o.word.compare_exchange_strong(free_here, last(self()) | kLocked, std::memory_order_acquire)) return;  // Y3
  if (ult::on_user_thread()) {
    ult::on_native(&op_lock, &o);
    return;
  }
  Descriptor* d = os_descriptor();
  const int from = take_or_wait(o, d);
  if (from >= 0)
    see(from);
  else {
    os_block(d);
    if (processes() > 1) fences().take(self());
  }
}

bool mutex_lock_until(Handle h, std::int64_t deadline_ns) {
  Object& o = object(h, Kind::kMutex);
  std::uint32_t free_here = last(self());
  if (o.word.compare_exchange_strong(free_here, last(self()) | kLocked, std::memory_order_acquire)) return true;  // Y3
  if (ult::on_user_thread()) {
    current()->deadline_ns = deadline_ns;
    ult::on_native(&op_lock_until, &o);
    return !current()->timed_out;
  }
  Descriptor* d = os_descriptor();
  d->timed_out = false;
  const int from = take_or_wait(o, d, deadline_ns);
  if (from >= 0) {
    see(from);
    return true;
  }
  os_block(d);
  if (processes() > 1) fences().take(self());
  return !d->timed_out;
}

bool mutex_try_lock(Handle h) noexcept {
  const int from = try_take(object(h, Kind::kMutex));
  if (from < 0) return false;
  see(from);
  return true;
}

void mutex_unlock(Handle h) noexcept {
  Object& o = object(h, Kind::kMutex);
  if (!unlock_fast(o)) call_native(&unlock_call, &o);
}

Handle condition_create() { return create(Kind::kCondition); }
void condition_destroy(Handle h) noexcept { destroy(h, Kind::kCondition); }

bool condition_wait(Handle c, Handle m, std::int64_t deadline_ns) {
  Object& condition = object(c, Kind::kCondition);
  Object& mutex = object(m, Kind::kMutex);
  if (ult::on_user_thread()) {
    Descriptor* d = current();
    d->wait_mutex = &mutex;
    d->deadline_ns = deadline_ns;
    ult::on_native(&op_condition_wait, &condition);
    d = current();
    return !d->timed_out;  // a timer that is left behind runs dry
  }
  Descriptor* d = os_descriptor();
  d->wait_mutex = &mutex;
  enlist(condition, d);
  if (deadline_ns != INT64_MAX) ult::add_timer(d, deadline_ns, timed_out, d->wait_sequence);
  mutex_unlock(m);
  os_block(d);
  if (processes() > 1) fences().take(self());
  return !d->timed_out;
}

void condition_notify(Handle h, bool all) noexcept {
  Object& condition = object(h, Kind::kCondition);
  if (all)
    call_native([](void* o) { notify_native(*static_cast<Object*>(o), true); }, &condition);
  else
    call_native([](void* o) { notify_native(*static_cast<Object*>(o), false); }, &condition);
}

Handle barrier_create(std::ptrdiff_t expected) {
  AYT_CHECK(expected > 0, "an ayatori::barrier of {} threads", expected);
  const Handle h = create(Kind::kBarrier);
  state.objects[h].expected = expected;
  state.objects[h].extra.type = static_cast<std::uint32_t>(expected);
  return h;
}
void barrier_destroy(Handle h) noexcept { destroy(h, Kind::kBarrier); }

bool barrier_arrive(Handle h, std::ptrdiff_t count, bool wait, bool drop) {
  Object& o = object(h, Kind::kBarrier);
  if (!ult::on_user_thread()) {
    Descriptor* d = os_descriptor();
    const bool is_last = count_arrival(o, count, drop, wait ? d : nullptr);
    if (is_last) {
      if (processes() > 1) arrive_native_last(o);
    } else if (wait) {
      os_block(d);
      if (processes() > 1) fences().take(self());
    }
    return is_last;
  }
  if (wait) {
    ult::on_native(&op_arrive_wait, &o);
  } else {
    barrier_call() = {count, drop, 0};
    ult::on_native(&op_arrive, &o);
  }
  return current()->barrier_last;
}

// The phase of the barrier cannot end before the caller has arrived: nothing to lock.
std::uint64_t barrier_phase(Handle h) noexcept {
  return object(h, Kind::kBarrier).phase.load(std::memory_order_relaxed);
}

void barrier_wait_phase(Handle h, std::uint64_t phase) {
  Object& o = object(h, Kind::kBarrier);
  if (ult::on_user_thread()) {
    barrier_call() = {0, false, phase};
    ult::on_native(&op_wait_phase, &o);
    return;
  }
  Descriptor* d = os_descriptor();
  if (wait_phase(o, d, phase)) return;
  os_block(d);
  if (processes() > 1) fences().take(self());
}

void barrier_release(Handle h) noexcept { call_native(&release_native, &object(h, Kind::kBarrier)); }

bool barrier_wait(Handle h) {
  Object& o = object(h, Kind::kBarrier);
  if (ult::on_user_thread()) {
    ult::on_native(&op_barrier_wait, &o);
    return current()->barrier_last;
  }
  Descriptor* d = os_descriptor();
  if (finish_or_wait(o, d)) return true;
  os_block(d);
  if (processes() > 1) fences().take(self());
  return false;
}

Handle semaphore_create(std::uint32_t value) {
  AYT_CHECK(value <= kSemaphoreMax, "a semaphore of {}", value);
  const Handle h = create(Kind::kSemaphore);
  state.objects[h].expected = value;
  return h;
}
void semaphore_destroy(Handle h) noexcept { destroy(h, Kind::kSemaphore); }

bool semaphore_wait(Handle h, std::int64_t deadline_ns) {
  Object& o = object(h, Kind::kSemaphore);
  if (ult::on_user_thread()) {
    current()->deadline_ns = deadline_ns;
    ult::on_native(&op_semaphore_wait, &o);
    return !current()->timed_out;
  }
  Descriptor* d = os_descriptor();
  d->timed_out = false;
  std::uint64_t posters = 0;
  if (take_unit(o, d, deadline_ns, &posters)) {
    see_all(posters);
    return true;
  }
  os_block(d);
  if (processes() > 1) fences().take(self());
  return !d->timed_out;
}

bool semaphore_try_wait(Handle h) noexcept { return call_object(&try_wait_native, object(h, Kind::kSemaphore)); }
bool semaphore_post(Handle h) noexcept { return call_object(&post_native, object(h, Kind::kSemaphore)); }
std::uint32_t semaphore_value(Handle h) noexcept {
  return static_cast<std::uint32_t>(
      std::atomic_ref<std::ptrdiff_t>(object(h, Kind::kSemaphore).expected).load(std::memory_order_relaxed));
}

Handle construct(const void* where, Kind kind, std::ptrdiff_t expected) {
  const Handle made = kind == Kind::kBarrier ? barrier_create(expected) : create(kind);
  if (gas::contains(where) || !address_table::is_static(where)) return made;
  if (state.member.load(std::memory_order_relaxed) == 0) state.member.store(getpid(), std::memory_order_relaxed);
  sharing() = {where, kind, made};
  call_native(&share_native, &sharing());
  const Handle agreed = sharing().handle;  // call_native does not switch threads
  if (agreed == made) return made;
  const bool alike = agreed != 0 && state.objects[agreed].extra.type == state.objects[made].extra.type;
  destroy(made, kind);
  if (agreed == 0) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "ayatori");
  AYT_CHECK(alike, "an ayatori::barrier in static data was made for {} threads, by another process for {}", expected,
            state.objects[agreed].extra.type);
  return agreed;
}

void destruct(const void* where, Handle h, Kind kind) noexcept {
  if (h == 0) return;
  if (object(h, kind).users == 0) return destroy(h, kind);
  if (getpid() != state.member.load(std::memory_order_relaxed))
    return;  // a child that the program forked: the object is its parent's
  sharing() = {where, kind, h};
  call_native(&unshare_native, &sharing());
  if (sharing().handle != 0) destroy(h, kind);
}

bool alive(Handle h, Kind kind) noexcept { return h != 0 && h < kObjects && state.objects[h].kind == kind; }
bool busy(Handle h) noexcept { return call_object(&busy_native, state.objects[h]); }
Extra& extra(Handle h) noexcept { return state.objects[h].extra; }

Waited describe(const void* wait_object, StackMemory& memory) {
  const auto offset = reinterpret_cast<std::uintptr_t>(wait_object) - reinterpret_cast<std::uintptr_t>(state.objects);
  Waited w{"a freed object", 0, -1, 0, 0};
  if (offset / sizeof(Object) >= kObjects || offset % sizeof(Object) != 0) return w;
  const Copy<Object> o(static_cast<const Object*>(wait_object), memory);  // D4 of dump.hpp
  if (!o) return w;
  w.handle = offset / sizeof(Object);
  switch (o->kind) {
    case Kind::kFree: break;
    case Kind::kMutex:
      w.kind = "mutex";
      w.last_process = static_cast<int>(o->word.load(std::memory_order_relaxed) >> 8);
      break;
    case Kind::kCondition: w.kind = "condition variable"; break;
    case Kind::kBarrier:
      w.kind = "barrier";
      w.arrived = o->arrived;
      w.expected = o->expected;
      break;
    case Kind::kSemaphore: w.kind = "semaphore"; break;
  }
  return w;
}

}  // namespace ayatori::tasks::sync
