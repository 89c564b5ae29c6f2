// SPDX-License-Identifier: Apache-2.0
#include "dsm/dsm.hpp"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/knobs.hpp"
#include "base/waiter.hpp"
#include "dsm/fetcher.hpp"
#include "dsm/remote_coherence.hpp"

namespace ayatori::dsm {

namespace {

struct StackUse {
  std::atomic<std::uint32_t> faults[5] = {};  // by the page's place from the top, 1 for the topmost
  std::atomic<std::size_t> pages{1};
};

struct State {
  StackUse stack_use;
  ProcessState* processes[gas::kMaxProcesses] = {};
  RealEnv env;
  std::optional<Protocol> protocol;
  // Where no process reaches another one's memory.
  std::optional<Peers> peers;
  std::optional<RemoteProtocol> remote;
  Hooks hooks;
  int self = 0;
  bool alone = true;
  std::int64_t net_delay_ns = 0;
  std::atomic<std::uint64_t> fault_ns{0};
};

State& state() noexcept {
  static State s;
  return s;
}

// A fetch on its way: the thread that waits for it is suspended, its worker runs others. Owner and state of the page are
// looked at only when it arrives (P4).
struct Delayed {
  std::int64_t due_ns;
  void* ticket;
  void* address;
  bool write;
};

struct Fetches {
  std::mutex lock;
  std::condition_variable changed;
  std::vector<Delayed> pending;  // Guarded by lock.
  std::atomic<std::int64_t> next_due_ns{INT64_MAX};
};
Fetches& fetches() {
  static auto* f = new Fetches;  // outlives main: the progress thread waits on it
  return *f;
}

// The argument that travels with a parked thread: page and kind of access in one word.
void* pack(void* address, bool write) noexcept {
  const auto page_start = reinterpret_cast<std::uintptr_t>(address) & ~(gas::kPageBytes - 1);
  return reinterpret_cast<void*>(page_start | (write ? 1u : 0u));  // NOLINT
}

void parked(void* ticket, void* argument) {
  const auto word = reinterpret_cast<std::uintptr_t>(argument);
  Delayed f{};
  f.due_ns = base::real_now_ns() + state().net_delay_ns;
  f.ticket = ticket;
  f.address = reinterpret_cast<void*>(word & ~std::uintptr_t{1});  // NOLINT
  f.write = (word & 1) != 0;
  Fetches& all = fetches();
  {
    const std::lock_guard<std::mutex> guard(all.lock);
    all.pending.push_back(f);
    if (f.due_ns < all.next_due_ns.load(std::memory_order_relaxed))
      all.next_due_ns.store(f.due_ns, std::memory_order_relaxed);
  }
  all.changed.notify_one();
}

// Is the page fetched from another process when it is touched? A hint: it is looked at again when it arrives.
bool would_fetch(PageIndex page) noexcept {
  State& s = state();
  return gas::owner_of(page) != s.self && s.protocol->state(*s.processes[s.self], page) == Protocol::kInvalid;
}

Fetcher& fetcher() {
  static auto* f = new Fetcher;  // outlives main: its thread waits in it
  return *f;
}

// On the fetching thread, or any native stack.
bool resolve_apart(void* address, bool write) {
  const PageIndex page = gas::page_of(address);
  if (gas::owner_of(page) == gas::kNobody && !gas::learn_owner(page)) return false;
  state().remote->fault(page, write);
  return true;
}

// On a native stack, the thread being suspended.
void parked_apart(void* ticket, void* argument) {
  const auto word = reinterpret_cast<std::uintptr_t>(argument);
  auto* const f = new Fetch;
  f->address = reinterpret_cast<void*>(word & ~std::uintptr_t{1});  // NOLINT
  f->write = (word & 1) != 0;
  f->ticket = ticket;
  fetcher().add(*f);
}

// In the fault handler.
bool resolve_remote(void* address, bool write, void* context) {
  State& s = state();
  const PageIndex page = gas::page_of(address);
  if (s.remote->fault_here(page, write)) return true;
  const base::Waiter* waiter = base::waiter();
  // An address that nobody ever allocated must come back here to be told of: it is resolved in place.
  if (gas::owner_of(page) != gas::kNobody && waiter && !must_resolve_inline() && waiter->may_park(context))
    waiter->park(context, parked_apart, pack(address, write));  // does not return
  const std::int64_t start = base::real_now_ns();
  const bool found = fetcher().run(address, write);
  s.fault_ns.fetch_add(static_cast<std::uint64_t>(base::real_now_ns() - start), std::memory_order_relaxed);
  return found;
}

// Before the run.
bool owned_here(PageIndex page) {
  State& s = state();
  if (gas::owner_of(page) != s.self) return false;
  engine().map_write(page, 1);
  return true;
}

// A page of a stack was touched for the first time since the stack came here. Where many threads reach so deep, others will.
void note_stack_fault(gas::PageIndex page) {
  constexpr std::uint32_t kOften = 16;
  const std::size_t depth = gas::slot_first(gas::slot_of(page) + 1) - page;
  StackUse& use = state().stack_use;
  if (depth >= std::size(use.faults) || gas::owner_of(page) != state().self) return;
  // Numbers alone.
  if (use.faults[depth].fetch_add(1, std::memory_order_relaxed) + 1 < kOften) return;
  if (use.pages.load(std::memory_order_relaxed) >= depth) return;
  use.pages.store(depth, std::memory_order_relaxed);
  state()
      .protocol->process(state().self)
      .usual_stack_pages.store(static_cast<std::uint32_t>(depth), std::memory_order_relaxed);
}

bool resolve(void* address, bool write, void* context) {
  State& s = state();
  if (s.remote) return resolve_remote(address, write, context);
  if (gas::apart()) {
    if (owned_here(gas::page_of(address))) return true;
    if (!s.hooks.connect) return false;
    s.hooks.connect();  // main, before the run: outside the C library's heap, which never touches the space
    return resolve_remote(address, write, context);
  }
  if (gas::owner_of(gas::page_of(address)) == gas::kNobody) return false;
  if (s.net_delay_ns > 0 && would_fetch(gas::page_of(address))) {
    const base::Waiter* waiter = base::waiter();
    if (waiter && !must_resolve_inline() && waiter->may_park(context))
      waiter->park(context, parked, pack(address, write));  // does not return
    const std::int64_t until = base::real_now_ns() + s.net_delay_ns;
    while (base::real_now_ns() < until) base::cpu_pause();
  }
  const std::int64_t start = base::real_now_ns();
  s.protocol->fault(s.self, gas::page_of(address), write);
  if (gas::is_stack(gas::page_of(address))) note_stack_fault(gas::page_of(address));
  s.fault_ns.fetch_add(static_cast<std::uint64_t>(base::real_now_ns() - start), std::memory_order_relaxed);
  return true;
}

void stack_overflow(void* address, void* context) {
  if (state().hooks.stack_overflow) state().hooks.stack_overflow(address, context);
}

bool is_guard(const void* address) {
  if (!gas::contains(address)) return false;
  const PageIndex page = gas::page_of(address);
  return gas::is_stack(page) && page % gas::layout().slot_pages < kGuardPages;
}

}  // namespace

std::size_t RealEnv::guard_pages() noexcept { return kGuardPages; }
bool RealEnv::pressure() noexcept { return engine().pressure && engine().pressure(); }
void RealEnv::relieved() noexcept {}
void RealEnv::table_full() { base::fatal("more clean pages than the table holds"); }
void RealEnv::releasing(int p) {
  if (state().hooks.releasing) state().hooks.releasing(p);
}
void RealEnv::released(int p) {
  if (state().hooks.released) state().hooks.released(p);
}

void reserve(int processes) {
  State& s = state();
  const gas::Layout& l = gas::layout();
  s.alone = processes == 1;
  Limits limits;
  limits.clean_pages = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(256, base::knob_size("AYATORI_CACHE_LIMIT") >> gas::kPageShift));
  limits.clean_pages = static_cast<std::uint32_t>(std::min<std::size_t>(limits.clean_pages, l.pages));
  limits.dirty_pages = static_cast<std::uint32_t>(std::min<std::size_t>(limits.dirty_pages, l.pages));
  const auto block = static_cast<std::uint32_t>(base::knob_size("AYATORI_BLOCK_SIZE") >> gas::kPageShift);
  limits.first_run_pages = std::max(1u, block / 4);
  limits.run_pages = std::max(1u, block * 4);
  if (!s.alone) {
    s.env.clock = new (gas::shared_map(sizeof(std::uint64_t), "the fences' clock")) std::atomic<std::uint64_t>;
    for (int p = 0; p < processes; ++p) {
      auto* ps = new (gas::shared_map(sizeof(ProcessState), "coherence state")) ProcessState;
      const auto map = [](std::size_t bytes) { return gas::shared_map(bytes, "coherence tables"); };
      ps->table = static_cast<std::uint32_t*>(map(l.pages * sizeof(std::uint32_t)));
      // Twice the limit: hand-overs add pages without looking at it.
      ps->dirty =
          static_cast<ProcessState::Dirty*>(map(std::size_t{limits.dirty_pages} * 2 * sizeof(ProcessState::Dirty)));
      ps->clean = static_cast<ProcessState::Clean*>(map(std::size_t{limits.clean_pages} * sizeof(ProcessState::Clean)));
      ps->lost = static_cast<SlotIndex*>(map(l.slots * sizeof(SlotIndex)));
      ps->lost_mark = static_cast<std::uint8_t*>(map(l.slots));
      ps->twins = static_cast<std::byte*>(map(std::size_t{limits.dirty_pages} * 2 * gas::kPageBytes));
      ps->free_twins = static_cast<std::uint32_t*>(map(std::size_t{limits.dirty_pages} * 2 * sizeof(std::uint32_t)));
      ps->scratch =
          static_cast<PageIndex*>(map((std::size_t{limits.dirty_pages} * 2 + limits.clean_pages) * sizeof(PageIndex)));
      s.processes[p] = ps;
    }
  }
  s.protocol.emplace(s.env, s.processes, processes, limits);
}

