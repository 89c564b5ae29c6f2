// SPDX-License-Identifier: Apache-2.0
// Fork, join, end, yield and the scheduler loop. Invariants: scheduler.hpp, thread.hpp.
#include "ult/scheduler.hpp"

#include <cxxabi.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/identity.hpp"
#include "base/log.hpp"
#include "base/valgrind.hpp"
#include "net/idle.hpp"
#include "ult/cancellation.hpp"
#include "ult/current.hpp"
#include "ult/fast.hpp"
#include "ult/fiber.hpp"
#include "ult/native.hpp"
#include "ult/park.hpp"

__thread ayatori::ult::Worker* ayt_worker __attribute__((tls_model("initial-exec"))) = nullptr;

namespace ayatori::ult {

constinit Config the_config;
constinit std::atomic<std::int64_t> native::next_timer_ns{INT64_MAX};

namespace {

using native::finished;
using native::has_timers;
using native::high_is_ready;
using native::is_high;
using native::is_on_native;
using native::is_out_of_stack;
using native::kClockMask;
using native::keeps_too_many;
using native::kQueuesMask;
using native::mine;
using native::next_timer_ns;
using native::place_of;
using native::put_back;
using native::ring_lightly;
using native::save_private;
using native::spill;
using native::take_next;

constexpr std::size_t kNativeStackBytes = 512 * 1024;
constexpr std::uint32_t kHighMask = 15;  // T5
// After so many ticks of the clock, about 1 and 8 ms, what other workers and other processes have comes first.
constexpr std::uint64_t kNearTicks = std::uint64_t{1} << 21, kFarTicks = std::uint64_t{1} << 24;

struct Timer {
  std::int64_t when_ns;
  Descriptor* thread;
  bool (*expired)(Descriptor*, std::uint64_t);
  std::uint64_t tag;
};

bool is_later(const Timer& a, const Timer& b) noexcept { return a.when_ns > b.when_ns; }

// Private to the process.
struct State {
  base::SharedLock timers_lock;
  std::vector<Timer> timers;  // a heap, the earliest first. Guarded by timers_lock.

