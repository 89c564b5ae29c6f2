// SPDX-License-Identifier: Apache-2.0
// Read-write locks (sync.hpp). Of an object: `expected` threads hold it for reading, or -1: `owner` for writing; `word` says where
// its last writer was, `arrived_processes` where readers have been since. All of it is guarded.
#include <bit>

#include "base/check.hpp"
#include "tasks/sync_ask.hpp"
#include "tasks/sync_object.hpp"
#include "ult/cancellation.hpp"
#include "ult/current.hpp"
#include "ult/scheduler.hpp"

namespace ayatori::tasks::sync {

namespace {

using ult::ThreadState;
using ult::Worker;

constexpr std::ptrdiff_t kWriter = -1;

constexpr std::uint64_t bit(int process) { return std::uint64_t{1} << process; }
int last_writer(const Object& o) { return last_of(o.word.load(std::memory_order_relaxed)); }

// Processes whose writes the one that now holds it must see. Under the guard.
std::uint64_t hold(Object& o, const Descriptor& d) {
  std::uint64_t from = bit(last_writer(o));
  if (d.shares) {
    ++o.expected;
    return from;
  }
  from |= o.arrived_processes;
  o.arrived_processes = 0;
  o.expected = kWriter;
  o.owner.store(d.wait_value, std::memory_order_release);  // after the state in Granted::add(), for the dump
  return from;
}

// Those that hold it now, and what they must see.
struct Granted {
  ult::List threads;
  std::uint64_t from = 0;