const Engine& attach(int self, const Hooks& hooks, std::string* why) {
  State& s = state();
  s.self = self;
  s.hooks = hooks;
  s.net_delay_ns = base::knob_int("AYATORI_NET_DELAY");
  const FaultHooks fault_hooks{resolve, stack_overflow, is_guard, prefault, hooks.is_beyond_stack};
  const std::string wanted(base::knob_string("AYATORI_ENGINE"));
  const Engine& chosen = start_engine(wanted.c_str(), gas::layout().processes, fault_hooks, why);
  // Stacks may come here before this process has used one of its own.
  if (!s.alone) chosen.guard(0, kGuardPages, gas::layout().slot_pages);
  return chosen;
}

std::size_t usual_stack_pages() noexcept { return state().stack_use.pages.load(std::memory_order_relaxed); }
std::size_t usual_stack_pages(int process) noexcept {
  return std::max(1u, state().protocol->process(process).usual_stack_pages.load(std::memory_order_relaxed));
}
bool has_idle_stack_pages(int process) noexcept {
  constexpr std::uint32_t kMany = 16;
  return state().protocol->process(process).idle_stack_pages.load(std::memory_order_relaxed) >= kMany;
}
void drop_idle_stack_pages() {
  State& s = state();
  if (has_idle_stack_pages(s.self) && !has_private_view()) s.protocol->drop_idle(s.self);
}
Protocol& protocol() noexcept { return *state().protocol; }
bool coherent_by_hardware() noexcept { return state().alone; }

