// SPDX-License-Identifier: Apache-2.0
#include "tasks/dump.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/log.hpp"
#include "base/symbols.hpp"
#include "dsm/fault/dispatch.hpp"
#include "gas/space.hpp"
#include "tasks/debug_table.hpp"
#include "tasks/dump_parts.hpp"
#include "tasks/overflow.hpp"
#include "tasks/stop.hpp"
#include "tasks/sync.hpp"
#include "tasks/unwind.hpp"
#include "tasks/waits.hpp"
#include "ult/scheduler.hpp"

namespace ayatori::tasks::dump {
namespace {

using ult::Descriptor;
using ult::ThreadState;

constexpr std::size_t kFramesMax = 48;
constexpr std::size_t kThreadsMax = 1'000;  // with their frames; the rest is counted
constexpr std::size_t kNameMax = 200;
constexpr int kLockTries = 1'000;

struct State {
  bool ignored_from_start = false;
  bool running = false;  // the OS thread below exists
  bool can_stop = false;
  pid_t pid = 0;
  pthread_t thread{};
  std::atomic<int> tids[ult::kMaxWorkers] = {};  // OS threads of the workers; 0: none
  std::atomic<std::uint32_t> requests{0};        // counts what it is woken for
  std::atomic<std::uint32_t> dumps{0};           // dumps asked for; ordered by `requests`
  std::atomic<bool> leaving{false};
};
constinit State state;

// ------------------------------------------------------------------------------------------------ stacks

struct Trace {
  std::uint64_t addresses[kFramesMax];
  std::size_t count = 0;

  void add(Frame& frame, StackMemory& memory) { count += walk(frame, memory, std::span(addresses).subspan(count)); }
  void add_saved(const void* sp, StackMemory& memory) {
    Frame frame;
    if (frame_of_saved(reinterpret_cast<std::uint64_t>(sp), memory, frame)) add(frame, memory);
  }
};

int owner_of(const Descriptor* d) noexcept {
  const auto slot = static_cast<gas::SlotIndex>(d - ult::config().threads);              // T1 of ult/thread.hpp
  return static_cast<int>(gas::slot_entry(slot).owner.load(std::memory_order_relaxed));  // a hint (D2)
}

// A thread that waits. Equal ones are one wait.
struct Wait {
  const Descriptor* thread = nullptr;
  ThreadState state = ThreadState::kFree;
  const void* object = nullptr;  // null: it waits for nobody who can be named
  std::uint64_t sequence = 0;
  std::uint32_t generation = 0;

  bool operator==(const Wait&) const = default;
};

bool is_thread(const void* p) noexcept {
  const auto offset = reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(ult::config().threads);
  return offset % sizeof(Descriptor) == 0 && offset / sizeof(Descriptor) < ult::config().thread_count;
}

// ------------------------------------------------------------------------------------------------ the dump

class Dump {
 public:
  void print();

 private:
  bool takes_one_more() {
    if (printed_ < kThreadsMax) return ++printed_, true;
    ++left_out_;
    return false;
  }
  void print_worker(int number);
  void print_queue(const char* what, ult::Queue& queue);
  void print_placed(Descriptor* d);
  void print_parked(const Descriptor* d, const std::string& where);
  void print_waiting(const Descriptor* d);
  void frames(Block& out, const Trace& trace);
  std::string waited(const Descriptor& d);
  std::string holder_text(const sync::Waited& w);
  Wait wait_of(const Descriptor* d);
  const Descriptor* holder_of(std::uint64_t number);
  const Descriptor* waits_for(const Wait& wait);
  std::string awaited(const Wait& wait);
  void look_for_cycles(const std::vector<const Descriptor*>& waiting);
  void print_cycle(const std::vector<Wait>& cycle);
  Copy<Descriptor> copy(const Descriptor* d) { return {d, memory_}; }

