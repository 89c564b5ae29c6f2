// SPDX-License-Identifier: Apache-2.0
#include "tasks/runtime.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/knobs.hpp"
#include "gas/heap.hpp"
#include "net/bootstrap/barrier.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "tasks/binding.hpp"
#include "tasks/dump.hpp"
#include "tasks/keys.hpp"
#include "tasks/overflow.hpp"
#include "tasks/remote.hpp"
#include "tasks/victims.hpp"
#include "tasks/waits.hpp"
#include "ult/current.hpp"
#include "ult/fiber.hpp"
#include "ult/native.hpp"
#include "ult/park.hpp"

namespace ayatori::tasks {

namespace {

using ult::Descriptor;
using ult::ProcessQueues;
using ult::Worker;
namespace boot = net::bootstrap;

constexpr std::int64_t kLeaveNs = 2 * base::kNsPerSecond;  // members wait for each other at the end

// Who has more spare stacks than this, has too many: they are taken rather than fresh ones. What was allocated here and ended
// there comes back, or a process that places threads elsewhere, or whose threads are stolen, would need new stacks for ever.
// Where they are small, there and here, they cost less memory than it costs both processes to pass them on.
constexpr std::uint32_t kSurplus = 512, kSurplusOfSmall = 4096;
std::uint32_t surplus_of(int process) noexcept {
  return std::max(dsm::usual_stack_pages(), dsm::usual_stack_pages(process)) <= 2 ? kSurplusOfSmall : kSurplus;
}

// In memory mapped by all.
struct Shared {
  std::atomic<std::uint32_t> finished{0};
  std::atomic<std::uint32_t> overflowed{0};   // threads
  std::atomic<std::uint32_t> stacks_left{0};  // with memory at a process that does not hold them; a number alone
};

// Private to the process but for what the pointers lead to.
struct State {
  Shared* shared = nullptr;
  ProcessQueues* queues[gas::kMaxProcesses] = {};
  Descriptor* threads = nullptr;
  std::uint8_t* left_memory = nullptr;  // a slot each: counted in stacks_left; written by who takes the free stack
  std::atomic<Descriptor*>* rings[gas::kMaxProcesses] = {};
  std::uint64_t ring_capacity = 0;
  std::optional<RealFences> fences;
  int self = 0, processes = 1, workers = 1;
  void (*worker_enters)(int worker) = nullptr;  // Constant after attach(), as the next one.
  Peers peers;
  Victims victims[ult::kMaxWorkers];
  Root root = {};
  // Numbers alone; surplus_apart(), any_apart().
  std::atomic<std::uint32_t> ask_at{2 * kSurplus};
  std::atomic<std::int64_t> asked_ns{0};
  std::atomic<std::uint32_t> turn{0};  // released()
  std::atomic<bool> running{false};
  std::atomic<bool> left{false};
  void (*completes)() = nullptr;  // what arrives from other processes; null: nothing ever does
};
State& state() noexcept {
  static State s;
  return s;
}

int home_of(const Descriptor* d) {
  const auto slot = static_cast<gas::SlotIndex>(d - state().threads);                    // d->slot may be unknown here
  return static_cast<int>(gas::slot_entry(slot).owner.load(std::memory_order_acquire));  // R2
}

// Who releases another process compares all that this has dirty. What it has not written for long it should drop, which only its
// own threads can: one of its workers is asked to its native stack (T4), another one each time.
void released(int process) {
  State& s = state();
  if (process == s.self || !dsm::has_idle_stack_pages(process)) return;
  ProcessQueues& q = *s.queues[process];
  const auto turn = s.turn.fetch_add(1, std::memory_order_relaxed) % static_cast<std::uint32_t>(q.workers);
  q.worker[turn].keep.store(0, std::memory_order_relaxed);
}

void* writable(void* stack_address) { return gas::system_view(state().self) + gas::offset_of(stack_address); }

// The used part of a stack that has come here becomes resident, and where its last page has little room for the next calls, two more.
constexpr std::size_t kRoomForCalls = 1024;
void map_stack(gas::SlotIndex slot, gas::PageIndex first_used, gas::PageIndex end) {
  const gas::PageIndex low = gas::slot_first(slot) + static_cast<gas::PageIndex>(dsm::kGuardPages);
  const auto room = reinterpret_cast<std::uintptr_t>(state().threads[slot].sp) % gas::kPageBytes;
  const gas::PageIndex below = room >= kRoomForCalls ? 0 : 2;
  const gas::PageIndex first = first_used >= low + below ? first_used - below : low;
  if (first < end) dsm::engine().map_write(first, end - first);
}

void bring_placed(Descriptor* d);

Descriptor* steal_remote(Worker& w) {
  State& s = state();
  const int victim = next_victim(w);
  if (victim < 0) return nullptr;
  if (!ult::worth_a_look(victim)) return nullptr;
  const std::int64_t start = base::real_now_ns();
  Descriptor* taken = nullptr;
  s.fences->steal(
      victim, s.self,
      [&](gas::SlotIndex* slot, gas::PageIndex* first_used) {
        taken = ult::take_across(victim, w.random >> 40);
        if (!taken || taken->placement != ult::Placement::kBegun) return false;
        *slot = taken->slot;
        *first_used = gas::page_of(taken->sp);
        return true;
      },
      map_stack);
  if (taken) released(victim);
  if (taken && taken->placement != ult::Placement::kBegun) {
    bring_placed(taken);  // its stack is with who made it
    taken->placement = ult::Placement::kBegun;
  }
  w.counters.steal_ns += static_cast<std::uint64_t>(base::real_now_ns() - start);
  asked_victim(w, victim, taken != nullptr);
  if (taken) taken->needs_acquire = false;
  return taken;
}

void bring_placed(Descriptor* d) {
  State& s = state();
  const int from = home_of(d);
  if (from == s.self) return;
  s.fences->steal(
      from, s.self,
      [&](gas::SlotIndex* slot, gas::PageIndex* first_used) {
        *slot = d->slot;
        *first_used = gas::page_of(d->sp);
        return true;
      },
      map_stack);
}

ult::Backoff backoff_of(std::string_view name) noexcept {
  return name == "none"     ? ult::Backoff::kNone
         : name == "fixed"  ? ult::Backoff::kFixed
         : name == "random" ? ult::Backoff::kRandom
                            : ult::Backoff::kSleep;
}

// Of each process; of a process's own ones all that were ever used, in powers of two.
constexpr std::uint32_t kThreadsInCore = 16;
constexpr std::size_t kRingInCore = 1'024;  // entries of a deque

// What a core file of this process has of the threads that began at `process`: the first `count`.
void threads_in_core(int process, std::uint32_t count) noexcept {
  const gas::Layout& l = gas::layout();
  count = std::min(count, l.slots_per_process);
  const auto first = static_cast<gas::SlotIndex>(process) * l.slots_per_process;
  gas::in_core(&state().threads[first], count * sizeof(Descriptor));
  gas::in_core(gas::user_view() + (std::size_t{first} * l.slot_pages << gas::kPageShift),
               std::size_t{count} * l.slot_pages << gas::kPageShift);
}

// Up to `count` stacks of a process's own range that nobody ever used.
Descriptor* fresh_threads(int process, std::uint32_t count) {
  State& s = state();
  ProcessQueues& q = *s.queues[process];
  const gas::Layout& l = gas::layout();
  q.slots_lock.lock();
  const std::uint32_t from = q.next_fresh_slot;
  count = std::min(count, l.slots_per_process - from);
  q.next_fresh_slot = from + count;
  q.slots_lock.unlock();
  const std::uint32_t in_core = std::bit_ceil(std::max(from, kThreadsInCore));
  if (process == s.self && from + count > in_core) threads_in_core(process, std::bit_ceil(from + count));
  Descriptor* list = nullptr;
  for (std::uint32_t i = count; i-- > 0;) {
    const gas::SlotIndex slot = static_cast<gas::SlotIndex>(process) * l.slots_per_process + from + i;
    gas::slot_entry(slot).owner.store(static_cast<std::uint32_t>(process), std::memory_order_release);
    Descriptor* d = &s.threads[slot];
    d->slot = slot;
    d->stack_top = fresh_stack_top(slot);
    d->next = list;
    list = d;
  }
  return list;
}

// Up to `count` free stacks of a process that are in no worker's list, of those beyond `leave`.
Descriptor* spare_threads(int process, std::uint32_t count, std::uint32_t leave) {
  ProcessQueues& q = *state().queues[process];
  if (q.spare_count == 0 && !q.freed.load(std::memory_order_relaxed)) return nullptr;  // a hint
  Descriptor* list = nullptr;
  q.slots_lock.lock();
  // acquire: pairs with the release exchange in free_to()
  for (Descriptor* d = q.freed.exchange(nullptr, std::memory_order_acquire); d;) {
    Descriptor* next = d->next;
    d->next = q.spare_threads;
    q.spare_threads = d;
    ++q.spare_count;
    d = next;
  }
  for (; count > 0 && q.spare_count > leave; --count) {
    Descriptor* d = q.spare_threads;
    q.spare_threads = d->next;
    --q.spare_count;
    d->next = list;
    list = d;
  }
  q.slots_lock.unlock();
  return list;
}

// Memory of so many stacks stays at processes that held them before, which may get them again; that of others is given back.
constexpr std::uint32_t kLeftStacks = 4096;

// Of the stack of a free thread that `from` has held.
void free_memory_left(const Descriptor* d, int from) {
  const State& s = state();
  if (s.left_memory[d->slot] != 0) return;
  std::atomic<std::uint32_t>& left = s.shared->stacks_left;
  if (left.load(std::memory_order_relaxed) < kLeftStacks) {
    left.fetch_add(1, std::memory_order_relaxed);
    s.left_memory[d->slot] = 1;
  } else {
    gas::punch(from, gas::slot_first(d->slot), gas::layout().slot_pages);
  }
}

// The stack of a free thread changes hands.
void take_over(const Descriptor* d, int from) {
  const int self = state().self;
  base::SharedLock& first = dsm::protocol().process(std::min(from, self)).lock;
  base::SharedLock& second = dsm::protocol().process(std::max(from, self)).lock;
  first.lock();
  second.lock();
  dsm::protocol().take_dead_slot(d->slot, from, self);
  second.unlock();
  first.unlock();
}

// What find(process) gives, of the first other process that has some; `used`: they may have memory there.
template <class F>
Descriptor* of_others(bool used, F&& find) {
  const State& s = state();
  for (int step = 1; step < s.processes; ++step) {
    const int other = (s.self + step) % s.processes;
    Descriptor* const list = find(other);
    for (Descriptor* d = list; d; d = d->next) {
      if (used) free_memory_left(d, other);
      take_over(d, other);
    }
    if (list) return list;
  }
  return nullptr;
}

// Where processes share no memory they are asked, which takes a while: for what they have too many of whenever an eighth more
// fresh stacks are in use than at the last time in vain; and for any not more often than each millisecond.
template <class F>
Descriptor* asked_of_others(F&& ask) {
  const State& s = state();
  for (int step = 1; step < s.processes; ++step)
    if (Descriptor* const list = ask((s.self + step) % s.processes)) return list;
  return nullptr;
}
Descriptor* surplus_apart(std::uint32_t count) {
  State& s = state();
  const std::uint32_t used =
      std::atomic_ref(s.queues[s.self]->next_fresh_slot).load(std::memory_order_relaxed);  // a hint
  if (used < s.ask_at.load(std::memory_order_relaxed)) return nullptr;
  Descriptor* const list = asked_of_others([count](int p) { return remote::spare_threads(p, count, true); });
  if (!list) s.ask_at.store(used + used / 8, std::memory_order_relaxed);
  return list;
}
Descriptor* any_apart(std::uint32_t count) {
  State& s = state();
  if (base::real_now_ns() - s.asked_ns.load(std::memory_order_relaxed) < base::kNsPerMs) return nullptr;
  Descriptor* const list = asked_of_others([count](int p) { return remote::spare_threads(p, count, false); });
  if (!list) s.asked_ns.store(base::real_now_ns(), std::memory_order_relaxed);
  return list;
}

// The topmost pages of each, which its thread is about to use, without a fault. Not with mprotect, which maps whole stacks: who
// leaves his own downwards is to be found on one that nobody uses. Nobody else knows of stacks that are `fresh`: thieves do not
// wait while these are mapped.
void map_tops(const Descriptor* list, bool fresh) {
  if (state().processes == 1 || gas::apart() || std::strcmp(dsm::engine().name, "uffd") != 0) return;
  const std::size_t pages = dsm::usual_stack_pages();
  base::SharedLock& lock = dsm::protocol().process(state().self).lock;
  for (const Descriptor* d = list; d; d = d->next) {
    const gas::PageIndex first = gas::slot_first(d->slot + 1) - static_cast<gas::PageIndex>(pages);
    if (fresh) {
      dsm::engine().map_fresh(first, pages);
    } else {
      lock.lock();
      dsm::engine().map_write(first, pages);
      lock.unlock();
    }
  }
}

// What others have too many of first, then the process's own fresh stacks, then what others gave back, then what others never
// used.
Descriptor* more_threads(std::uint32_t count) {
  State& s = state();
  bool fresh = false;
  const auto own = [&] {
    Descriptor* const mine = fresh_threads(s.self, count);
    fresh = mine != nullptr;
    return mine;
  };
  Descriptor* list = nullptr;
  if (remote::active()) {
    list = surplus_apart(count);
    if (!list) list = own();
    if (!list) list = any_apart(count);
  } else {
    list = of_others(true, [count](int other) { return spare_threads(other, count, surplus_of(other)); });
    if (!list) list = own();
    if (!list) list = of_others(true, [count](int other) { return spare_threads(other, count, 0); });
    if (!list) list = of_others(false, [count](int other) { return fresh_threads(other, count); });
  }
  for (Descriptor* d = list; d; d = d->next)
    dsm::engine().guard(gas::slot_first(d->slot), dsm::kGuardPages, gas::layout().slot_pages);
  map_tops(list, fresh);
  return list;
}

// Process p is told that the job has finished; its queues are mapped here.
void wake_all_of(int p) {
  ProcessQueues& q = *state().queues[p];
  // Who forks and joins without end comes to its native stack, and sees the end there (T4).
  for (int i = 0; i < q.workers; ++i) q.worker[i].keep.store(0, std::memory_order_relaxed);
  q.doorbell.fetch_add(1, std::memory_order_release);
  base::futex_wake(q.doorbell, base::kAllWaiters);
}

void root_ended() {
  State& s = state();
  if (remote::active()) {
    remote::tell_finished();
    finish_here();
    return;
  }
  s.shared->finished.store(1, std::memory_order_seq_cst);
  for (int p = 0; p < s.processes; ++p) wake_all_of(p);
}

void root_main(void* object) {
  State& s = state();
  // The strings are copied into the space, so that they can be read on every process whatever main did to them.
  const auto n = static_cast<std::size_t>(s.root.argc);
  std::size_t bytes = (n + 1) * sizeof(char*);
  for (std::size_t i = 0; i < n; ++i) bytes += std::strlen(s.root.argv[i]) + 1;
  auto** argv = static_cast<char**>(::operator new(bytes));
  char* at = reinterpret_cast<char*>(argv + n + 1);
  for (std::size_t i = 0; i < n; ++i) {
    argv[i] = at;
    at = stpcpy(at, s.root.argv[i]) + 1;
  }
  argv[n] = nullptr;
  const int argc = s.root.argc;
  const auto destroy = s.root.destroy;
  const int status =
      s.root.invoke(s.root.call, object, argc, argv);  // may return on another process: `s` is that process's then
  destroy(object);
  boot::set_result(status);
}

// Over a network processes of other machines are further away.
Peers find_peers() noexcept {
  Peers peers;
  const boot::Job& job = boot::job();
  const auto host_of = [&job](int p) { return std::string_view(job.control->cards[p].host); };
  for (int p = 0; p < job.processes(); ++p) {
    if (p == job.number()) continue;
    const bool here = !job.is_wide() || host_of(p) == host_of(job.number());
    (here ? peers.here : peers.beyond) |= std::uint64_t{1} << p;
  }
  return peers;
}

// Ends the member when a worker does not come back from a detached thread that goes on computing.
void watch_end(pthread_t) {
  const std::int64_t deadline = base::real_now_ns() + 500 * base::kNsPerMs;
  while (!state().left.load(std::memory_order_acquire)) {
    if (base::real_now_ns() > deadline) {
      int status = 0;
      boot::get_result(status);
      std::fflush(nullptr);
      boot::barrier_wait(*boot::job().control, kLeaveNs);  // the others wait in it
      boot::set_phase(boot::Phase::kFinished);
      remote::mark_left();
      _exit(status & 0xff);
    }
    const timespec nap{0, 2'000'000};
    nanosleep(&nap, nullptr);
  }
}

}  // namespace

std::byte* fresh_stack_top(gas::SlotIndex slot) noexcept {
  // Stacks begin at different offsets of their pages, or all would share the same cache sets.
  return gas::user_view() + (std::size_t{slot} + 1) * (gas::layout().slot_pages << gas::kPageShift) - (slot % 8) * 256;
}

int next_victim(Worker& w) noexcept {
  w.random = w.random * 6364136223846793005ULL + 1442695040888963407ULL;
  const std::uint64_t high = w.random >> 32;  // the lower bits repeat soon
  return state().victims[w.number].next(state().peers, high << 32 | (high * 0x9e3779b1 & 0xffffffff));
}

void asked_victim(const Worker& w, int victim, bool found) noexcept {
  state().victims[w.number].asked(state().peers, victim, found);
}

Descriptor* own_spare_threads(std::uint32_t count) {
  Descriptor* const list = spare_threads(state().self, count, 0);
  return list ? list : fresh_threads(state().self, count);
}

Descriptor* own_surplus_threads(std::uint32_t count) { return spare_threads(state().self, count, kSurplus); }

void finish_here() noexcept {
  state().shared->finished.store(1, std::memory_order_seq_cst);
  wake_all_of(state().self);
}

RealFences& fences() noexcept { return *state().fences; }
int self() noexcept { return state().self; }
int processes() noexcept { return state().processes; }
int workers() noexcept { return state().workers; }
bool finished() noexcept { return state().shared->finished.load(std::memory_order_acquire) != 0; }
bool first_to_overflow() noexcept { return state().shared->overflowed.fetch_add(1, std::memory_order_relaxed) == 0; }
bool running() noexcept { return state().running.load(std::memory_order_relaxed); }

void reserve(int processes) {
  State& s = state();
  s.processes = processes;
  s.shared = new (gas::shared_map(sizeof(Shared), "the job's state")) Shared;
  const gas::Layout& l = gas::layout();
  s.threads = static_cast<Descriptor*>(gas::shared_map(sizeof(Descriptor) * l.slots, "thread descriptors"));
  s.left_memory = static_cast<std::uint8_t*>(gas::shared_map(l.slots, "notes on stacks"));
  s.ring_capacity = 64;
  while (s.ring_capacity < l.slots) s.ring_capacity *= 2;
  for (int p = 0; p < processes; ++p) {
    s.queues[p] = static_cast<ProcessQueues*>(
        gas::shared_map(sizeof(ProcessQueues) + ult::kMaxWorkers * sizeof(Worker), "the queues of a process"));
    s.rings[p] = static_cast<std::atomic<Descriptor*>*>(
        gas::shared_map(ult::kMaxWorkers * s.ring_capacity * sizeof(void*), "the deques of a process"));
  }
}

void attach(int self, int workers, const Watch& watch) {
  State& s = state();
  s.self = self;
  s.workers = workers;
  s.peers = find_peers();
  dump::attach();
  for (int p = 0; p < s.processes; ++p) {
    threads_in_core(p, kThreadsInCore);
    for (int i = 0; i < workers; ++i)
      gas::in_core(s.rings[p] + static_cast<std::uint64_t>(i) * s.ring_capacity, kRingInCore * sizeof(void*));
  }
  gas::in_core(&gas::slot_entry(0), gas::layout().slots * sizeof(gas::SlotEntry));
  ProcessQueues& q = *s.queues[self];
  // Small where stacks are few: a worker that computes cannot be asked for its free ones (T4).
  const auto keep =
      std::clamp<std::uint32_t>(gas::layout().slots_per_process / (8 * static_cast<std::uint32_t>(workers)), 2, 256);
  for (int i = 0; i < workers; ++i) {
    q.worker[i].deque.init(s.rings[self] + static_cast<std::uint64_t>(i) * s.ring_capacity, s.ring_capacity);
    q.worker[i].keep.store(keep, std::memory_order_relaxed);  // before others know of the worker
  }
  const bool apart = gas::apart();
  if (s.processes > 1 && !apart) s.fences.emplace(*new dsm::RealEnv, dsm::protocol());
  ult::Config c;
  c.process = self;
  c.processes = s.processes;
  c.workers = workers;
  c.apart = apart;
  c.queues = s.queues;
  c.threads = s.threads;
  c.thread_count = gas::layout().slots;
  c.stacks = gas::user_view();
  c.stack_bytes = gas::layout().slot_pages << gas::kPageShift;
  c.stack_room_bytes = c.stack_bytes - (dsm::kGuardPages << gas::kPageShift);
  c.keep_threads = keep;
  c.finished = &s.shared->finished;
  c.backoff = backoff_of(base::knob_string("AYATORI_STEAL_BACKOFF"));
  c.joiners_move = base::knob_string("AYATORI_JOIN_POLICY") == "move";
  c.hooks.steal_remote = steal_remote;
  c.hooks.bring_placed = bring_placed;
  c.hooks.acquire = [] { dsm::acquire(); };
  c.hooks.release = [] { dsm::release(state().self); };
  if (s.processes > 1) c.hooks.tick = [] { return dsm::protocol().tick(); };
  c.hooks.pass_from = [](int from, std::uint64_t ended) {
    state().fences->pass(from, state().self, ended);
    released(from);
  };
  if (s.processes > 1 && !apart) c.hooks.spilled = dsm::drop_idle_stack_pages;
  c.hooks.home = home_of;
  c.hooks.more_threads = more_threads;
  c.hooks.writable = writable;
  c.hooks.out_of_stack = overflow::look_at;
  c.hooks.thread_ends = keys::end_values;
  c.hooks.root_ended = root_ended;
  if (s.processes > 1) c.hooks.user_mode = dsm::set_syscall_catching;
  if (dsm::fetches_take_time()) c.hooks.poll = dsm::poll;
  c.hooks.tidy = gas::heap::tidy;
  c.hooks.moved = watch.moved;
  s.worker_enters = watch.worker_enters;
  if (apart) remote::set_hooks(c.hooks);
  s.completes = c.hooks.poll;
  c.hooks.poll = [] {
    if (state().completes) state().completes();
    waits::look();
  };
  ult::configure(c);
  ult::park::start(dsm::signal_restorer());
  q.workers = workers;  // read by thieves after the start barrier of run()
}

int run(const Root& root) {
  State& s = state();
  AYT_CHECK(!s.running.exchange(true), "ayatori::run was called twice");
  s.root = root;
  // Not before: what the program's initialisers and main took of the C library's heap lies at the same addresses in all
  // members, as long as none of them has done something else before.
  if (gas::apart()) remote::connect();
  dump::start();
  boot::set_phase(boot::Phase::kRunning);
  boot::JobControl& control = *boot::job().control;
  boot::barrier_wait(control);
  if (gas::apart()) remote::await_all();
  dsm::start_progress();
  std::vector<std::thread> others;
  others.reserve(static_cast<std::size_t>(s.workers));
  for (int i = 1; i < s.workers; ++i)
    others.emplace_back([i] {
      dsm::enter_os_thread();
      binding::bind_worker(boot::job().process_id, i);
      dump::enter_worker(i);
      if (state().worker_enters) state().worker_enters(i);
      ult::run_worker(i, nullptr);
      dump::leave_worker(i);
      dsm::leave_os_thread();
    });
  dsm::enter_os_thread();
  Descriptor* first = nullptr;
  if (s.self == 0) {
    const ult::Room room = ult::allocate_first(ult::worker_of(0), root.align, root.bytes);
    AYT_CHECK(room.thread != nullptr, "no stack for the first thread: AYATORI_SPACE_SIZE is too small");
    root.construct(room.object, root.from);
    room.thread->root = true;
    ult::prepare_first(room.thread, root_main);
    first = room.thread;
  }
  std::thread watcher([] {
    State& st = state();
    while (st.shared->finished.load(std::memory_order_acquire) == 0 && !st.left.load(std::memory_order_acquire)) {
      if (gas::apart()) remote::look_for_lost();
      base::futex_wait(st.shared->finished, 0, 100 * base::kNsPerMs);
    }
    watch_end({});
  });
  dump::enter_worker(0);
  if (s.worker_enters) s.worker_enters(0);
  binding::bind_worker(boot::job().process_id, 0);
  ult::run_worker(0, first);
  dump::leave_worker(0);
  dsm::leave_os_thread();
  for (std::thread& t : others) t.join();
  s.left.store(true, std::memory_order_release);
  base::futex_wake(s.shared->finished, base::kAllWaiters);
  watcher.join();
  std::fflush(nullptr);
  boot::barrier_wait(control, kLeaveNs);
  boot::set_phase(boot::Phase::kFinished);
  dump::stop(boot::job().launched);
  s.running.store(false, std::memory_order_relaxed);
  int status = 0;
  boot::get_result(status);
  return status;
}

namespace {
// A number that its worker counts on meanwhile, and that whoever looks may miss the last of.
__attribute__((no_sanitize("thread"))) std::uint64_t look_at_count(const std::uint64_t& count) noexcept {
  return *static_cast<const volatile std::uint64_t*>(&count);
}
}  // namespace

StatsRow worker_stats() noexcept {
  State& s = state();
  StatsRow row{};
  ProcessQueues& q = *s.queues[s.self];
  for (int i = 0; i < s.workers; ++i) {
    const ult::WorkerCounters& c = q.worker[i].counters;
    row.threads_forked += look_at_count(c.forked);
    row.steals_local += look_at_count(c.steals_local);
    row.steals_remote += look_at_count(c.steals_remote);
    row.steals_beyond += s.victims[i].steals_beyond();
    row.joins_remote += look_at_count(c.joins_remote);
    row.compute_ns += look_at_count(c.compute_ns);
    row.idle_ns += look_at_count(c.idle_ns);
    row.steal_ns += look_at_count(c.steal_ns);
  }
  row.compute_ns -= std::min(row.compute_ns, row.idle_ns);
  return row;
}

void call_native(void (*f)(void*), void* argument) {
  if (ult::on_user_stack())
    ult::call_on_native_fast(f, argument);
  else
    f(argument);
}

}  // namespace ayatori::tasks
