// SPDX-License-Identifier: Apache-2.0
#include "tasks/sync.hpp"

#include <unistd.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <new>
#include <system_error>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/futex.hpp"
#include "gas/space.hpp"
#include "tasks/address_table.hpp"
#include "tasks/remote.hpp"
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
  std::uint32_t type;                // type_of()
  std::atomic<std::uint32_t> depth;  // holding(); as owner, and ordered by the mutex where the reader holds it
  std::atomic<std::uint64_t> owner;  // holding()
};

constexpr int kHolderShift = 24;
constexpr std::uint32_t kObjects = 1u << kHolderShift;
constexpr std::int64_t kForEver = std::numeric_limits<std::int64_t>::max();

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

// Where processes share no memory (gas::apart()), an object is held by the process that made it; its handle says which.
int holder_of(Handle h) noexcept { return (h >> 63) != 0 ? 0 : static_cast<int>(h >> kHolderShift); }
bool away(Handle h) noexcept { return gas::apart() && holder_of(h) != self(); }
std::uint32_t index_of(Handle h) noexcept { return static_cast<std::uint32_t>(h) & (kObjects - 1); }

Object& object(Handle h, Kind kind) {
  AYT_CHECK(index_of(h) != 0 && (gas::apart() ? holder_of(h) == self() : h < kObjects) &&
                state.objects[index_of(h)].kind == kind,
            "a mutex, condition variable or barrier was used that is not alive (handle {})", h);
  return state.objects[index_of(h)];
}

// Fences between the process where something was ordered and this one. Without shared memory whoever tells another process
// of it has released, so that only this process's own writes are left to release.
void see_last(int from) {
  if (from == self()) return;
  if (gas::apart())
    dsm::acquire();
  else
    fences().pass(from, self());
}
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
}

void destroy_native(void* argument) {
  const std::uint32_t h = index_of(reinterpret_cast<std::uintptr_t>(argument));
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
  o.type = 0;
  o.depth.store(0, std::memory_order_relaxed);
  o.owner.store(0, std::memory_order_relaxed);
  return gas::apart() ? h | static_cast<Handle>(self()) << kHolderShift : h;
}

// ------------------------------------------------------------------------------------------------ objects held elsewhere

// A question on its way to the native stack: the caller's own may lie in the space. Set and read on one worker.
[[gnu::noinline]] Call& question() {
  thread_local Call call;
  return call;
}
std::uint64_t& answered() {
  thread_local std::uint64_t value;
  return value;
}
Call about(Ask ask, Handle h) noexcept {
  Call c{};
  c.ask = ask;
  c.actor = self();
  c.object = h;
  c.waiter_process = -1;
  c.wait_ns = kForEver;
  return c;
}
std::int64_t time_left(std::int64_t deadline_ns) noexcept {
  return deadline_ns == kForEver ? kForEver : std::max<std::int64_t>(0, deadline_ns - base::real_now_ns());
}
bool orders_before(Ask ask) noexcept {  // what the asker wrote must be seen by others
  return ask != Ask::kLock && ask != Ask::kTryLock && ask != Ask::kWaitPhase && ask != Ask::kSemaphoreWait &&
         ask != Ask::kSemaphoreTryWait && ask < Ask::kDestroy;
}
void put_waiter(Call& c, const Descriptor* d) {
  const remote::Waiter w = remote::waiter_of(d);
  c.waiter_process = w.process;
  c.waiter_index = w.index;
  c.waiter_os = w.os;
}

void* op_ask(Worker& w, Descriptor* self_, void*) {
  Call c = question();
  put_waiter(c, self_);
  self_->state = c.ask == Ask::kLock ? ThreadState::kLocking : ThreadState::kWaiting;
  self_->wait_object = nullptr;
  self_->wait_mutex = c.object;  // for people
  self_->timed_out = false;
  if (orders_before(c.ask)) dsm::release(self());
  remote::ask(holder_of(c.object), c);
  return ult::schedule(w);
}

Descriptor* os_descriptor();
void os_block(Descriptor* d);

// Asks, and suspends the caller until it is answered. What the answer says stands in the descriptor that it returns.
const Descriptor* ask_and_wait(const Call& call) {
  if (ult::on_user_thread()) {
    question() = call;
    ult::on_native(&op_ask, nullptr);
    return ult::current_worker()->current;
  }
  Descriptor* d = os_descriptor();
  d->timed_out = false;
  Call c = call;
  put_waiter(c, d);
  if (orders_before(c.ask)) dsm::release(self());
  remote::ask(holder_of(c.object), c);
  os_block(d);
  dsm::acquire();
  return d;
}