  const int self_ = ult::config().process;
  OwnMemory memory_;
  base::Symbols symbols_;
  std::size_t printed_ = 0, left_out_ = 0;
};

std::string shortened(std::string name) {
  if (name.size() > kNameMax) name = name.substr(0, kNameMax - 3) + "...";
  return name;
}

void Dump::frames(Block& out, const Trace& trace) {
  for (std::size_t i = 0; i < trace.count; ++i)
    out.line("    #{} {}", i, shortened(symbols_.describe_code(trace.addresses[i])));
}

std::string Dump::waited(const Descriptor& d) {
  switch (d.state) {
    case ThreadState::kJoining: {
      const auto* const child = static_cast<const Descriptor*>(d.wait_object);
      if (!is_thread(child)) return "waits for the end of a thread";
      return base::formatted("waits for the end of thread {}, which is at process {}", ult::number_of(&*copy(child)),
                             owner_of(child));
    }
    case ThreadState::kLocking: {
      if (!d.wait_object) return base::formatted("waits for a mutex of process {}", sync::keeper(d.wait_value));
      const sync::Waited w = sync::describe(d.wait_object, memory_);
      return base::formatted("waits for {} {}, {}", w.kind, w.handle, holder_text(w));
    }
    case ThreadState::kWaiting: {
      if (!d.wait_object)
        return base::formatted("waits at process {}, which keeps what it waits for", sync::keeper(d.wait_value));
      const sync::Waited w = sync::describe(d.wait_object, memory_);
      if (w.expected > 0)
        return base::formatted("waits at {} {}: {} of {} have arrived", w.kind, w.handle, w.arrived, w.expected);
      return base::formatted("waits for {} {}", w.kind, w.handle);
    }
    case ThreadState::kSleeping: {
      const std::int64_t left_ns = d.deadline_ns - base::real_now_ns();
      return base::formatted("sleeps for another {} ms", left_ns > 0 ? left_ns / base::kNsPerMs : 0);
    }
    case ThreadState::kFaulting: return "waits for a page of another process";
    case ThreadState::kCalling: return waits::describe(d.wait_value);
    default: return "";
  }
}

std::string Dump::holder_text(const sync::Waited& w) {
  if (const Descriptor* const holder = holder_of(w.holder))
    return base::formatted("held by thread {}, which is at process {}", ult::number_of(&*copy(holder)),
                           owner_of(holder));
  if ((w.holder >> 63) != 0) return "held by an OS thread of the program";
  if (w.holder != 0) return base::formatted("locked at process {} by a thread that has ended", w.last_process);
  return base::formatted("locked at process {}", w.last_process);
}

// ------------------------------------------------------------------------------------------------ cycles (D5)

Wait Dump::wait_of(const Descriptor* d) {
  const Copy<Descriptor> now = copy(d);
  Wait wait{d, now->state, nullptr, now->wait_sequence, now->generation};
  if (wait.state == ThreadState::kJoining || wait.state == ThreadState::kLocking) wait.object = now->wait_object;
  return wait;
}

// Null: nobody, no user-level thread, or one that has ended.
const Descriptor* Dump::holder_of(std::uint64_t number) {
  const std::uint64_t slot = (number & 0xffffffff) - 1;
  if (number == 0 || (number >> 63) != 0 || slot >= ult::config().thread_count) return nullptr;
  const Descriptor* const d = &ult::config().threads[slot];
  return ((copy(d)->generation ^ number >> 32) & 0xffff) == 0 ? d : nullptr;
}

// Who must go on first; null: not known, or at a process that shares no memory with this one.
const Descriptor* Dump::waits_for(const Wait& wait) {
  const Descriptor* next = nullptr;
  if (!wait.object) return nullptr;
  if (wait.state == ThreadState::kLocking)
    next = holder_of(sync::describe(wait.object, memory_).holder);
  else if (is_thread(wait.object))
    next = static_cast<const Descriptor*>(wait.object);
  return next && gas::apart() && owner_of(next) != self_ ? nullptr : next;
}

std::string Dump::awaited(const Wait& wait) {
  if (wait.state == ThreadState::kJoining) return "the end of";
  const sync::Waited w = sync::describe(wait.object, memory_);
  return base::formatted("{} {}, held by", w.kind, w.handle);
}

// Each thread waits for the next one, the last for the first.
void Dump::print_cycle(const std::vector<Wait>& cycle) {
  Block out;
  if (cycle.size() == 1)
    out.line("deadlock: a thread waits for itself:");
  else
    out.line("deadlock: {} threads wait for each other in a cycle:", cycle.size());
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const Wait& before = cycle[(i + cycle.size() - 1) % cycle.size()];
    const Wait& after = cycle[(i + 1) % cycle.size()];
    std::string holds;
    if (before.state == ThreadState::kLocking) {
      const sync::Waited w = sync::describe(before.object, memory_);
      holds = base::formatted(" holds {} {} and", w.kind, w.handle);
    }
    const Copy<Descriptor> d = copy(cycle[i].thread);
    const bool timed = cycle[i].state == ThreadState::kLocking && d->deadline_ns != INT64_MAX;
    out.line("    thread {} at process {}{} waits for {} thread {} at process {}{}", ult::number_of(&*d),
             owner_of(cycle[i].thread), holds, awaited(cycle[i]), ult::number_of(&*copy(after.thread)),
             owner_of(after.thread), timed ? ", for a limited time" : "");
  }
}

void Dump::look_for_cycles(const std::vector<const Descriptor*>& waiting) {
  std::unordered_map<const Descriptor*, const Descriptor*> seen;  // to the first thread of the walk that came by
  for (const Descriptor* const first : waiting) {
    std::vector<Wait> walk;
    const Descriptor* at = first;
    while (at && seen.emplace(at, first).second) {
      walk.push_back(wait_of(at));
      at = waits_for(walk.back());
    }
    if (!at || seen[at] != first) continue;  // it ends, or leads to what is known
    std::size_t begin = 0;
    while (walk[begin].thread != at) ++begin;
    std::vector<Wait> cycle(walk.begin() + static_cast<std::ptrdiff_t>(begin), walk.end());
    std::rotate(cycle.begin(), std::ranges::min_element(cycle, {}, &Wait::thread), cycle.end());
    if (owner_of(cycle.front().thread) != self_) continue;
    bool stands = true;
    for (std::size_t i = 0; i < cycle.size() && stands; ++i)
      stands = waits_for(cycle[i]) == cycle[(i + 1) % cycle.size()].thread;
    for (std::size_t i = 0; i < cycle.size() && stands; ++i) stands = wait_of(cycle[i].thread) == cycle[i];
    if (stands) print_cycle(cycle);
  }
}

// A running thread: its worker is stopped while the stack is read (H2 of stop.hpp: nothing allocates here).
void Dump::print_worker(int number) {
  const ult::Worker& w = ult::worker_of(number);
  const int tid = state.tids[number].load(std::memory_order_acquire);
  const auto current = [&] { return Copy<ult::Worker>(&w, memory_)->current; };
  Block out;
  if (tid == 0 || !current()) {
    out.line("worker {}.{}: {}", self_, number, tid == 0 ? "not there" : "idle");
    return;
  }
  Trace trace;
  const Descriptor* thread = nullptr;
  stop::Stopped stopped;
  const bool has_stopped = state.can_stop && stop::stop_thread(tid, stopped);
  if (has_stopped) {
    thread = current();
    Frame frame;
    if (frame_of_signal(stopped.context, memory_, frame)) {
      trace.add(frame, memory_);
      // The runtime's own stack ends where the thread was left, whose registers are saved.
      const auto low = reinterpret_cast<std::uint64_t>(w.native_low);
      if (thread && frame.sp() - low <= w.native_bytes) trace.add_saved(copy(thread)->sp, memory_);
    }
    stop::resume_thread();
  }
  if (!has_stopped) thread = current();
  if (!thread) {
    out.line("worker {}.{}: in the runtime", self_, number);
  } else {
    if (!takes_one_more()) return;
    out.line("thread {}: running on worker {}.{}{}", ult::number_of(&*copy(thread)), self_, number,
             has_stopped ? "" : " (it could not be stopped to look at its stack)");
  }
  frames(out, trace);
}

void Dump::print_parked(const Descriptor* d, const std::string& where) {
  if (!takes_one_more()) return;
  Block out;
  const Copy<Descriptor> before = copy(d);
  Trace trace;
  const unsigned pins_of_fault = before->state == ThreadState::kFaulting ? 1 : 0;  // P3 of ult/park.hpp
  if (before->state == ThreadState::kFaulting) {
    Frame frame;
    const auto context = reinterpret_cast<std::uint64_t>(before->fault_frame) + before->fault_offset + sizeof(void*);
    if (frame_of_signal(context, memory_, frame)) trace.add(frame, memory_);
  } else {
    trace.add_saved(before->sp, memory_);
  }
  const Copy<Descriptor> after = copy(d);
  out.line("thread {}: {}{}{}", ult::number_of(&*before), where, before->pins > pins_of_fault ? ", pinned" : "",
           after->sp != before->sp || after->state != before->state ? " (has moved on)" : "");
  frames(out, trace);
}

void Dump::print_placed(Descriptor* d) {
  if (!takes_one_more()) return;
  Block out;
  const Copy<Descriptor> placed = copy(d);
  out.line("thread {}: placed on process {}, not started; begins in {}", ult::number_of(&*placed), self_,
           shortened(symbols_.describe_code(reinterpret_cast<std::uintptr_t>(placed->invoke))));
}

void Dump::print_queue(const char* what, ult::Queue& queue) {
  // What the queue holds is noted under its lock, printed without. A process that hangs may hang holding it.
  bool locked = false;
  for (int i = 0; i < kLockTries && !(locked = queue.lock.try_lock()); ++i) usleep(100);
  if (!locked) {
    Block().line("the queue of {} threads is locked: not printed", what);
    return;
  }
  Descriptor* noted[kThreadsMax];
  std::size_t count = 0;
  for (Descriptor* d = queue.list.head; d; d = d->next) {
    if (count < kThreadsMax)
      noted[count++] = d;
    else
      ++left_out_;
  }
  queue.lock.unlock();
  for (std::size_t i = 0; i < count; ++i) {
    if (owner_of(noted[i]) != self_ || copy(noted[i])->placement != ult::Placement::kBegun)
      print_placed(noted[i]);
    else
      print_parked(noted[i], base::formatted("ready on process {}", self_));
  }
}

void Dump::print_waiting(const Descriptor* d) {
  const std::string why = waited(*copy(d));
  if (!why.empty()) print_parked(d, why);
}

void Dump::print() {
  const ult::Config& c = ult::config();
  const ult::ProcessQueues& q = ult::queues_of(self_);
  Block().line("process {} of {} (pid {}), {} worker{}:", self_, c.processes, getpid(), c.workers,
               c.workers == 1 ? "" : "s");
  if (!memory_.opened()) Block().line("/proc/self/mem cannot be opened: there is nothing to see");
  for (int i = 0; i < c.workers; ++i) print_worker(i);
  for (int i = 0; i < c.workers; ++i)
    for (std::uint64_t age = 0; const Descriptor* const d = q.worker[i].deque.look(age); ++age)
      print_parked(d, base::formatted("ready, in the deque of worker {}.{}", self_, i));
  for (int i = 0; i < c.workers; ++i)
    for (std::uint64_t age = 0; const Descriptor* const d = q.worker[i].ring.look(age); ++age)
      print_parked(d, base::formatted("ready, at worker {}.{}", self_, i));
  print_queue("ready", ult::queues_of(self_).high);
  print_queue("ready", ult::queues_of(self_).ready);
  print_queue("placed", ult::queues_of(self_).placed);
  print_queue("placed", ult::queues_of(self_).hinted);
  // The waiting ones: of all stacks ever handed out those that are here.
  const gas::Layout& l = gas::layout();
  std::vector<const Descriptor*> waiting;
  for (int p = 0; p < c.processes; ++p) {
    const std::uint32_t count = *Copy<std::uint32_t>(&ult::queues_of(p).next_fresh_slot, memory_);
    for (std::uint32_t i = 0; i < count; ++i) {
      const Descriptor* const d = &c.threads[static_cast<std::uint32_t>(p) * l.slots_per_process + i];
      if (owner_of(d) != self_) continue;
      print_waiting(d);
      const ThreadState state_now = copy(d)->state;
      if (state_now == ThreadState::kJoining || state_now == ThreadState::kLocking) waiting.push_back(d);
    }
  }
  look_for_cycles(waiting);
  Block end;
  if (left_out_ != 0) end.line("... and {} more threads", left_out_);
  end.line("end of the dump: {} thread{}", printed_ + left_out_, printed_ + left_out_ == 1 ? "" : "s");
}

// ------------------------------------------------------------------------------------------------ signal and OS thread

// Signal handlers.
void ring_server() noexcept {
  state.requests.fetch_add(1, std::memory_order_release);  // pairs with serve()
  dsm::fault::raw_syscall(SYS_futex, reinterpret_cast<long>(&state.requests), FUTEX_WAKE, 1, 0, 0, 0);
}

void on_quit(int) {
  if (dsm::fault::raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0) !=
      state.pid) {  // a child that the program has forked: it ends
    const struct sigaction standard{};
    sigaction(SIGQUIT, &standard, nullptr);
    dsm::fault::raw_syscall(SYS_tkill, dsm::fault::raw_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0), SIGQUIT, 0, 0, 0, 0);
    return;
  }
  state.dumps.store(1, std::memory_order_relaxed);
  ring_server();
}