  base::SharedLock starts_lock;
  Start* first_start = nullptr;          // Guarded by starts_lock.
  Start* last_start = nullptr;           // Guarded by starts_lock.
  std::atomic<std::uint32_t> starts{0};  // in that list; a hint, exact under the lock
  // Numbers alone.
  std::atomic<std::int64_t> starved_ns{0};  // since when there is no stack for the first of them; 0: there is
  std::atomic<std::int64_t> begged_ns{0};   // when others were last asked for one
  std::atomic<bool> told_starved{false};
};

State& state() {
  static State s;
  return s;
}

std::uint64_t next_random(Worker& w) noexcept {
  std::uint64_t x = w.random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return w.random = x;
}

// ------------------------------------------------------------------------------------------------ free threads

void give_back(Worker& w, std::uint32_t keep) noexcept {
  ProcessQueues& q = mine();
  q.slots_lock.lock();
  while (w.free_count > keep) {
    Descriptor* d = w.free_threads;
    w.free_threads = d->next;
    --w.free_count;
    d->next = q.spare_threads;
    q.spare_threads = d;
    ++q.spare_count;
  }
  q.slots_lock.unlock();
}

}  // namespace

void native::spill(Worker& w) noexcept {
  const std::uint32_t keep = w.keep.load(std::memory_order_relaxed);  // a number alone
  give_back(w, keep / 2);
  if (keep != 0) return;
  w.keep.store(the_config.keep_threads, std::memory_order_seq_cst);  // T4; against root_ended()'s stores in this order
  if (finished()) w.keep.store(0, std::memory_order_relaxed);
  if (the_config.hooks.spilled) the_config.hooks.spilled();
}

namespace {

void push_all(Worker& w, Descriptor* list) noexcept {
  while (list) {
    Descriptor* next = list->next;
    push_free(w, list);
    list = next;
  }
}

// As push_all(), of stacks that were never used.
void push_fresh(Worker& w, Descriptor* list) noexcept {
  if (base::valgrind::is_running())
    for (const Descriptor* d = list; d; d = d->next)
      base::valgrind::add_stack(stack_top(d) - the_config.stack_bytes, the_config.stack_bytes);
  push_all(w, list);
}

// What this process and the hook have; false: nothing.
bool find_free(Worker& w) noexcept {
  const std::uint32_t batch = std::max(1u, the_config.keep_threads / 8);
  ProcessQueues& q = mine();
  push_all(w, q.freed.exchange(nullptr, std::memory_order_acquire));  // pairs with the release exchange in free_to()
  if (w.free_count > the_config.keep_threads) give_back(w, the_config.keep_threads / 2);
  if (w.free_threads) return true;
  q.slots_lock.lock();
  for (std::uint32_t i = 0; i < batch && q.spare_threads; ++i) {
    Descriptor* d = q.spare_threads;
    q.spare_threads = d->next;
    --q.spare_count;
    push_free(w, d);
  }
  q.slots_lock.unlock();
  if (!w.free_threads) push_fresh(w, the_config.hooks.more_threads(batch));
  return w.free_threads != nullptr;
}

// Asks the other workers of the job for their free threads (T4). Returns 0 when none of them seems to have any, else a number
// that changes when what they have does; hints.
__attribute__((no_sanitize("thread"))) std::uint64_t ask_for_free(const Worker& w) noexcept {
  std::uint64_t seen = 0;
  const auto add = [&seen](std::uint64_t what) { seen = (seen + what) * 0x9e3779b97f4a7c15ULL; };
  for (int p = 0; p < the_config.processes; ++p) {
    ProcessQueues& q = *the_config.queues[p];
    if (const Descriptor* d = q.freed.load(std::memory_order_relaxed)) add(reinterpret_cast<std::uintptr_t>(d));
    if (const std::uint32_t n = *const_cast<volatile std::uint32_t*>(&q.spare_count)) add(std::uint64_t{n} << 32);
    for (int i = 0; i < q.workers; ++i) {
      Worker& v = q.worker[i];
      if (&v == &w) continue;
      if (const std::uint32_t n = *const_cast<volatile std::uint32_t*>(&v.free_count)) add(n);
      v.keep.store(0, std::memory_order_relaxed);
    }
  }
  return seen;
}

// Waits until another worker gives back what it holds, but not for one that computes without end, and not long when nobody
// has anything (20 ms: what is on its way between two lists is not seen). A program that goes on asking waits no more for what
// it has waited for in vain, and the latter only for 2% of its time.
void starve(Worker& w) noexcept {
  constexpr std::int64_t kLongestNs = base::kNsPerSecond;
  constexpr std::int64_t kNothingSeenNs = 20 * base::kNsPerMs;
  constexpr std::int64_t kPatience = 50;  // one part of so many
  const std::int64_t begun = base::real_now_ns();
  std::uint64_t seen = ask_for_free(w);
  // Somebody may have given back what was asked for the last time, and what it has now is as much.
  const bool in_vain = seen != 0 && seen == w.starved_seen;
  w.patience_ns = std::min(kNothingSeenNs, w.patience_ns + (begun - w.patient_ns) / kPatience);
  w.patient_ns = begun;
  std::int64_t last_seen = begun;
  for (std::int64_t now = begun; !in_vain; now = base::real_now_ns()) {
    if (now != begun && (seen = ask_for_free(w)) != 0) last_seen = now;
    if (now - begun >= kLongestNs || now - last_seen >= w.patience_ns) break;
    const timespec nap{0, 50'000};
    if (now - begun < base::kNsPerMs)
      sched_yield();
    else
      nanosleep(&nap, nullptr);
    if (finished() || find_free(w)) return;
  }
  // A worker that has spilled since was not seen: what it gave back lies where find_free() looks.
  if (find_free(w)) return;
  w.starved_seen = seen;
  w.patience_ns = std::max<std::int64_t>(0, w.patience_ns - (base::real_now_ns() - last_seen));
}

void refill(Worker& w) noexcept {
  if (!find_free(w) && (the_config.processes > 1 || the_config.workers > 1)) starve(w);
}

// The calling thread, or the end of the job.
void* go_on(Worker& w, Descriptor* self) noexcept { return finished() ? w.os_sp : resume_here(w, self); }

void* op_refill(Worker& w, Descriptor* self, void*) {
  refill(w);
  return go_on(w, self);
}
void* op_spill(Worker& w, Descriptor* self, void*) {
  spill(w);
  return go_on(w, self);
}

// The stack of `d` belongs to `process`, nobody uses it any more.
void free_to(Descriptor* d, int process) noexcept {
  if (the_config.apart && process != the_config.process) return the_config.hooks.free_apart(d, process);
  std::atomic<Descriptor*>& head = the_config.queues[process]->freed;
  Descriptor* old = head.load(std::memory_order_relaxed);
  do {
    d->next = old;
  } while (!head.compare_exchange_weak(old, d, std::memory_order_release, std::memory_order_relaxed));
}

// ------------------------------------------------------------------------------------------------ timers

void run_timers() {
  if (!has_timers()) return;
  State& s = state();
  const std::int64_t now = base::real_now_ns();
  if (now < next_timer_ns.load(std::memory_order_relaxed)) return;
  for (;;) {
    Timer due{};
    s.timers_lock.lock();
    if (!s.timers.empty() && s.timers.front().when_ns <= now) {
      due = s.timers.front();
      std::ranges::pop_heap(s.timers, is_later);
      s.timers.pop_back();
    }
    next_timer_ns.store(s.timers.empty() ? INT64_MAX : s.timers.front().when_ns, std::memory_order_relaxed);
    s.timers_lock.unlock();
    if (!due.thread) return;
    if (!due.expired || due.expired(due.thread, due.tag)) make_ready(due.thread, true);
  }
}

// ------------------------------------------------------------------------------------------------ finding work

// What arrives from other processes is completed by workers that have nothing to run, or come by here.
void poll() {
  if (the_config.hooks.poll) the_config.hooks.poll();
  net::poll_idle_transport();
}

void* to_writable(void* p) { return the_config.hooks.writable(p); }

void start_main(void* object) {
  Start& start = **static_cast<Start**>(object);
  start.invoke(start);
  --current_thread()->pins;
}

// No stack for what was asked for from outside, which waits while others work: asks them now and then.
void beg(const Worker& w) noexcept {
  State& s = state();
  const std::int64_t now = base::real_now_ns();
  std::int64_t since = 0;
  if (s.starved_ns.compare_exchange_strong(since, now, std::memory_order_relaxed)) since = now;
  if (now - s.begged_ns.load(std::memory_order_relaxed) < base::kNsPerMs) return;
  s.begged_ns.store(now, std::memory_order_relaxed);
  ask_for_free(w);
  if (now - since >= base::kNsPerSecond && !s.told_starved.exchange(true, std::memory_order_relaxed))
    base::log_warn("handlers of RPCs wait for the stacks of other threads: a larger AYATORI_SPACE_SIZE has more");
}

// Null: nothing was asked for from outside, or there is no stack for it.
Descriptor* take_start(Worker& w) noexcept {
  State& s = state();
  if (s.starts.load(std::memory_order_relaxed) == 0) return nullptr;  // a hint; idle() looks again
  if (!w.free_threads && !find_free(w)) {
    beg(w);
    return nullptr;
  }
  s.starts_lock.lock();
  Start* const start = s.first_start;
  if (start) {
    s.first_start = start->next;
    s.starts.store(s.starts.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }
  s.starts_lock.unlock();
  if (!start) return nullptr;
  s.starved_ns.store(0, std::memory_order_relaxed);
  const Room room = take_free(w, alignof(Start*), sizeof(Start*));
  AYT_CHECK(room.thread != nullptr, "a free stack has no room for a pointer");
  *static_cast<Start**>(to_writable(room.object)) = start;
  prepare_first(room.thread, &start_main);
  room.thread->join.detach();  // nobody knows it yet
  room.thread->pins = 1;
  room.thread->needs_acquire = start->acquire;
  ++w.counters.forked;
  return room.thread;
}

// Of a thread that was taken from a queue of this process, or null.
Descriptor* bring_stack(Descriptor* d) noexcept {
  if (!d || d->placement == Placement::kBegun) return d;
  (the_config.apart ? the_config.hooks.start_placed : the_config.hooks.bring_placed)(d);
  d->placement = Placement::kBegun;
  return d;
}

// A thread that has not begun, of another process or asked for from outside.
Descriptor* take_new(Worker& w) noexcept {
  if (Descriptor* d = mine().placed.pop()) return bring_stack(d);
  if (Descriptor* d = mine().hinted.pop()) return bring_stack(d);
  return take_start(w);
}

// T5. A high one takes its turn before the others, unless it is theirs.
bool high_has_turn(Worker& w) noexcept { return (++w.high_turns & kHighMask) != 0; }
Descriptor* take_high() noexcept { return high_is_ready() ? bring_stack(mine().high.pop()) : nullptr; }

// The newest of the worker's deque, or null.
Descriptor* take_own(Worker& w) noexcept {
  Descriptor* const d = w.deque.looks_empty() ? nullptr : w.deque.pop();
  if (d) d->ran_on = place_of(the_config.process, w);  // suspended by a fork
  return d;
}

// Suspended by a fork, at `v` of `process`.
Descriptor* steal_from(Worker& v, int process) noexcept {
  Descriptor* const d = v.deque.looks_empty() ? nullptr : v.deque.steal();
  if (d) d->ran_on = place_of(process, v);
  return d;
}

Descriptor* take_from_neighbour(Worker& w) noexcept {
  ProcessQueues& q = mine();
  const auto workers = static_cast<std::uint64_t>(q.workers);
  const std::uint64_t start = next_random(w);
  for (std::uint64_t i = 0; i < workers; ++i) {
    Worker& v = q.worker[(start + i) % workers];
    if (&v == &w) continue;
    if (Descriptor* d = steal_from(v, the_config.process)) return d;
    if (!v.ring.looks_empty())
      if (Descriptor* d = v.ring.pop()) return d;
  }
  return nullptr;
}

Descriptor* steal_near(Worker& w) noexcept {
  Descriptor* const d = take_from_neighbour(w);
  if (d) ++w.counters.steals_local;
  return d;
}

Descriptor* steal_far(Worker& w) noexcept {
  Descriptor* const d = the_config.processes > 1 ? the_config.hooks.steal_remote(w) : nullptr;
  if (d) ++w.counters.steals_remote;
  return d;
}

Descriptor* steal_any(Worker& w) noexcept {
  Descriptor* const d = steal_near(w);
  return d ? d : steal_far(w);
}

// What lies behind others, or under a continuation, at a worker that computes, is not left there by those who always have
// threads of their own.
Descriptor* take_from_others(Worker& w) noexcept {
  const std::uint64_t now = __builtin_ia32_rdtsc();
  if (now - w.looked_near < kNearTicks) return nullptr;
  w.looked_near = now;
  if (now - w.looked_far >= kFarTicks) {
    w.looked_far = now;
    if (Descriptor* d = steal_far(w)) return d;
  }
  return steal_near(w);
}

Descriptor* take_high_first(Worker& w) noexcept {
  if (!high_is_ready() || !high_has_turn(w)) return nullptr;
  if ((w.high_turns & kClockMask) == 0)  // or nobody would come to it where all threads are high
    if (Descriptor* d = take_from_others(w)) return d;
  return take_high();
}

// Takes what this worker or its process has, and, now and then, others: threads that wake each other again and again, or
// yield without end, do not keep anybody from beginning or from going on.
Descriptor* take_ready(Worker& w) noexcept {
  const std::uint32_t takes = ++w.takes;
  if ((takes & kClockMask) == 0)
    if (Descriptor* d = take_from_others(w)) return d;
  if ((takes & kQueuesMask) != 0) {
    if (Descriptor* d = w.ring.pop()) return d;
    if (Descriptor* d = mine().ready.pop()) return d;
    return take_new(w);
  }
  if (Descriptor* d = take_new(w)) return d;
  if (Descriptor* d = mine().ready.pop()) return d;
  return w.ring.pop();
}

bool finds_nothing(const ProcessQueues& q) noexcept {
  for (int i = 0; i < q.workers; ++i)
    if (!q.worker[i].ring.looks_empty()) return false;
  for (const Queue* queue : {&q.high, &q.ready, &q.placed, &q.hinted})
    if (queue->count.load(std::memory_order_seq_cst) != 0) return false;
  return true;
}

// Waits a time that does not depend on how often nothing was found, but not for what has come meanwhile.
void back_off(Worker& w) noexcept {
  constexpr std::int64_t kFixedNs = 20'000;
  const Backoff how = the_config.backoff;
  if (how == Backoff::kNone) return;
  const auto ns = how == Backoff::kFixed ? kFixedNs : static_cast<std::int64_t>(next_random(w) % (2 * kFixedNs + 1));
  const std::int64_t until = base::real_now_ns() + ns;
  while (base::real_now_ns() < until && finds_nothing(mine()) && !finished()) base::cpu_pause();
}

// Waits a little; longer the more often in a row nothing was found. Sleeps in the doorbell after a while.
void idle(Worker& w, std::uint32_t misses) noexcept {
  if (the_config.backoff != Backoff::kSleep) return back_off(w);
  if (misses <= 40) {
    const std::uint32_t pauses = std::min(64u, 8u << std::min(misses / 4, 3u)) + (next_random(w) & 15);
    for (std::uint32_t i = 0; i < pauses; ++i) base::cpu_pause();
    return;
  }
  if (misses <= 80) {
    sched_yield();
    return;
  }
  ProcessQueues& q = mine();
  std::int64_t nap = std::int64_t{50'000} << std::min((misses - 81) / 4, 5u);
  nap = std::min<std::int64_t>(nap, base::kNsPerMs);
  const std::int64_t timer = next_timer_ns.load(std::memory_order_relaxed);
  if (timer != INT64_MAX) nap = std::clamp<std::int64_t>(timer - base::real_now_ns(), 0, nap);
  const std::uint32_t bell = q.doorbell.load(std::memory_order_acquire);
  q.sleepers.fetch_add(1, std::memory_order_seq_cst);  // pairs with the fence in ring()
  if (finds_nothing(q) &&
      (state().starts.load(std::memory_order_seq_cst) == 0 ||
       state().starved_ns.load(std::memory_order_relaxed) != 0) &&
      !finished())
    base::futex_wait(q.doorbell, bell, nap);
  q.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

// ------------------------------------------------------------------------------------------------ native stack

AYT_CROSSES_FIBERS void* native_main(void* argument) {
  Worker& w = *static_cast<Worker*>(argument);
  native::enter(w);
  return native::leave(w, w.operation(w, w.current, w.argument));
}

AYT_CROSSES_FIBERS void* native_call(void* argument) {
  Worker& w = *static_cast<Worker*>(argument);
  native::enter(w);
  w.call(w.argument);
  return native::leave(w, w.current->sp);
}

void* op_end(Worker& w, Descriptor* self, void*) {
  AYT_CHECK(self->pins == 0, "a thread ended while an ayatori::pinned of it was alive");
  self->state = ThreadState::kEnded;
  const bool root = self->root;
  if (the_config.hooks.tick) self->ended = the_config.hooks.tick();
  const std::uint64_t old = self->join.finish(the_config.process);  // from here on `self` may be used again
  if (root) the_config.hooks.root_ended();
  if (old == JoinWord::kDetached) {
    if (self->error) terminate_with(self);
    ++self->generation;  // its number names no thread any more
    push_free(w, self);
    if (keeps_too_many(w)) spill(w);
  } else if (old != JoinWord::kRunning) {
    auto* waiter = reinterpret_cast<Descriptor*>(old);  // NOLINT: J3
    if (waiter->proxy) {
      ++w.counters.joins_remote;
      the_config.hooks.release();
      the_config.hooks.wake_apart(waiter, self);
      return schedule(w);
    }
    if (!waiter->os_thread && the_config.hooks.home(waiter) == the_config.process) {
      if (is_high(waiter) || !high_is_ready()) [[likely]]
        return resume_here(w, waiter);
      put_back(w, waiter);
      return schedule(w);
    }
    ++w.counters.joins_remote;
    if (the_config.joiners_move && !the_config.apart && !waiter->os_thread && waiter->pins == 0) {
      the_config.hooks.bring_placed(waiter);  // in no queue (J3), as a placed thread before its start
      return resume_here(w, waiter);
    }
    make_ready(waiter, false);
  }
  return schedule(w);
}

void* op_join(Worker& w, Descriptor* self, void* argument) {
  auto* child = static_cast<Descriptor*>(argument);
  self->state = ThreadState::kJoining;
  if (self->cancel_point.load(std::memory_order_relaxed)) {
    std::atomic_ref(self->wait_object).store(child, std::memory_order_seq_cst);  // X2 of cancellation.hpp
    if (refuses_to_wait(self)) {
      self->timed_out = true;
      return go_on(w, self);
    }
  }
  set_wait_object(self, child);
  const bool here = !the_config.apart || the_config.hooks.home(child) == the_config.process;
  std::uint64_t word = here ? child->join.load() : JoinWord::kMoved;
  if (word == JoinWord::kRunning) {
    word = child->join.wait(reinterpret_cast<std::uint64_t>(self));  // U2: saved and off its stack
    if (word == JoinWord::kRunning) return schedule(w);
  }
  if (word == JoinWord::kMoved) {
    ++w.counters.joins_remote;
    the_config.hooks.join_apart(self, child);
    return schedule(w);
  }
  if (!JoinWord::is_done(word)) return schedule(w);  // another thread joins it
  const int process = JoinWord::process_of(word);
  if (process != the_config.process) {
    ++w.counters.joins_remote;
    the_config.hooks.pass_from(process, child->ended);
  }
  return go_on(w, self);
}

void* op_yield(Worker& w, Descriptor* self, void*) {
  poll();
  run_timers();
  Descriptor* next = nullptr;
  if ((is_high(self) || high_is_ready()) && high_has_turn(w)) [[unlikely]] {
    next = take_high();
    if (!next && is_high(self)) return go_on(w, self);
  }
  if (!next) next = take_own(w);
  if (!next) next = take_ready(w);
  if (!next && (++w.fruitless_yields & 7) == 0) {
    next = steal_any(w);
    if (!next) sched_yield();
  }
  if (!next || finished()) return go_on(w, self);
  put_back(w, self);
  return resume_here(w, next);
}

void* op_resume_other(Worker& w, Descriptor* self, void* next) {
  put_back(w, self);
  return resume_here(w, static_cast<Descriptor*>(next));
}

void* op_fork_placed(Worker& w, Descriptor* self, void* argument) {
  auto* child = static_cast<Descriptor*>(argument);
  const int process = child->os_process;
  if (the_config.apart && process != the_config.process) {
    the_config.hooks.place_apart(child, process);
    return go_on(w, self);
  }
  push_placed(child, process);
  return go_on(w, self);
}

void* op_sleep(Worker& w, Descriptor* self, void*) {
  self->state = ThreadState::kSleeping;
  add_timer(self, self->deadline_ns, nullptr, 0);
  return schedule(w);
}

[[noreturn]] void end_current() noexcept {
  on_native(&op_end, nullptr);
  __builtin_unreachable();
}

// First function of a thread that is started by a resume.
void resumed_main(void* argument) {
  auto* d = static_cast<Descriptor*>(argument);
  fiber::arrived_thread(*current_worker(), d);
  d->invoke(d->object);
  if (current_thread()->has_values) the_config.hooks.thread_ends();
  end_current();
}

AYT_CROSSES_FIBERS void* worker_main(void* argument) {
  Worker& w = *static_cast<Worker*>(argument);
  fiber::arrived_native(w);
  auto* first = static_cast<Descriptor*>(w.argument);
  void* sp = first ? resume_here(w, first) : schedule(w);
  const bool leaving = sp == w.os_sp;
  if (!leaving && the_config.hooks.user_mode) the_config.hooks.user_mode(true);
  fiber::leave_native(w, leaving);
  return sp;
}

}  // namespace

void configure(const Config& c) {
  the_config = c;
  the_config.done_here = JoinWord::done_at(c.process);
}

namespace {
struct Aside {
  void* caller;  // its saved context
  Descriptor* parent;
};
void* look_aside(void* argument) {
  const Aside& aside = *static_cast<Aside*>(argument);
  if (the_config.hooks.user_mode) the_config.hooks.user_mode(false);
  the_config.hooks.out_of_stack(aside.parent, aside.parent->sp);
  if (the_config.hooks.user_mode) the_config.hooks.user_mode(true);
  return aside.caller;
}
// On the child's stack, the parent being current: what call_on_native() saves would take the place of its context.
[[gnu::noinline, gnu::cold]] void fork_out_of_stack(Descriptor* parent) noexcept {
  if constexpr (fiber::kActive) return;
  Aside aside{nullptr, parent};
  ayt_switch_call(&aside.caller, current_worker()->native_sp, &look_aside, &aside);
}
}  // namespace

AYT_CROSSES_FIBERS void* child_main(void* argument) {
  Worker* const started_on = current_worker();
  // What is not needed after the call is not kept over it: a fork saves and restores few registers.
  const auto index = [](Worker* w, Descriptor* child) {
    fiber::arrived_thread(*w, child);
    Descriptor* parent = w->current;
    if (is_out_of_stack(parent)) [[unlikely]]
      fork_out_of_stack(parent);
    save_private(*w, parent);
    if (parent->eh_caught || parent->eh_uncaught) [[unlikely]] {
      *w->eh = {nullptr, 0};
      child->parent_handles = true;
    }
    w->current = child;
    const auto pushed = w->deque.push(parent);  // U2
    child->invoke(child->object);
    return pushed;
  }(started_on, static_cast<Descriptor*>(argument));
  Worker* w = current_worker();
  Descriptor* child = w->current;
  if (child->has_values) [[unlikely]] {
    the_config.hooks.thread_ends();
    w = current_worker();
    child = w->current;
  }
  // Nobody took the parent's continuation, so nobody can wait for this thread: no atomic exchange (U3, D3). Sound
  // because a worker leaves a thread that is no child of the caller's only with an empty deque.
  if (w == started_on && !child->handed_out) {
    if (Descriptor* parent = w->deque.pop_newest(index)) {
      child->join.finish_unstolen(the_config.done_here);
      w->current = parent;
      // An ended thread leaves the exception globals empty; errno after a call is anybody's.
      if (child->parent_handles) [[unlikely]]
        *w->eh = {parent->eh_caught, parent->eh_uncaught};
      fiber::end_thread_to(*w, child, parent);
      return parent->sp;
    }
  }
  end_current();
}

bool on_user_thread() noexcept { return on_user_stack(); }

Worker& worker_of(int number) noexcept { return mine().worker[number]; }

namespace {
void look_where_it_was(const Worker& w, Descriptor* d) noexcept {
  const std::int32_t there = std::exchange(d->ran_on, place_of(the_config.process, w));
  if (there >= 0 && there != d->ran_on) the_config.hooks.moved(d, there / kMaxWorkers, there % kMaxWorkers);
}
}  // namespace

void* resume_here(Worker& w, Descriptor* d) noexcept {
  if (d->needs_acquire) {
    d->needs_acquire = false;
    the_config.hooks.acquire();
  }
  if (the_config.hooks.moved) [[unlikely]]
    look_where_it_was(w, d);
  w.current = d;
  d->state = ThreadState::kRunning;
  *w.eh = {d->eh_caught, d->eh_uncaught};
  *w.errno_address = d->saved_errno;
  if (d->fault_frame) [[unlikely]]
    return park::resume(w, d);
  return d->sp;
}

void ring(int process) noexcept {
  ProcessQueues& q = *the_config.queues[process];
  // seq_cst: after the push that precedes, against idle()'s increment of sleepers before its last look (no
  // fence: ThreadSanitizer does not know them)
  if (q.sleepers.fetch_add(0, std::memory_order_seq_cst) == 0) return;
  q.doorbell.fetch_add(1, std::memory_order_release);
  base::futex_wake(q.doorbell, 1);
}

void make_ready(Descriptor* d, bool released) noexcept {
  if (d->proxy) {
    if (!released) the_config.hooks.release();
    the_config.hooks.wake_apart(d, nullptr);
    return;
  }
  if (d->os_thread) {
    if (d->os_process != the_config.process && !released) the_config.hooks.release();
    d->os_wake.store(1, std::memory_order_release);  // pairs with the waiter's acquire load
    base::futex_wake(d->os_wake, 1);
    return;
  }
  const int home = the_config.hooks.home(d);
  if (home != the_config.process) {
    if (!released) the_config.hooks.release();
    d->needs_acquire = true;
  }
  // A fault handler, on its own stack, may have interrupted whoever adds to the ring (R1).
  Worker* const w = home == the_config.process ? current_worker() : nullptr;
  if (w && is_on_native(*w)) return put_back(*w, d);
  d->state = ThreadState::kReady;
  ProcessQueues& q = *the_config.queues[home];
  (is_high(d) ? q.high : q.ready).push(d);
  ring(home);
}

void push_placed(Descriptor* child, int process) noexcept {
  ProcessQueues& q = *the_config.queues[process];
  (is_high(child) ? q.high : child->placement == Placement::kHinted ? q.hinted : q.placed).push(child);
  ring(process);
}

void* schedule(Worker& w) noexcept { return native::schedule(w); }

void* native::schedule_slowly(Worker& w) noexcept {
  w.current = nullptr;
  std::int64_t idle_since = 0;
  for (std::uint32_t misses = 0;; ++misses) {
    if (finished()) return w.os_sp;
    if (keeps_too_many(w)) [[unlikely]]
      spill(w);
    // Who waits for a time is not kept waiting by those who always find work.
    run_timers();
    if ((++w.schedules & 15) == 0) net::poll_idle_transport();
    Descriptor* d = take_high_first(w);
    if (!d) d = take_own(w);
    if (!d) d = take_ready(w);
    if (!d) d = take_high();
    if (!d) {
      poll();
      d = steal_any(w);
    }
    if (d) {
      if (idle_since != 0) w.counters.idle_ns += static_cast<std::uint64_t>(base::real_now_ns() - idle_since);
      return resume_here(w, d);
    }
    if (idle_since == 0) idle_since = base::real_now_ns();
    if (misses == 80) {
      if (w.free_count != 0) give_back(w, 0);
      if (the_config.hooks.tidy) the_config.hooks.tidy();
    }
    idle(w, misses);
  }
}

Descriptor* take_across(int victim, std::uint64_t start) noexcept {
  ProcessQueues& q = *the_config.queues[victim];
  const auto workers = static_cast<std::uint64_t>(q.workers);
  const auto pass = [&q, victim](Descriptor* d) {
    d->state = ThreadState::kReady;
    (is_high(d) ? q.high : q.ready).push(d);
    ring(victim);
  };
  const auto may_leave = [](const Descriptor* d) { return d->pins == 0 && d->placement != Placement::kPlaced; };
  if (Descriptor* d = q.high.pop_if(may_leave)) return d;
  for (std::uint64_t i = 0; i < workers; ++i) {
    Worker& v = q.worker[(start + i) % workers];
    // A pinned thread would hide the younger ones for as long as its worker computes: it goes where its own process
    // finds it, as if a neighbour had taken it.
    while (Descriptor* d = steal_from(v, victim)) {
      if (d->pins == 0) return d;
      pass(d);
    }
    while (Descriptor* d = v.ring.looks_empty() ? nullptr : v.ring.pop()) {
      if (d->pins == 0) return d;
      pass(d);
    }
  }
  if (Descriptor* d = q.ready.pop_if(may_leave)) return d;
  return q.hinted.pop();
}

bool worth_a_look(int victim) noexcept {
  ProcessQueues& q = *the_config.queues[victim];
  for (const Queue* queue : {&q.high, &q.ready, &q.hinted})
    if (queue->count.load(std::memory_order_relaxed) != 0) return true;
  for (int i = 0; i < q.workers; ++i)
    if (!q.worker[i].deque.looks_empty() || !q.worker[i].ring.looks_empty()) return true;
  return false;
}

void on_native(Operation op, void* argument) noexcept {
  Worker* w = current_worker();
  Descriptor* self = w->current;
  save_private(*w, self);
  w->operation = op;
  w->argument = argument;
  fiber::leave_thread(*w, self, op == &op_end);
  ayt_switch_call(&self->sp, w->native_sp, &native_main, w);
  fiber::arrived_thread(*current_worker(), self);
}

void run_worker(int number, Descriptor* first) {
  Worker& w = mine().worker[number];
  w.number = number;
  w.eh = reinterpret_cast<EhGlobals*>(abi::__cxa_get_globals());
  w.errno_address = &errno;
  w.random = 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(the_config.process * kMaxWorkers + number + 1);
  void* low = mmap(nullptr, kNativeStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  AYT_CHECK(low != MAP_FAILED, "no memory for a worker's native stack");
  mprotect(low, 4096, PROT_NONE);
  w.native_low = low;
  w.native_bytes = kNativeStackBytes;
  w.native_sp = static_cast<std::byte*>(low) + kNativeStackBytes;
  const unsigned valgrind_stack = base::valgrind::add_stack(low, kNativeStackBytes);
  w.argument = first;
  park::prepare(w);
  ayt_worker = &w;
  base::set_worker(number);
  const EhGlobals before = *w.eh;
  const std::int64_t start = base::real_now_ns();
  fiber::leave_os(w);
  ayt_switch_call(&w.os_sp, w.native_sp, &worker_main, &w);
  fiber::arrived_os(w);
  w.counters.compute_ns += static_cast<std::uint64_t>(base::real_now_ns() - start);  // less idle and steal: snapshot
  *w.eh = before;
  ayt_worker = nullptr;
  base::set_worker(-1);
  park::release(w);
  base::valgrind::remove_stack(valgrind_stack);
  munmap(low, kNativeStackBytes);
}

Room slow::allocate(std::size_t align, std::size_t bytes) noexcept {
  on_native(&op_refill, nullptr);
  return take_free(*current_worker(), align, bytes);
}

Room allocate_first(Worker& w, std::size_t align, std::size_t bytes) noexcept {
  refill(w);
  return take_free(w, align, bytes);
}

void abandon(Descriptor* d) noexcept {
  if (d->stack_process == the_config.process)
    push_free(*current_worker(), d);
  else
    free_to(d, d->stack_process);
}

namespace {
void* op_bring(Worker& w, Descriptor* self, void* argument) {
  the_config.hooks.bring_placed(static_cast<Descriptor*>(argument));
  return resume_here(w, self);
}
}  // namespace

// The caller moved to another process after it allocated the child (a copied argument's constructor waited): the child's
// stack follows.
void slow::bring(Descriptor* child) noexcept {
  child->sp = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(child->object) & ~std::uintptr_t{15});  // NOLINT
  on_native(&op_bring, child);
  child->stack_process = the_config.process;
}

void fork_placed(Descriptor* child, void (*invoke)(void*), int process, Placement placement) noexcept {
  Worker* w = current_worker();
  ++w->counters.forked;
  if (child->stack_process != the_config.process) [[unlikely]]
    slow::bring(child);
  child->os_process = process;
  child->placement = placement;
  prepare_first(child, invoke);
  on_native(&op_fork_placed, child);
}

void prepare_first(Descriptor* d, void (*invoke)(void*)) noexcept {
  d->invoke = invoke;
  d->eh_caught = nullptr;
  d->eh_uncaught = 0;
  d->saved_errno = 0;
  d->needs_acquire = false;
  d->ran_on = -1;  // nowhere yet
  const auto top = reinterpret_cast<std::uintptr_t>(d->object) & ~std::uintptr_t{15};
  d->sp = make_context(reinterpret_cast<void*>(top), &resumed_main, d, &to_writable);  // NOLINT
  base::valgrind::make_defined(d->sp, top - reinterpret_cast<std::uintptr_t>(d->sp));  // through another view
}

bool slow::join(Descriptor* child) noexcept {
  if (child == current_thread()) return false;
  on_native(&op_join, child);
  // What the child left came with the message that woke this thread, wherever it runs by now.
  Descriptor* const self = current_thread();
  if (self->joined != 0) [[unlikely]] {
    child->error = self->joined_error;
    child->result = self->joined_result;
    child->join.finish_unstolen(self->joined);
    self->joined = 0;
  }
  return true;
}

void reap(Descriptor* child) noexcept {
  const std::uint64_t word = child->join.load();
  if (word != JoinWord::done_at(the_config.process)) return free_to(child, JoinWord::process_of(word));
  Worker* w = current_worker();
  push_free(*w, child);
  if (keeps_too_many(*w)) on_native(&op_spill, nullptr);
}

void free_thread(Descriptor* d) noexcept { free_to(d, the_config.process); }

void terminate_with(Descriptor* d) noexcept {
  try {
    std::rethrow_exception(*reinterpret_cast<std::exception_ptr*>(&d->error));
  } catch (...) {
    std::terminate();
  }
}

bool detach(Descriptor* child) noexcept {
  const bool here = !the_config.apart || the_config.hooks.home(child) == the_config.process;
  const std::uint64_t word = here ? child->join.detach() : JoinWord::kMoved;
  if (word == JoinWord::kMoved) {
    the_config.hooks.detach_apart(child);
    return true;
  }
  if (!JoinWord::is_done(word)) return true;
  if (child->error) return false;
  ++child->generation;
  free_to(child, JoinWord::process_of(word));
  return true;
}

void end_thread() noexcept { end_current(); }

void yield() noexcept {
  Worker* const w = current_worker();
  // Every now and then the others have their turn: who begins, who was woken from elsewhere, what has arrived.
  Descriptor* const next = fiber::kActive || is_high(w->current) ? nullptr : take_next(*w, kQueuesMask);
  if (!next) return on_native(&op_yield, nullptr);
  if (next->needs_acquire || next->fault_frame) return on_native(&op_resume_other, next);
  Descriptor* const self = w->current;
  save_private(*w, self);
  self->state = ThreadState::kReady;
  next->state = ThreadState::kRunning;
  ayt_switch_next(self, next, w);  // there is room in the ring: one was taken
}

// Less than on_native(): the thread is not left, so what it has in common with its worker stays there.
void call_on_native(void (*f)(void*), void* argument) noexcept {
  Worker* const w = current_worker();
  Descriptor* const self = w->current;
  const int error = *w->errno_address;
  w->call = f;
  w->argument = argument;
  fiber::leave_thread(*w, self, false);
  ayt_switch_call(&self->sp, w->native_sp, &native_call, w);
  fiber::arrived_thread(*w, self);
  *w->errno_address = error;
}

void sleep(std::int64_t ns) noexcept {
  if (ns <= 0) return yield();
  const std::int64_t now = base::real_now_ns();
  current_thread()->deadline_ns = ns > INT64_MAX - now ? INT64_MAX : now + ns;
  on_native(&op_sleep, nullptr);
}

void add_timer(Descriptor* d, std::int64_t when_ns, bool (*expired)(Descriptor*, std::uint64_t), std::uint64_t tag) {
  State& s = state();
  s.timers_lock.lock();
  s.timers.push_back({when_ns, d, expired, tag});
  std::ranges::push_heap(s.timers, is_later);
  if (when_ns < next_timer_ns.load(std::memory_order_relaxed)) next_timer_ns.store(when_ns, std::memory_order_relaxed);
  s.timers_lock.unlock();
}

void start_here(Start& start) noexcept {
  State& s = state();
  start.next = nullptr;
  s.starts_lock.lock();
  (s.first_start ? s.last_start->next : s.first_start) = &start;
  s.last_start = &start;
  s.starts.store(s.starts.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // ring() orders it
  s.starts_lock.unlock();
  ring(the_config.process);
}

bool upper_first() noexcept {
  if (2 * the_config.process < the_config.processes) return false;
  const Worker* w = current_worker();
  return w && w->deque.looks_empty();
}

void end_cancelled_join(Descriptor* d) noexcept {
  auto* const child = static_cast<Descriptor*>(std::atomic_ref(d->wait_object).load(std::memory_order_seq_cst));  // X2
  if (child < the_config.threads || child >= the_config.threads + the_config.thread_count) return;
  const auto waiter = reinterpret_cast<std::uintptr_t>(d);
  for (;;) {
    const std::uint64_t word = child->join.load();
    if (word == waiter && child->join.leave_wait(waiter) == JoinWord::kRunning) break;
    if (word != waiter && word != JoinWord::kRunning) return;                            // ended, or left
    if (the_config.apart && the_config.hooks.home(child) != the_config.process) return;  // another one has its word
    // It is about to wait there, or does so no more.
    if (std::atomic_ref(d->wait_object).load(std::memory_order_acquire) != child ||
        !d->cancel_point.load(std::memory_order_relaxed))
      return;
    sched_yield();
  }
  // X3. It may have gone on and come back meanwhile, by a wait that nobody may end.
  if (refuses_to_wait(d)) {
    d->timed_out = true;
    return make_ready(d, true);
  }
  const std::uint64_t word = child->join.wait(waiter);
  if (word == JoinWord::kRunning) return;
  if (word == JoinWord::kMoved) return the_config.hooks.join_apart(d, child);
  const int process = JoinWord::process_of(word);
  if (process != the_config.process) the_config.hooks.pass_from(process, child->ended);
  make_ready(d, false);
}

bool nothing_to_steal() noexcept {
  const Worker* w = current_worker();
  return !w || w->deque.looks_empty();
}

std::uint64_t number_of(const Descriptor* d) noexcept {
  return (static_cast<std::uint64_t>(d->generation) << 32) | (d->slot + 1);
}

}  // namespace ayatori::ult