// Waits, with its worker, until it has been done: whoever is told of it afterwards may destroy the object.
void ask_value_native(void*) {
  const Call c = question();
  if (orders_before(c.ask)) dsm::release(self());
  answered() = remote::ask_value(holder_of(c.object), c);
}
std::uint64_t ask_value(const Call& call) {
  question() = call;
  call_native(&ask_value_native, nullptr);
  return answered();  // call_native does not switch threads
}
void tell(const Call& call) { ask_value(call); }

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

// Where processes share no memory, an object in static data is process 0's, and the others name it by its address: nobody
// is asked when it is constructed, which may be before there is a network.
constexpr Handle kNamed = Handle{1} << 63;
// Of process 0. No memory of the C library's heap: what main takes of it lies at the same addresses everywhere.
struct Statics {
  static constexpr int kMax = 4096;
  struct Entry {
    std::uintptr_t where;
    Handle handle;
    int users;
  };
  base::SharedLock lock;
  Entry entries[kMax];  // Guarded by lock.
  int count;            // Guarded by lock.

  Entry* find(std::uintptr_t where) noexcept {
    for (int i = 0; i < count; ++i)
      if (entries[i].where == where) return &entries[i];
    return nullptr;
  }
};
constinit Statics statics{};

Handle share_here(std::uintptr_t where, Handle made, int users) {
  const std::lock_guard guard(statics.lock);
  Statics::Entry* e = statics.find(where);
  if (!e) {
    AYT_CHECK(statics.count < Statics::kMax, "more than {} ayatori objects in static data", Statics::kMax);
    e = &statics.entries[statics.count++];
    *e = {where, made, 0};
  }
  e->users += users;
  return e->handle;
}
// What that was the last user of, or 0.
Handle unshare_here(std::uintptr_t where) {
  const std::lock_guard guard(statics.lock);
  Statics::Entry* const e = statics.find(where);
  if (!e || --e->users > 0) return 0;
  const Handle ended = e->handle;
  *e = statics.entries[--statics.count];
  return ended;
}

// What all processes have for the object at `where`. Before there is a network, every process constructs what process 0 does.
Handle share_apart(const void* where, Kind kind, Handle made) {
  const auto address = reinterpret_cast<std::uintptr_t>(where);
  Handle agreed;
  if (self() == 0) {
    agreed = share_here(address, made, remote::connected() ? 1 : processes());
  } else if (!remote::connected()) {
    agreed = kNamed | address;
  } else {
    Call c = about(Ask::kShareStatic, 0);
    c.count = static_cast<std::int64_t>(address);
    c.other = made;
    agreed = ask_value(c);
  }
  if (agreed != made) destroy(made, kind);
  return agreed;
}
// What the caller is to end, or 0.
Handle unshare_apart(const void* where) {
  Call c = about(Ask::kUnshareStatic, 0);
  c.count = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(where));
  return self() == 0 ? unshare_here(static_cast<std::uintptr_t>(c.count)) : ask_value(c);
}

// At process 0: what it knows by another's name.
Handle local_handle(Handle h) {
  if ((h & kNamed) == 0) return h;
  const std::lock_guard guard(statics.lock);
  const Statics::Entry* const e = statics.find(h & ~kNamed);
  AYT_CHECK(e != nullptr, "process 0 never made the ayatori object in static data at {:#x} that another process uses",
            h & ~kNamed);
  return e->handle;
}

// ------------------------------------------------------------------------------------------------ waiters

constexpr std::uint32_t kOsWaiters = 1u << 16;  // of all processes together

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
void unlock_native(Object& o, int actor) {
  o.guard.lock();
  Descriptor* next = o.waiters.pop();
  const std::uint32_t waiters = o.waiters.empty() ? 0 : kWaiters;
  if (next)
    o.word.store(last(actor) | kLocked | waiters, std::memory_order_release);  // Y4; waiters under guard
  else
    o.word.store(last(actor), std::memory_order_release);
  o.guard.unlock();
  if (next) go_on(next, actor, false);
}

void unlock_call(void* argument) { unlock_native(*static_cast<Object*>(argument), self()); }