  void add(Object& o, Descriptor* d) {
    d->state = ThreadState::kReady;  // before it holds the lock (D5 of dump.hpp)
    from |= hold(o, *d);
    threads.push(d);
  }
};

// First come, first served; where readers are preferred, those behind a writer go with the first reader. Under the guard.
Granted grant(Object& o) {
  Granted g;
  if (o.waiters.empty() || o.expected == kWriter) return g;
  if (o.expected == 0 && !o.waiters.head->shares) {
    g.add(o, o.waiters.pop());
    return g;
  }
  const bool all = o.type == kPreferReaders;
  while (!o.waiters.empty() && (all || o.waiters.head->shares)) {
    Descriptor* const d = o.waiters.pop_if([](const Descriptor* x) { return x->shares; });
    if (!d) break;
    g.add(o, d);
  }
  return g;
}

// Native stack, without the guard.
void resume(Granted g) {
  if (g.threads.empty()) return;
  if (processes() > 1)
    for (int p = 0; p < processes(); ++p)
      if ((g.from & bit(p)) != 0) give(p);
  const bool others_wrote = (g.from & ~bit(self())) != 0;
  while (Descriptor* d = g.threads.pop()) {
    if (others_wrote && !d->proxy && !d->os_thread) d->needs_acquire = true;
    ult::make_ready(d, true);
  }
}

bool rw_timed_out(Descriptor* d, std::uint64_t sequence) {
  Object* const o = waits_for(d);
  if (!o || kind_of(*o) != Kind::kRwLock) return false;  // another kind of wait, whose guard may be another one (Y7)
  o->guard.lock();
  const bool waits = is_wait(d, sequence) && waits_for(d) == o && o->waiters.remove(d);
  const Granted behind = waits ? grant(*o) : Granted{};  // readers that it held up
  o->guard.unlock();
  resume(behind);
  if (waits) {
    d->timed_out = true;
    ult::make_ready(d, true);
  }
  return false;
}

enum class Outcome { kHeld, kWaits, kDeadlock };

// For `d`, with shares, wait_value and, if it may wait, deadline_ns set. kHeld: `from` is to be seen. Native stack.
Outcome take_or_wait(Object& o, Descriptor* d, bool may_wait, std::uint64_t* from) {
  o.guard.lock();
  const bool held_by_caller = o.expected == kWriter && o.owner.load(std::memory_order_relaxed) == d->wait_value;
  const bool readable = o.expected >= 0 && (o.type == kPreferReaders || o.waiters.empty());
  Outcome outcome = held_by_caller ? Outcome::kDeadlock : Outcome::kWaits;
  if (d->shares ? readable : o.expected == 0) {
    *from = hold(o, *d);
    outcome = Outcome::kHeld;
  } else if (outcome == Outcome::kWaits && may_wait) {
    d->state = ThreadState::kLocking;
    ult::set_wait_object(d, &o);
    begin_wait(o, d);
    if (d->deadline_ns != kForEver) ult::add_timer(d, d->deadline_ns, rw_timed_out, d->wait_sequence);
    o.waiters.push(d);
  }
  o.guard.unlock();
  return outcome;
}

bool unlock_for(Object& o, int actor) {
  o.guard.lock();
  const bool held = o.expected != 0;
  if (o.expected == kWriter) {
    o.expected = 0;
    o.owner.store(0, std::memory_order_relaxed);
    o.word.store(last(actor), std::memory_order_relaxed);
  } else if (held) {
    --o.expected;
    o.arrived_processes |= bit(actor);
  }
  const Granted next = held ? grant(o) : Granted{};
  o.guard.unlock();
  resume(next);
  return held;
}

void* op_lock(Worker& w, Descriptor* self_, void* argument) {
  self_->wait_value = ult::number_of(self_);
  std::uint64_t from = 0;
  const Outcome outcome = take_or_wait(*static_cast<Object*>(argument), self_, true, &from);
  if (outcome == Outcome::kWaits) return ult::schedule(w);
  if (outcome == Outcome::kHeld) see_all(from);
  self_->barrier_last = outcome == Outcome::kDeadlock;
  return ult::resume_here(w, self_);
}

// What goes to the native stack and back, as call_native takes one pointer and stacks may lie in the space.
struct RwCall {
  Object* object;
  bool shares, done;
  std::uint64_t caller;
};
[[gnu::noinline]] RwCall& rw_call() {
  thread_local RwCall call;
  return call;
}

void try_native(void* argument) {
  auto& call = *static_cast<RwCall*>(argument);
  Descriptor d{};
  d.shares = call.shares;
  d.wait_value = call.caller;
  std::uint64_t from = 0;
  call.done = take_or_wait(*call.object, &d, false, &from) == Outcome::kHeld;
  if (call.done) see_all(from);
}

void unlock_native(void* argument) {
  auto& call = *static_cast<RwCall*>(argument);
  call.done = unlock_for(*call.object, self());
}

bool call_rw(void (*f)(void*), const RwCall& with) {
  RwCall& call = rw_call();
  call = with;
  call_native(f, &call);
  return rw_call().done;  // call_native does not switch threads
}

RwLocked result_of(const Descriptor& d) {
  return d.barrier_last ? RwLocked::kDeadlock : d.timed_out ? RwLocked::kTimedOut : RwLocked::kYes;
}

}  // namespace

Handle rwlock_create() { return create(Kind::kRwLock); }
void rwlock_destroy(Handle h) noexcept { destroy(h, Kind::kRwLock); }

RwLocked rwlock_lock(Handle h, bool shared, std::int64_t deadline_ns) {
  if (away(h)) {
    Call c = about(Ask::kRwLock, h);
    c.wait = shared;
    c.wait_ns = time_left(deadline_ns);
    c.count = static_cast<std::int64_t>(caller_number());
    return result_of(*ask_and_wait(c));
  }
  Object& o = object(h, Kind::kRwLock);
  Descriptor* d = ult::on_user_thread() ? ult::current_thread() : os_descriptor();
  d->shares = shared;
  d->deadline_ns = deadline_ns;
  d->timed_out = d->barrier_last = false;
  if (ult::on_user_thread()) {
    ult::on_native(&op_lock, &o);
    return result_of(*ult::current_thread());  // its descriptor may be another one now
  }
  d->wait_value = caller_number();
  std::uint64_t from = 0;
  const Outcome outcome = take_or_wait(o, d, true, &from);
  if (outcome == Outcome::kDeadlock) return RwLocked::kDeadlock;
  if (outcome == Outcome::kHeld) {
    see_all(from);
    return RwLocked::kYes;
  }
  os_block(d);
  if (processes() > 1) take();
  return result_of(*d);
}

bool rwlock_try_lock(Handle h, bool shared) noexcept {
  if (away(h)) {
    Call c = about(Ask::kRwTryLock, h);
    c.wait = shared;
    c.count = static_cast<std::int64_t>(caller_number());
    return ask_and_wait(c)->barrier_last;
  }
  return call_rw(&try_native, {&object(h, Kind::kRwLock), shared, false, caller_number()});
}

bool rwlock_unlock(Handle h) noexcept {
  if (away(h)) return ask_value(about(Ask::kRwUnlock, h)) != 0;
  return call_rw(&unlock_native, {&object(h, Kind::kRwLock), false, false, 0});
}

bool serve_rwlock(const Call& c, Descriptor* d, std::int64_t deadline_ns) {
  Object& o = object(c.object, Kind::kRwLock);
  if (c.ask == Ask::kRwUnlock) return unlock_for(o, c.actor);
  d->shares = c.wait;
  d->deadline_ns = deadline_ns;
  d->wait_value = static_cast<std::uint64_t>(c.count);
  std::uint64_t from = 0;
  const bool may_wait = c.ask == Ask::kRwLock;
  const Outcome outcome = take_or_wait(o, d, may_wait, &from);
  if (may_wait && outcome == Outcome::kWaits) return false;
  d->barrier_last = outcome == (may_wait ? Outcome::kDeadlock : Outcome::kHeld);
  ult::make_ready(d, false);
  return true;
}

}  // namespace ayatori::tasks::sync