void attach_network(net::Transport& transport) {
  State& s = state();
  s.peers.emplace(transport);
  s.remote.emplace(s.env, *s.protocol, *s.peers, s.self);
}
void start_network() {
  fetcher().start(resolve_apart, [](void* ticket) { base::waiter()->wake(ticket); });
}
RemoteProtocol* remote() noexcept { return state().remote ? &*state().remote : nullptr; }

void release(int process) {
  State& s = state();
  if (s.alone) return;
  if (s.remote)
    s.remote->release();
  else
    s.protocol->release(process);
}
void acquire() {
  State& s = state();
  if (s.alone) return;
  if (s.remote)
    s.remote->acquire();
  else
    s.protocol->acquire(s.self);
}

bool fetches_take_time() noexcept { return !state().alone && !state().remote && state().net_delay_ns > 0; }

void poll() {
  Fetches& all = fetches();
  State& s = state();
  if (base::real_now_ns() < all.next_due_ns.load(std::memory_order_relaxed)) return;
  std::unique_lock<std::mutex> guard(all.lock);
  for (;;) {
    const std::int64_t now = base::real_now_ns();
    std::int64_t next = INT64_MAX;
    std::size_t found = all.pending.size();
    for (std::size_t i = 0; i < all.pending.size(); ++i) {
      if (all.pending[i].due_ns <= now && found == all.pending.size())
        found = i;
      else
        next = std::min(next, all.pending[i].due_ns);
    }
    if (found == all.pending.size()) {
      all.next_due_ns.store(next, std::memory_order_relaxed);
      return;
    }
    const Delayed f = all.pending[found];
    all.pending[found] = all.pending.back();
    all.pending.pop_back();
    guard.unlock();
    s.protocol->fault(s.self, gas::page_of(f.address), f.write);
    base::waiter()->wake(f.ticket);
    guard.lock();
  }
}

void start_progress() {
  if (!fetches_take_time()) return;
  // Fetches arrive also while all workers compute. Ends with the process.
  std::thread([] {
    Fetches& all = fetches();
    for (;;) {
      {
        std::unique_lock<std::mutex> guard(all.lock);
        all.changed.wait(guard, [&] { return !all.pending.empty(); });
      }
      const std::int64_t left = all.next_due_ns.load(std::memory_order_relaxed) - base::real_now_ns();
      if (left > 0) {
        const timespec nap{left / base::kNsPerSecond, left % base::kNsPerSecond};
        nanosleep(&nap, nullptr);
      }
      poll();
    }
  }).detach();
}

void prefault(const void* address, std::size_t bytes, bool write) {
  State& s = state();
  if (s.alone || bytes == 0 || !gas::contains(address)) return;
  const auto last = static_cast<const std::byte*>(address) + bytes - 1;
  const PageIndex end = gas::contains(last) ? gas::page_of(last) : static_cast<PageIndex>(gas::layout().pages - 1);
  for (PageIndex page = gas::page_of(address); page <= end; ++page) {
    if (!s.remote)
      s.protocol->fault(s.self, page, write);
    else if (!s.remote->fault_here(page, write))
      fetcher().run(gas::user_view() + (std::size_t{page} << gas::kPageShift), write);
  }
}

std::uint64_t fault_ns() noexcept { return state().fault_ns.load(std::memory_order_relaxed); }

}  // namespace ayatori::dsm