bool unlock_fast(Object& o) {
  std::uint32_t w = o.word.load(std::memory_order_relaxed);
  AYT_CHECK((w & kLocked) != 0, "an ayatori::mutex that is not locked was unlocked");
  return (w & kWaiters) == 0 && o.word.compare_exchange_strong(w, last(self()), std::memory_order_release);  // Y3
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

// The timer of d's wait number `sequence`. A timer that outlived its wait finds another number, or d in no list.
bool timed_out(Descriptor* d, std::uint64_t sequence) {
  auto* const condition = static_cast<Object*>(d->wait_condition);  // objects stay mapped, whatever d does meanwhile
  if (!condition) return false;
  condition->guard.lock();
  const bool waits = d->wait_sequence == sequence && condition->waiters.remove(d);
  condition->guard.unlock();
  if (waits) {
    d->timed_out = true;
    relock(d, d->wait_mutex);
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

// Native stack.
void unlock_for(Handle h, int actor) {
  if (away(h)) {
    if (actor == self()) dsm::release(actor);
    Call c = about(Ask::kUnlock, h);
    c.actor = actor;
    return remote::ask(holder_of(h), c);
  }
  Object& o = object(h, Kind::kMutex);
  if (actor == self() && unlock_fast(o)) return;
  AYT_CHECK((o.word.load(std::memory_order_relaxed) & kLocked) != 0,
            "process {} unlocked an ayatori::mutex that is not locked", actor);
  unlock_native(o, actor);
}

void* op_condition_wait(Worker& w, Descriptor* self_, void* argument) {
  Object& condition = *static_cast<Object*>(argument);
  const Handle mutex = self_->wait_mutex;
  const std::int64_t deadline = self_->deadline_ns;
  self_->state = ThreadState::kWaiting;
  self_->wait_object = &condition;
  const bool timed = deadline != INT64_MAX;
  enlist(condition, self_);
  // The mutex is still held: nobody who notifies under it can be earlier than the timer.
  if (timed) ult::add_timer(self_, deadline, timed_out, self_->wait_sequence);
  unlock_for(mutex, self());
  return ult::schedule(w);
}

void notify_native(Object& condition, bool all) {
  for (;;) {
    condition.guard.lock();
    Descriptor* d = condition.waiters.pop();
    condition.guard.unlock();
    if (!d) return;
    relock(d, d->wait_mutex);
    if (!all) return;
  }
}

// ------------------------------------------------------------------------------------------------ barrier

// Everything written at `from_processes` before is at its owner, and this process looks again (Y2).
void see_all(std::uint64_t from_processes) {
  for (int p = 0; p < processes(); ++p)
    if ((from_processes >> p & 1) != 0 && p != self()) give(p);
  if ((from_processes & ~(std::uint64_t{1} << self())) != 0) take();
}

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
    d->wait_object = &o;
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

// False: the value is kSemaphoreMax.
bool post_unit(Object& o, int actor) {
  o.guard.lock();
  Descriptor* d = o.waiters.pop();
  const bool done = d || o.expected < kSemaphoreMax;
  if (!d && done) {
    ++o.expected;
    o.arrived_processes |= std::uint64_t{1} << actor;
  }
  o.guard.unlock();
  if (d) go_on(d, actor, false);
  return done;
}

void post_native(void* argument) {
  auto& call = *static_cast<ObjectCall*>(argument);
  call.done = post_unit(*call.object, self());
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
  if (away(h)) {
    ask_and_wait(about(Ask::kLock, h));
    return;
  }
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
    if (processes() > 1) take();
  }
}

bool mutex_lock_until(Handle h, std::int64_t deadline_ns) {
  if (away(h)) {
    Call c = about(Ask::kLock, h);
    c.wait_ns = time_left(deadline_ns);
    return !ask_and_wait(c)->timed_out;
  }
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
  if (processes() > 1) take();
  return !d->timed_out;
}

bool mutex_try_lock(Handle h) noexcept {
  if (away(h)) return ask_and_wait(about(Ask::kTryLock, h))->barrier_last;
  const int from = try_take(object(h, Kind::kMutex));
  if (from < 0) return false;
  see(from);
  return true;
}

void mutex_unlock(Handle h) noexcept {
  if (away(h)) return tell(about(Ask::kUnlock, h));
  Object& o = object(h, Kind::kMutex);
  if (!unlock_fast(o)) call_native(&unlock_call, &o);
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
    d->wait_mutex = m;
    d->deadline_ns = deadline_ns;
    ult::on_native(&op_condition_wait, &condition);
    d = current();
    return !d->timed_out;  // a timer that is left behind runs dry
  }
  Descriptor* d = os_descriptor();
  d->wait_mutex = m;
  enlist(condition, d);
  if (deadline_ns != INT64_MAX) ult::add_timer(d, deadline_ns, timed_out, d->wait_sequence);
  mutex_unlock(m);
  os_block(d);
  if (processes() > 1) take();
  return !d->timed_out;
}

void condition_notify(Handle h, bool all) noexcept {
  if (away(h)) return tell(about(all ? Ask::kNotifyAll : Ask::kNotifyOne, h));
  Object& condition = object(h, Kind::kCondition);
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
bool semaphore_post(Handle h) noexcept {
  if (away(h)) return ask_and_wait(about(Ask::kSemaphorePost, h))->barrier_last;
  return call_object(&post_native, object(h, Kind::kSemaphore));
}
std::uint32_t semaphore_value(Handle h) noexcept {
  if (away(h)) return static_cast<std::uint32_t>(ask_value(about(Ask::kSemaphoreValue, h)));
  return static_cast<std::uint32_t>(
      std::atomic_ref<std::ptrdiff_t>(object(h, Kind::kSemaphore).expected).load(std::memory_order_relaxed));
}

Handle construct(const void* where, Kind kind, std::ptrdiff_t expected) {
  const Handle made = kind == Kind::kBarrier ? barrier_create(expected) : create(kind);
  if (gas::contains(where) || !address_table::is_static(where)) return made;
  if (state.member.load(std::memory_order_relaxed) == 0) state.member.store(getpid(), std::memory_order_relaxed);
  if (gas::apart()) return share_apart(where, kind, made);
  sharing() = {where, kind, made};
  call_native(&share_native, &sharing());
  const Handle agreed = sharing().handle;  // call_native does not switch threads
  if (agreed == made) return made;
  const bool alike = agreed != 0 && state.objects[agreed].type == state.objects[made].type;
  destroy(made, kind);
  if (agreed == 0) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "ayatori");
  AYT_CHECK(alike, "an ayatori::barrier in static data was made for {} threads, by another process for {}", expected,
            state.objects[agreed].type);
  return agreed;
}

void destruct(const void* where, Handle h, Kind kind) noexcept {
  if (h == 0) return;
  if (gas::apart()) {
    if (gas::contains(where) || !address_table::is_static(where)) return destroy(h, kind);
    // A child that the program forked; or the job is over, and process 0 perhaps gone.
    if (getpid() != state.member.load(std::memory_order_relaxed) || finished()) return;
    return destroy(unshare_apart(where), kind);
  }
  if (object(h, kind).users == 0) return destroy(h, kind);
  if (getpid() != state.member.load(std::memory_order_relaxed))
    return;  // a child that the program forked: the object is its parent's
  sharing() = {where, kind, h};
  call_native(&unshare_native, &sharing());
  if (sharing().handle != 0) destroy(h, kind);
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

bool table_is_away() noexcept { return gas::apart() && self() != 0; }
Handle ask_table(Ask ask, const void* address, Handle before, Handle handle) noexcept {
  Call c = about(ask, before);
  c.count = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(address));
  c.other = handle;
  question() = c;
  call_native([](void*) { answered() = remote::ask_value(0, question()); }, nullptr);
  return answered();  // call_native does not switch threads
}

std::uint64_t serve(const Call& call) {
  Call c = call;
  AYT_CHECK(c.actor >= 0 && c.actor < processes(), "a peer named process {}", c.actor);
  if (c.ask < Ask::kFindAddress) c.object = local_handle(c.object);
  const auto address = [&] { return reinterpret_cast<const void*>(c.count); };  // NOLINT: of another process
  const std::int64_t deadline = c.wait_ns == kForEver ? kForEver : base::real_now_ns() + c.wait_ns;
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
    case Ask::kTryLock: answer(waiter(), try_take(object(c.object, Kind::kMutex)) >= 0); break;
    case Ask::kUnlock: unlock_for(c.object, c.actor); break;
    case Ask::kConditionWait: {
      Descriptor* d = waiter();
      if (self() == 0) c.other = local_handle(c.other);
      d->wait_mutex = c.other;
      enlist(object(c.object, Kind::kCondition), d);
      if (deadline != kForEver) ult::add_timer(d, deadline, timed_out, d->wait_sequence);
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
    case Ask::kSemaphorePost: answer(waiter(), post_unit(object(c.object, Kind::kSemaphore), c.actor)); break;
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
    case Ask::kUnshareStatic: return unshare_here(static_cast<std::uintptr_t>(c.count));
  }
  return 0;
}

Descriptor* os_waiter(std::uint32_t index) noexcept {
  AYT_CHECK(index < kOsWaiters, "a peer named waiter {}", index);
  return &state.os_waiters[index];
}
std::uint32_t os_waiter_index(const Descriptor* d) noexcept { return static_cast<std::uint32_t>(d - state.os_waiters); }

int keeper(Handle h) noexcept { return holder_of(h); }

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
