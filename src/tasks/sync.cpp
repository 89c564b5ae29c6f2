// SPDX-License-Identifier: Apache-2.0
#include "tasks/sync.hpp"

#include <atomic>
#include <new>
#include <system_error>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "gas/space.hpp"
#include "tasks/address_table.hpp"
#include "tasks/keys.hpp"
#include "tasks/remote.hpp"
#include "tasks/runtime.hpp"
#include "tasks/sync_ask.hpp"
#include "tasks/sync_fast.hpp"
#include "tasks/sync_statics.hpp"
#include "tasks/waits.hpp"
#include "ult/cancellation.hpp"
#include "ult/current.hpp"
#include "ult/native.hpp"
#include "ult/scheduler.hpp"

namespace ayatori::tasks::sync {

constexpr std::size_t kObjectsInCore = 4'096;

constinit State state;

void give(int process) {
  if (!gas::apart())
    fences().give(process);
  else if (process == self())
    dsm::release(process);
}
void take() {
  if (gas::apart())
    dsm::acquire();
  else
    fences().take(self());
}

void see_all(std::uint64_t from_processes) {
  for (int p = 0; p < processes(); ++p)
    if ((from_processes >> p & 1) != 0 && p != self()) give(p);
  if ((from_processes & ~(std::uint64_t{1} << self())) != 0) take();
}

namespace {

using ult::ThreadState;
using ult::Worker;

// Fences between the process where something was ordered and this one. Without shared memory whoever tells another process
// of it has released, so that only this process's own writes are left to release.
void see_last(int from) {
  if (from == self()) return;
  if (gas::apart())
    dsm::acquire();
  else
    fences().pass(from, self());
}
// `d`, in no list, goes on after something that process `actor` did.
void go_on(Descriptor* d, int actor, bool released) {
  const bool here = actor == self();
  if (!here && !d->proxy && !d->os_thread) d->needs_acquire = true;
  ult::make_ready(d, released || !here);
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
  if (c.made == 0) return;
  Object& o = state.objects[c.made];
  o.guard.lock();  // a timer, or who cancels, may still look for a waiter in what this was before
  set_kind(o, c.kind);
  o.waiters = {};
  o.leaving = {};
  o.word.store(c.kind == Kind::kCondition ? 0 : last(self()), std::memory_order_relaxed);  // published with the handle
  o.expected = o.arrived = 0;
  o.arrived_processes = 0;
  o.completing = false;
  o.users = 0;
  o.phase.store(0, std::memory_order_relaxed);
  o.type = 0;
  o.depth.store(0, std::memory_order_relaxed);
  o.owner.store(0, std::memory_order_relaxed);
  o.guard.unlock();
}

void destroy_native(void* argument) {
  const std::uint32_t h = index_of(reinterpret_cast<std::uintptr_t>(argument));
  Pool& pool = *state.pool;
  state.objects[h].guard.lock();  // as in create_native
  set_kind(state.objects[h], Kind::kFree);
  state.objects[h].guard.unlock();
  pool.lock.lock();
  state.objects[h].next_free = pool.free_head;
  pool.free_head = h;
  pool.lock.unlock();
}

// ------------------------------------------------------------------------------------------------ mutex

// Takes the lock for `holder` (holder_bits()) if it is free. Returns the process of the last holder, or -1.
int try_take(Object& o, std::uint64_t holder) {
  std::uint64_t w = o.word.load(std::memory_order_relaxed);
  while ((w & kLocked) == 0) {
    // acquire: pairs with the release in unlock
    if (o.word.compare_exchange_weak(w, (w & kLastMask) | holder | kLocked, std::memory_order_acquire))
      return last_of(w);
  }
  return -1;
}

[[gnu::noinline]] std::uint64_t await_unguarded(const Object& o) {
  base::Backoff backoff;
  for (;;) {
    backoff.wait();
    const std::uint64_t w = o.word.load(std::memory_order_relaxed);
    if ((w & kGuarded) == 0) return w;
  }
}

// Y7. Takes the guard of a mutex whose word, read before, has any bit of `while_any`. False: it has none any more. `w`: the
// word without the guard. Native stack.
[[gnu::always_inline]] inline bool guard_mutex(Object& o, std::uint64_t& w, std::uint64_t while_any) {
  while ((w & while_any) != 0) {
    if ((w & kGuarded) != 0) [[unlikely]] {
      w = await_unguarded(o);
    } else if (o.word.compare_exchange_weak(w, w | kGuarded, std::memory_order_acquire)) {
      return true;  // acquire: pairs with the stores that end a guard
    }
  }
  return false;
}

// Takes `d` out of the list of mutex `o` if it is in its wait number `sequence` there.
bool leave_mutex(Object& o, Descriptor* d, std::uint64_t sequence) {
  std::uint64_t w = o.word.load(std::memory_order_acquire);  // pairs with the stores that end a guard
  if (!guard_mutex(o, w, kWaiters | kGuarded)) return false;
  const bool waits = is_wait(d, sequence) && waits_for(d) == &o && o.waiters.remove(d);
  o.word.store(o.waiters.empty() ? w & ~kWaiters : w, std::memory_order_release);  // pairs with guard_mutex()
  return waits;
}
bool leave_semaphore(Object& o, Descriptor* d, std::uint64_t sequence) {
  o.guard.lock();
  const bool waits = is_wait(d, sequence) && waits_for(d) == &o && o.waiters.remove(d);
  o.guard.unlock();
  return waits;
}

// The timer of d's wait number `sequence` for a mutex or a semaphore (Y5).
bool wait_timed_out(Descriptor* d, std::uint64_t sequence) {
  Object* const o = waits_for(d);
  if (!o) return false;
  // What became of another kind meanwhile is not where d waits.
  const bool waits = kind_of(*o) == Kind::kMutex ? leave_mutex(*o, d, sequence) : leave_semaphore(*o, d, sequence);
  if (waits) {
    d->timed_out = true;
    ult::make_ready(d, true);
  }
  return false;
}

// Says that `d` is about to wait for `o`; true: it is cancelled, and must not. Under o's guard.
bool refuses(Object& o, Descriptor* d) {
  if (!d->cancel_point.load(std::memory_order_relaxed)) return false;
  std::atomic_ref(d->wait_condition).store(&o, std::memory_order_seq_cst);  // X2 of ult/cancellation.hpp
  if (!ult::refuses_to_wait(d)) return false;
  d->timed_out = true;
  return true;
}

// `d` waits for `o` from here on, until deadline_ns unless that is INT64_MAX. Under o's guard (Y1, Y7), native stack.
[[gnu::always_inline]] inline void wait_guarded(Object& o, Descriptor* d, ThreadState why, std::int64_t deadline_ns) {
  d->state = why;
  ult::set_wait_object(d, &o);
  begin_wait(o, d);
  d->deadline_ns = deadline_ns;
  if (deadline_ns != INT64_MAX) ult::add_timer(d, deadline_ns, wait_timed_out, d->wait_sequence);
  o.waiters.push(d);
}

// Takes the lock for `d` or lets it wait. Returns the last holder's process, or -1: it waits. Native stack.
[[gnu::always_inline]] inline int take_or_wait(Object& o, Descriptor* d, std::int64_t deadline_ns = INT64_MAX) {
  std::uint64_t w = o.word.load(std::memory_order_relaxed);
  while (!guard_mutex(o, w, kLocked)) {
    // acquire: pairs with the release in unlock
    if (o.word.compare_exchange_weak(w, (w & kLastMask) | holder_bits(d) | kLocked, std::memory_order_acquire))
      return last_of(w);
  }
  wait_guarded(o, d, ThreadState::kLocking, deadline_ns);
  o.word.store(w | kWaiters, std::memory_order_release);  // pairs with guard_mutex()
  return -1;
}

void* op_lock(Worker& w, Descriptor* self_, void* argument) {
  Object& o = *static_cast<Object*>(argument);
  const int from = take_or_wait(o, self_);
  if (from < 0) return ult::native::schedule(w);
  see_last(from);
  return ult::resume_here(w, self_);
}

void* op_lock_until(Worker& w, Descriptor* self_, void* argument) {
  self_->timed_out = false;
  const int from = take_or_wait(*static_cast<Object*>(argument), self_, self_->deadline_ns);
  if (from < 0) return ult::schedule(w);
  see_last(from);
  return ult::resume_here(w, self_);
}

void pass_native(void* argument) { see_last(static_cast<int>(reinterpret_cast<std::intptr_t>(argument))); }

// A lock taken from process `from` is held: see what was written under it.
void see(int from) {
  if (from != self()) call_native(&pass_native, reinterpret_cast<void*>(static_cast<std::intptr_t>(from)));  // NOLINT
}

// Process `actor` hands the lock to the first waiter, or frees it. Native stack.
[[gnu::always_inline]] inline void unlock_native(Object& o, int actor) {
  std::uint64_t w = o.word.load(std::memory_order_relaxed);
  AYT_CHECK(guard_mutex(o, w, kLocked), "process {} unlocked an ayatori::mutex that is not locked", actor);
  Descriptor* const next = o.waiters.pop();
  if (!next) return o.word.store(last(actor), std::memory_order_release);  // pairs with who takes it
  next->state = ThreadState::kReady;  // before it is said to hold the lock (D5 of dump.hpp)
  const std::uint64_t waiters = o.waiters.empty() ? 0 : kWaiters;
  // Y4. Pairs with guard_mutex().
  o.word.store(last(actor) | kLocked | waiters | holder_bits(next), std::memory_order_release);
  if (actor == ult::config().process)
    ult::native::make_ready(next, false);
  else
    go_on(next, actor, false);
}

void unlock_call(void* argument) { unlock_native(*static_cast<Object*>(argument), ult::config().process); }

// As unlock_fast(), of what has to be locked.
[[gnu::always_inline]] inline bool release_fast(Object& o) {
  AYT_CHECK((o.word.load(std::memory_order_relaxed) & kLocked) != 0,
            "an ayatori::mutex that is not locked was unlocked");
  return unlock_fast(o);
}

// ------------------------------------------------------------------------------------------------ condition variable

// `d` was woken, or its time is over: it needs its mutex again. Native stack.
void relock(Descriptor* d, Handle h, std::int64_t deadline_ns = kForEver) {
  if (away(h)) {
    Call c = about(Ask::kLock, h);
    put_waiter(c, d);
    c.timed_out = d->timed_out;
    c.wait_ns = time_left(deadline_ns);
    remote::retire(d);
    return remote::ask(holder_of(h), c);
  }
  const int from = take_or_wait(object(h, Kind::kMutex), d, deadline_ns);
  if (from < 0) return;  // it gets the lock in its turn
  // The lock is taken on behalf of d: its process must see what the last holder wrote.
  if (from != self()) give(from);
  if (!d->proxy && !d->os_thread && ult::config().hooks.home(d) == self() && from != self()) d->needs_acquire = true;
  ult::make_ready(d, false);
}

// Y8. Under the guard, after its list has changed; a number alone.
void note_waiters(Object& condition) {
  condition.word.store(condition.waiters.empty() ? 0 : 1, std::memory_order_relaxed);
}
bool seems_awaited(const Object& condition) { return condition.word.load(std::memory_order_relaxed) != 0; }

// The timer of d's wait number `sequence`. A timer that outlived its wait finds another number, or d in no list.
bool timed_out(Descriptor* d, std::uint64_t sequence) {
  Object* const condition = waits_for(d);
  if (!condition || kind_of(*condition) == Kind::kMutex) return false;  // it has been notified, and waits for the mutex
  condition->guard.lock();
  const bool waits = is_wait(d, sequence) && condition->waiters.remove(d);
  if (waits) note_waiters(*condition);
  condition->guard.unlock();
  if (waits) {
    d->timed_out = true;
    relock(d, d->wait_value);
  }
  return false;  // made ready by relock or by the notifier
}

// False: it is cancelled, and does not wait. Once the guard is left somebody may notify `d`, also without its mutex: then it
// waits for that, which is another wait.
bool enlist(Object& condition, Descriptor* d, std::int64_t deadline_ns) {
  condition.guard.lock();
  const bool waits = !refuses(condition, d);
  if (waits) {
    begin_wait(condition, d);
    d->timed_out = false;
    if (deadline_ns != INT64_MAX) ult::add_timer(d, deadline_ns, timed_out, d->wait_sequence);
    condition.waiters.push(d);
    note_waiters(condition);
  }
  condition.guard.unlock();
  return waits;
}

// Native stack.
void unlock_for(Handle h, int actor) {
  if (away(h)) {
    if (actor == self()) dsm::release(actor);
    Call c = about(Ask::kUnlock, h);
    c.actor = actor;
    return remote::ask(holder_of(h), c);
  }
  Object& o = object(h, Kind::kMutex);
  if (actor == self() && release_fast(o)) return;
  unlock_native(o, actor);
}

void* op_condition_wait(Worker& w, Descriptor* self_, void* argument) {
  Object& condition = *static_cast<Object*>(argument);
  const Handle mutex = self_->wait_value;
  const std::int64_t deadline = self_->deadline_ns;
  self_->state = ThreadState::kWaiting;
  ult::set_wait_object(self_, &condition);
  if (!enlist(condition, self_, deadline)) return ult::resume_here(w, self_);
  unlock_for(mutex, ult::config().process);
  return ult::native::schedule(w);
}

void notify_native(Object& condition, bool all) {
  for (;;) {
    condition.guard.lock();
    Descriptor* d = condition.waiters.pop();
    note_waiters(condition);
    condition.guard.unlock();
    if (!d) return;
    relock(d, d->wait_value);
    if (!all) return;
  }
}

// ------------------------------------------------------------------------------------------------ barrier

void arrive_native_last(Object& o) { see_all(o.leaving_processes); }

// Counts an arrival. Returns true for the last one, which holds the barrier until barrier_release.
bool count_arrival(Object& o, std::ptrdiff_t count, bool drop, Descriptor* waiter, int actor) {
  o.guard.lock();
  o.arrived += count;
  o.arrived_processes |= std::uint64_t{1} << actor;
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
    waiter->barrier_last = false;  // here: once the guard is left it may run elsewhere, and arrive again
    wait_guarded(o, waiter, ThreadState::kWaiting, INT64_MAX);
  }
  o.guard.unlock();
  return is_last;
}

void* op_arrive_wait(Worker& w, Descriptor* self_, void* argument) {
  Object& o = *static_cast<Object*>(argument);
  if (!count_arrival(o, 1, false, self_, self())) return ult::schedule(w);
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
  self_->barrier_last = count_arrival(o, barrier_call().count, barrier_call().drop, nullptr, self());
  if (self_->barrier_last && processes() > 1) arrive_native_last(o);
  return ult::resume_here(w, self_);
}

void release_barrier(Object& o, int actor) {
  if (processes() > 1) give(actor);  // what the completion wrote, too
  o.guard.lock();
  ult::List leaving = o.leaving;
  o.leaving = {};
  o.completing = false;
  o.phase.fetch_add(1, std::memory_order_relaxed);
  o.guard.unlock();
  while (Descriptor* d = leaving.pop()) go_on(d, actor, true);
}

void release_native(void* argument) { release_barrier(*static_cast<Object*>(argument), self()); }

// Waits for the end of phase `phase`. Native stack. True: it has ended, nobody waits.
bool wait_phase(Object& o, Descriptor* d, std::uint64_t phase) {
  o.guard.lock();
  const bool ended = o.phase.load(std::memory_order_relaxed) != phase;
  if (!ended) {
    d->state = ThreadState::kWaiting;
    ult::set_wait_object(d, &o);
    begin_wait(o, d);  // Y5: this may be what an earlier wait with a time was for, made anew
    (o.completing ? o.leaving : o.waiters).push(d);
  }
  o.guard.unlock();
  if (ended && !d->proxy && processes() > 1) take();
  return ended;
}

void* op_wait_phase(Worker& w, Descriptor* self_, void* argument) {
  return wait_phase(*static_cast<Object*>(argument), self_, barrier_call().phase) ? ult::resume_here(w, self_)
                                                                                  : ult::schedule(w);
}

// Arrives for `d`, which waits unless it is the last: then the round is over, and the others go on. Native stack.
bool finish_or_wait(Object& o, Descriptor* d, int actor) {
  o.guard.lock();
  o.arrived_processes |= std::uint64_t{1} << actor;
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
  if (!d->proxy) see_all(arrived_processes);  // whom a proxy stands for acquires by itself
  if (processes() > 1) give(self());
  while (Descriptor* other = leaving.pop()) go_on(other, actor, true);
  return true;
}

void* op_barrier_wait(Worker& w, Descriptor* self_, void* argument) {
  return finish_or_wait(*static_cast<Object*>(argument), self_, self()) ? ult::resume_here(w, self_) : ult::schedule(w);
}

// ------------------------------------------------------------------------------------------------ semaphore

// Takes a unit for `d` and stores who posted, or lets it wait (false). A cancelled thread gets none, and does not wait. Native stack. Without d: does not wait.
bool take_unit(Object& o, Descriptor* d, std::int64_t deadline_ns, std::uint64_t* posters) {
  o.guard.lock();
  const bool taken = o.expected > 0;
  if (taken) {
    *posters = o.arrived_processes;
    if (--o.expected == 0) o.arrived_processes = 0;
  } else if (d && refuses(o, d)) {
    o.guard.unlock();
    *posters = 0;
    return true;  // timed out
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
  std::ptrdiff_t count;  // of what is posted
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

// False: the value would be above kSemaphoreMax, nothing is done.
bool post_units(Object& o, std::ptrdiff_t count, int actor) {
  ult::List woken;
  o.guard.lock();
  const bool done = count <= std::ptrdiff_t{kSemaphoreMax} - o.expected;  // which is 0 while somebody waits
  std::ptrdiff_t left = done ? count : 0;
  for (; left > 0 && !o.waiters.empty(); --left) woken.push(o.waiters.pop());
  if (left > 0) {
    o.expected += left;
    o.arrived_processes |= std::uint64_t{1} << actor;
  }
  o.guard.unlock();
  const bool several = woken.head != woken.tail && processes() > 1;
  if (several) give(actor);  // once for all of them
  while (Descriptor* d = woken.pop()) go_on(d, actor, several);
  return done;
}

void post_native(void* argument) {
  auto& call = *static_cast<ObjectCall*>(argument);
  call.done = post_units(*call.object, call.count, self());
}

bool call_object(void (*f)(void*), Object& o, std::ptrdiff_t count = 0) {
  ObjectCall& call = object_call();
  call = {&o, count, false};
  call_native(f, &call);
  return object_call().done;  // call_native does not switch threads
}

void busy_native(void* argument) {
  auto& call = *static_cast<ObjectCall*>(argument);
  Object& o = *call.object;
  o.guard.lock();
  call.done = o.kind == Kind::kMutex
                  ? (o.word.load(std::memory_order_relaxed) & kLocked) != 0  // as long as any wait (Y7)
                  : !o.waiters.empty() || (o.kind == Kind::kRwLock && o.expected != 0);
  o.guard.unlock();
}

Descriptor* current() { return ult::current_thread(); }

}  // namespace

Handle create(Kind kind) {
  thread_local Creation creation;  // not on the stack: that may lie in the space
  creation = {kind, 0};
  // The thread stays on this worker: call_native does not switch threads.
  call_native(&create_native, &creation);
  const std::uint32_t h = creation.made;
  if (h == 0) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "ayatori");
  return gas::apart() ? h | static_cast<Handle>(self()) << kHolderShift : h;
}

void destroy(Handle h, Kind kind) {
  if (h == 0) return;
  if (away(h)) {
    Call c = about(Ask::kDestroy, h);
    c.count = static_cast<std::int64_t>(kind);
    return finished() ? void() : tell(c);
  }
  (void)object(h, kind);
  call_native(&destroy_native, reinterpret_cast<void*>(h));  // NOLINT
}

void reserve() {
  state.pool = new (gas::shared_map(sizeof(Pool), "synchronisation objects")) Pool;
  address_table::reserve();
  state.objects =
      static_cast<Object*>(gas::shared_map(std::size_t{kObjects} * sizeof(Object), "synchronisation objects"));
  gas::in_core(state.objects, kObjectsInCore * sizeof(Object));
  state.os_waiters =
      static_cast<Descriptor*>(gas::shared_map(std::size_t{kOsWaiters} * sizeof(Descriptor), "waiting OS threads"));
}

Handle mutex_create() { return create(Kind::kMutex); }
void mutex_destroy(Handle h) noexcept { destroy(h, Kind::kMutex); }

namespace {
// The rest of mutex_lock() and mutex_unlock(), apart so that their usual ways save no registers.
[[gnu::noinline]] void lock_slowly(Object& o) {
  if (ult::on_user_stack()) {
    ult::on_native<op_lock>(&o);
    return;
  }
  Descriptor* d = os_descriptor();
  const int from = take_or_wait(o, d);
  if (from >= 0)
    see(from);
  else {
    os_block(d);
    if (processes() > 1) take();
  }
}
[[gnu::noinline]] void unlock_slowly(Object& o) noexcept {
  if (ult::on_user_stack())
    ult::call_on_native_fast(&unlock_call, &o);
  else
    unlock_call(&o);
}
[[gnu::noinline]] void lock_apart(Handle h) {
  if (away(h)) return void(ask_and_wait(about(Ask::kLock, h)));
  Object& o = object(h, Kind::kMutex);
  if (!lock_fast(o)) lock_slowly(o);
}
[[gnu::noinline]] void unlock_apart(Handle h) {
  if (away(h)) return tell(about(Ask::kUnlock, h));
  Object& o = object(h, Kind::kMutex);
  if (!release_fast(o)) unlock_slowly(o);
}
// A mutex, where processes share memory.
[[gnu::always_inline]] inline Object& shared_mutex(Handle h) {
  if (h - 1 >= kObjects - 1 || state.objects[h].kind != Kind::kMutex) [[unlikely]]
    return object(h, Kind::kMutex);  // says so
  return state.objects[h];
}
}  // namespace

void mutex_lock(Handle h) {
  if (gas::apart()) [[unlikely]]
    return lock_apart(h);
  Object& o = shared_mutex(h);
  if (!lock_fast(o)) lock_slowly(o);
}

bool mutex_lock_until(Handle h, std::int64_t deadline_ns) {
  if (away(h)) {
    Call c = about(Ask::kLock, h);
    c.wait_ns = time_left(deadline_ns);
    return !ask_and_wait(c)->timed_out;
  }
  Object& o = object(h, Kind::kMutex);
  if (lock_fast(o)) return true;
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
  if (processes() > 1) take();
  return !d->timed_out;
}

bool mutex_try_lock(Handle h) noexcept {
  if (away(h)) return ask_and_wait(about(Ask::kTryLock, h))->barrier_last;
  const int from = try_take(object(h, Kind::kMutex), own_bits());
  if (from < 0) return false;
  see(from);
  return true;
}

void mutex_unlock(Handle h) noexcept {
  if (gas::apart()) [[unlikely]]
    return unlock_apart(h);
  Object& o = shared_mutex(h);
  if (!release_fast(o)) unlock_slowly(o);
}

Handle condition_create() { return create(Kind::kCondition); }
void condition_destroy(Handle h) noexcept { destroy(h, Kind::kCondition); }

bool condition_wait(Handle c, Handle m, std::int64_t deadline_ns) {
  if (away(c)) {
    Call call = about(Ask::kConditionWait, c);
    call.other = m;
    call.wait_ns = time_left(deadline_ns);
    return !ask_and_wait(call)->timed_out;
  }
  Object& condition = object(c, Kind::kCondition);
  if (!away(m)) (void)object(m, Kind::kMutex);
  if (ult::on_user_thread()) {
    Descriptor* d = current();
    d->wait_value = m;
    d->deadline_ns = deadline_ns;
    ult::on_native<op_condition_wait>(&condition);
    d = current();
    return !d->timed_out;  // a timer that is left behind runs dry
  }
  Descriptor* d = os_descriptor();
  d->wait_value = m;
  enlist(condition, d, deadline_ns);
  mutex_unlock(m);
  os_block(d);
  if (processes() > 1) take();
  return !d->timed_out;
}

void condition_notify(Handle h, bool all) noexcept {
  if (away(h)) return tell(about(all ? Ask::kNotifyAll : Ask::kNotifyOne, h));
  Object& condition = object(h, Kind::kCondition);
  if (!seems_awaited(condition)) return;
  if (all)
    call_native([](void* o) { notify_native(*static_cast<Object*>(o), true); }, &condition);
  else
    call_native([](void* o) { notify_native(*static_cast<Object*>(o), false); }, &condition);
}

Handle barrier_create(std::ptrdiff_t expected) {
  AYT_CHECK(expected > 0, "an ayatori::barrier of {} threads", expected);
  const Handle h = create(Kind::kBarrier);
  Object& o = object(h, Kind::kBarrier);
  o.expected = expected;
  o.type = static_cast<std::uint32_t>(expected);
  return h;
}
void barrier_destroy(Handle h) noexcept { destroy(h, Kind::kBarrier); }

bool barrier_arrive(Handle h, std::ptrdiff_t count, bool wait, bool drop) {
  if (away(h)) {
    Call c = about(Ask::kArrive, h);
    c.count = count;
    c.wait = wait;
    c.drop = drop;
    return ask_and_wait(c)->barrier_last;
  }
  Object& o = object(h, Kind::kBarrier);
  if (!ult::on_user_thread()) {
    Descriptor* d = os_descriptor();
    const bool is_last = count_arrival(o, count, drop, wait ? d : nullptr, self());
    if (is_last) {
      if (processes() > 1) arrive_native_last(o);
    } else if (wait) {
      os_block(d);
      if (processes() > 1) take();
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
  if (away(h)) return ask_value(about(Ask::kPhase, h));
  return object(h, Kind::kBarrier).phase.load(std::memory_order_relaxed);
}

void barrier_wait_phase(Handle h, std::uint64_t phase) {
  if (away(h)) {
    Call c = about(Ask::kWaitPhase, h);
    c.count = static_cast<std::int64_t>(phase);
    ask_and_wait(c);
    return;
  }
  Object& o = object(h, Kind::kBarrier);
  if (ult::on_user_thread()) {
    barrier_call() = {0, false, phase};
    ult::on_native(&op_wait_phase, &o);
    return;
  }
  Descriptor* d = os_descriptor();
  if (wait_phase(o, d, phase)) return;
  os_block(d);
  if (processes() > 1) take();
}

void barrier_release(Handle h) noexcept {
  if (away(h)) return tell(about(Ask::kRelease, h));
  call_native(&release_native, &object(h, Kind::kBarrier));
}

bool barrier_wait(Handle h) {
  if (away(h)) return ask_and_wait(about(Ask::kArriveAndWait, h))->barrier_last;
  Object& o = object(h, Kind::kBarrier);
  if (ult::on_user_thread()) {
    ult::on_native(&op_barrier_wait, &o);
    return current()->barrier_last;
  }
  Descriptor* d = os_descriptor();
  if (finish_or_wait(o, d, self())) return true;
  os_block(d);
  if (processes() > 1) take();
  return false;
}

Handle semaphore_create(std::uint32_t value) {
  AYT_CHECK(value <= kSemaphoreMax, "a semaphore of {}", value);
  const Handle h = create(Kind::kSemaphore);
  object(h, Kind::kSemaphore).expected = value;
  return h;
}
void semaphore_destroy(Handle h) noexcept { destroy(h, Kind::kSemaphore); }

bool semaphore_wait(Handle h, std::int64_t deadline_ns) {
  if (away(h)) {
    Call c = about(Ask::kSemaphoreWait, h);
    c.wait_ns = time_left(deadline_ns);
    return !ask_and_wait(c)->timed_out;
  }
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
  if (processes() > 1) take();
  return !d->timed_out;
}

bool semaphore_try_wait(Handle h) noexcept {
  if (away(h)) return ask_and_wait(about(Ask::kSemaphoreTryWait, h))->barrier_last;
  return call_object(&try_wait_native, object(h, Kind::kSemaphore));
}
bool semaphore_post(Handle h, std::ptrdiff_t count) noexcept {
  if (away(h)) {
    Call c = about(Ask::kSemaphorePost, h);
    c.count = count;
    return ask_and_wait(c)->barrier_last;
  }
  return call_object(&post_native, object(h, Kind::kSemaphore), count);
}
std::uint32_t semaphore_value(Handle h) noexcept {
  if (away(h)) return static_cast<std::uint32_t>(ask_value(about(Ask::kSemaphoreValue, h)));
  return static_cast<std::uint32_t>(
      std::atomic_ref<std::ptrdiff_t>(object(h, Kind::kSemaphore).expected).load(std::memory_order_relaxed));
}

void end_cancelled_wait(Descriptor* d) {
  if (waits::end_cancelled(d)) return;
  auto* const o = static_cast<Object*>(std::atomic_ref(d->wait_condition).load(std::memory_order_seq_cst));  // X2
  if (o) {
    o->guard.lock();
    const bool condition = o->kind == Kind::kCondition;
    // A wait that is none of its cancellation points, or has begun after it disabled them, goes on; so does who was
    // notified and waits for its mutex.
    const bool waits = (condition || o->kind == Kind::kSemaphore) &&
                       o->waiters.pop_if([d](Descriptor* x) { return x == d && ult::refuses_to_wait(d); }) != nullptr;
    if (waits) d->timed_out = true;
    if (waits && condition) note_waiters(*o);
    o->guard.unlock();
    if (waits && condition) return relock(d, d->wait_value);
    if (waits) return ult::make_ready(d, true);
  }
  ult::end_cancelled_join(d);
}

bool alive(Handle h, Kind kind) noexcept {
  if (away(h)) {
    Call c = about(Ask::kAlive, h);
    c.count = static_cast<std::int64_t>(kind);
    return holder_of(h) < processes() && ask_value(c) != 0;
  }
  return index_of(h) != 0 && (gas::apart() || h < kObjects) && state.objects[index_of(h)].kind == kind;
}
bool busy(Handle h) noexcept {
  if (away(h)) return ask_value(about(Ask::kBusy, h)) != 0;
  return call_object(&busy_native, state.objects[index_of(h)]);
}

std::uint32_t type_of(Handle h) noexcept {
  if (away(h)) return static_cast<std::uint32_t>(ask_value(about(Ask::kType, h)));
  return state.objects[index_of(h)].type;
}
void set_type(Handle h, std::uint32_t type) noexcept {
  if (!away(h)) state.objects[index_of(h)].type = type;  // where it was made, or it has one already
}
Holding holding(Handle h) noexcept {
  if (away(h)) return {ask_value(about(Ask::kOwner, h)), static_cast<std::uint32_t>(ask_value(about(Ask::kDepth, h)))};
  const Object& o = state.objects[index_of(h)];
  return {o.owner.load(std::memory_order_relaxed), o.depth.load(std::memory_order_relaxed)};
}
void set_holding(Handle h, const Holding& now) noexcept {
  if (away(h)) {
    Call c = about(Ask::kSetHolding, h);
    c.count = static_cast<std::int64_t>(now.owner);
    c.other = now.depth;
    ask_value(c);
    return;
  }
  Object& o = state.objects[index_of(h)];
  o.depth.store(now.depth, std::memory_order_relaxed);
  o.owner.store(now.owner, std::memory_order_relaxed);  // others look for their own number only
}

void leave_robust(Handle h) noexcept {
  if (!alive(h, Kind::kMutex)) return;
  const Holding now = holding(h);
  if (now.owner != caller_number()) return;
  set_holding(h, {0, kInconsistent});
  mutex_unlock(h);
}

std::uint64_t serve(const Call& call) {
  Call c = call;
  AYT_CHECK(c.actor >= 0 && c.actor < processes(), "a peer named process {}", c.actor);
  if (c.ask < Ask::kFindAddress) c.object = local_handle(c.object);
  const auto address = [&] { return reinterpret_cast<const void*>(c.count); };  // NOLINT: of another process
  const std::int64_t now_ns = base::real_now_ns();
  const std::int64_t deadline = c.wait_ns >= kForEver - now_ns ? kForEver : now_ns + c.wait_ns;
  const auto waiter = [&] {
    Descriptor* d = remote::local_for({c.waiter_process, c.waiter_index, c.waiter_os});
    d->timed_out = c.timed_out;
    d->barrier_last = false;
    return d;
  };
  const auto answer = [&](Descriptor* d, bool flag) {
    d->barrier_last = flag;
    ult::make_ready(d, false);
  };
  switch (c.ask) {
    case Ask::kLock: relock(waiter(), c.object, deadline); break;
    case Ask::kTryLock: answer(waiter(), try_take(object(c.object, Kind::kMutex), 0) >= 0); break;
    case Ask::kUnlock: unlock_for(c.object, c.actor); break;
    case Ask::kConditionWait: {
      Descriptor* d = waiter();
      if (self() == 0) c.other = local_handle(c.other);
      d->wait_value = c.other;
      enlist(object(c.object, Kind::kCondition), d, deadline);
      unlock_for(c.other, c.actor);
      break;
    }
    case Ask::kNotifyOne: notify_native(object(c.object, Kind::kCondition), false); break;
    case Ask::kNotifyAll: notify_native(object(c.object, Kind::kCondition), true); break;
    case Ask::kArrive: {
      Descriptor* d = waiter();
      const bool last = count_arrival(object(c.object, Kind::kBarrier), c.count, c.drop, c.wait ? d : nullptr, c.actor);
      if (last || !c.wait) answer(d, last);
      break;
    }
    case Ask::kRelease: release_barrier(object(c.object, Kind::kBarrier), c.actor); break;
    case Ask::kWaitPhase: {
      Descriptor* d = waiter();
      if (wait_phase(object(c.object, Kind::kBarrier), d, static_cast<std::uint64_t>(c.count))) answer(d, false);
      break;
    }
    case Ask::kArriveAndWait: {
      Descriptor* d = waiter();
      if (finish_or_wait(object(c.object, Kind::kBarrier), d, c.actor)) answer(d, true);
      break;
    }
    case Ask::kSemaphoreWait: {
      Descriptor* d = waiter();
      std::uint64_t posters = 0;
      if (take_unit(object(c.object, Kind::kSemaphore), d, deadline, &posters)) answer(d, false);
      break;
    }
    case Ask::kSemaphoreTryWait: {
      std::uint64_t posters = 0;
      answer(waiter(), take_unit(object(c.object, Kind::kSemaphore), nullptr, kForEver, &posters));
      break;
    }
    case Ask::kSemaphorePost: answer(waiter(), post_units(object(c.object, Kind::kSemaphore), c.count, c.actor)); break;
    case Ask::kRwLock:
    case Ask::kRwTryLock: serve_rwlock(c, waiter(), deadline); break;
    case Ask::kRwUnlock: return serve_rwlock(c, nullptr, deadline) ? 1 : 0;
    case Ask::kDestroy:
      (void)object(c.object, static_cast<Kind>(c.count));  // twice is fatal, as everywhere
      destroy_native(reinterpret_cast<void*>(c.object));   // NOLINT
      break;
    case Ask::kPhase: return barrier_phase(c.object);
    case Ask::kSemaphoreValue: return semaphore_value(c.object);
    case Ask::kAlive: return alive(c.object, static_cast<Kind>(c.count)) ? 1 : 0;
    case Ask::kBusy: return busy(c.object) ? 1 : 0;
    case Ask::kType: return type_of(c.object);
    case Ask::kOwner: return holding(c.object).owner;
    case Ask::kDepth: return holding(c.object).depth;
    case Ask::kSetHolding:
      set_holding(c.object, {static_cast<std::uint64_t>(c.count), static_cast<std::uint32_t>(c.other)});
      break;
    case Ask::kFindAddress: return address_table::find(address());
    case Ask::kReplaceAddress: return address_table::replace(address(), c.object, c.other);
    case Ask::kEraseAddress: return address_table::erase(address());
    case Ask::kShareStatic: return share_here(static_cast<std::uintptr_t>(c.count), c.other, 1);
    case Ask::kCreateKey:
      return keys::create_here(static_cast<std::uintptr_t>(c.count),
                               reinterpret_cast<keys::Destructor>(c.other),  // NOLINT
                               c.actor);
    case Ask::kEraseKey: return keys::erase_here(static_cast<keys::Key>(c.count), c.actor) ? 1 : 0;
    case Ask::kFindKey: return keys::find_here(static_cast<keys::Key>(c.count));
    case Ask::kUnshareStatic: return unshare_here(static_cast<std::uintptr_t>(c.count));
  }
  return 0;
}

int keeper(Handle h) noexcept { return holder_of(h); }

namespace {
// The number of a mutex's holder, its generation cut.
std::uint64_t holder_in(std::uint64_t word) { return (word >> 16 & 0xffff) << 32 | word >> 32; }
}  // namespace

Waited describe(const void* wait_object, StackMemory& memory) {
  const auto offset = reinterpret_cast<std::uintptr_t>(wait_object) - reinterpret_cast<std::uintptr_t>(state.objects);
  Waited w{"a freed object", 0, -1, 0, 0, 0};
  if (offset / sizeof(Object) >= kObjects || offset % sizeof(Object) != 0) return w;
  const Copy<Object> o(static_cast<const Object*>(wait_object), memory);  // D4 of dump.hpp
  if (!o) return w;
  w.handle = offset / sizeof(Object);
  switch (o->kind) {
    case Kind::kFree: break;
    case Kind::kMutex:
      w.kind = "mutex";
      w.last_process = last_of(o->word.load(std::memory_order_relaxed));
      w.holder = holder_in(o->word.load(std::memory_order_relaxed));
      break;
    case Kind::kCondition: w.kind = "condition variable"; break;
    case Kind::kBarrier:
      w.kind = "barrier";
      w.arrived = o->arrived;
      w.expected = o->expected;
      break;
    case Kind::kSemaphore: w.kind = "semaphore"; break;
    case Kind::kRwLock:
      w.kind = "read-write lock";
      w.last_process = last_of(o->word.load(std::memory_order_relaxed));
      if (o->expected < 0) w.holder = o->owner.load(std::memory_order_relaxed);
      break;
  }
  return w;
}

}  // namespace ayatori::tasks::sync