void* serve(void*) {
  pthread_setname_np(pthread_self(), "ayatori-dump");
  for (std::uint32_t seen = 0;;) {
    const std::uint32_t now = state.requests.load(std::memory_order_acquire);
    if (state.leaving.load(std::memory_order_acquire)) return nullptr;
    if (now == seen) {
      base::futex_wait(state.requests, seen);
      continue;
    }
    seen = now;  // several at once are one
    overflow::print_pending();
    if (state.dumps.exchange(0, std::memory_order_relaxed) != 0) Dump().print();
  }
}

}  // namespace

void attach() noexcept {
  struct sigaction now{};
  state.ignored_from_start = sigaction(SIGQUIT, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

void start() {
  ayt_debug_table.worker_tids = state.tids;
  state.pid = getpid();
  overflow::start();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's handlers run on threads of the program
  const int error = pthread_create(&state.thread, nullptr, serve, nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  AYT_CHECK(error == 0, "no OS thread for thread dumps: {}", std::strerror(error));
  state.running = true;
  struct sigaction now{};
  if (sigaction(SIGQUIT, nullptr, &now) != 0) return;
  if (now.sa_handler != SIG_DFL && !(now.sa_handler == SIG_IGN && state.ignored_from_start)) return;  // D1
  state.can_stop = stop::start();
  struct sigaction action{};
  action.sa_handler = on_quit;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(SIGQUIT, &action, nullptr);
}

bool wake_server() noexcept {
  if (state.running) ring_server();
  return state.running;
}

void enter_worker(int number) noexcept {
  state.tids[number].store(static_cast<int>(syscall(SYS_gettid)), std::memory_order_release);
}
void leave_worker(int number) noexcept { state.tids[number].store(0, std::memory_order_release); }

void stop(bool launched) {
  if (!state.running) return;
  struct sigaction now{};
  if (!launched && sigaction(SIGQUIT, nullptr, &now) == 0 && now.sa_handler == on_quit) {
    struct sigaction action{};
    action.sa_handler = state.ignored_from_start ? SIG_IGN : SIG_DFL;
    sigaction(SIGQUIT, &action, nullptr);
  }
  state.leaving.store(true, std::memory_order_release);  // pairs with serve()
  state.requests.fetch_add(1, std::memory_order_release);
  base::futex_wake(state.requests, base::kAllWaiters);
  pthread_join(state.thread, nullptr);
  state.running = false;
}

}  // namespace ayatori::tasks::dump
