// SPDX-License-Identifier: Apache-2.0
#include "tasks/remote.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <ayatori/net/blocking.hpp>
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/waiter.hpp"
#include "dsm/remote_coherence.hpp"
#include "gas/heap.hpp"
#include "net/bootstrap/barrier.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "net/job_network.hpp"
#include "tasks/runtime.hpp"
#include "tasks/sync.hpp"
#include "ult/cancellation.hpp"
#include "ult/current.hpp"

namespace ayatori::tasks::remote {
namespace {

using ult::Descriptor;
using ult::JoinWord;
using ult::ProcessQueues;
using ult::Worker;

enum Function : net::Calls::FunctionId {
  kSteal,     // -> Moving, or nothing, or Hinted
  kBring,     // Named -> Moving: a stack that was allocated there, of a thread that runs here
  kPlace,     // Placed: a thread that is to start here fetches its stack by kStart
  kStart,     // Named -> Moving
  kSpare,     // count -> slots
  kJoin,      // Join
  kDetach,    // Named -> detach_here()
  kFacts,     // Named -> Found
  kCancel,    // Cancelled -> Found
  kPriority,  // Prioritised -> Found
  kCThreads,  // -> CThreads
  kFree,      // addresses of objects
  kSize,      // address -> bytes
  kLarge,     // LargeAsked -> LargeTaken
  kSync,      // sync::Call -> a number
  kNames,     // names::Request -> names::Answer
};
constexpr net::HandlerId kWakeHandler = net::kTasksHandlers;
constexpr net::HandlerId kFreedHandler = net::kTasksHandlers + 1;
constexpr net::HandlerId kFinishedHandler = net::kTasksHandlers + 2;  // the run's status
constexpr net::HandlerId kOwnerHandler = net::kTasksHandlers + 3;     // RPC: page -> its owner
constexpr net::HandlerId kPunchHandler = net::kTasksHandlers + 4;     // RPC: PageRange -> nothing
constexpr net::HandlerId kLeftHandler = net::kTasksHandlers + 5;      // the sender asks for nothing any more

// A thread on its way; the used pages of its stack follow.
struct Moving {
  std::array<std::byte, sizeof(Descriptor)> descriptor;
  gas::SlotIndex slot;
  std::uint64_t join;  // kRunning, kDetached, or kMoved: `waiter` waits for its end
  Waiter waiter;
  gas::PageIndex first_used;
  std::uint32_t moves;
};
struct Spare {
  gas::SlotIndex slot;
  std::uint32_t moves;
  std::uint32_t generation;     // so that no number is given twice
  std::uint64_t wait_sequence;  // so that a timer knows an old wait
};
struct Placed {
  gas::SlotIndex slot;
  std::uint32_t moves;
  ult::Placement placement;
  bool high;
};
// A thread that has not begun, and whose stack is elsewhere: the thief fetches it by kStart.
struct Hinted {
  gas::SlotIndex slot;
  std::uint32_t moves;
  std::int32_t holder;
};

struct Named {
  gas::SlotIndex slot;
};
struct Cancelled {
  gas::SlotIndex slot;
  std::uint32_t generation;
};
struct Prioritised {
  gas::SlotIndex slot;
  std::uint32_t generation;
  bool high;
};
struct Join {
  gas::SlotIndex slot;
  Waiter waiter;
};
struct Found {
  ThreadFacts facts;
  std::int32_t holder;  // as far as is known there; kNobody: it has just come or gone, ask again
};
struct LargeAsked {
  std::uint64_t bytes, align;
};
struct LargeTaken {
  void* address;
  gas::Segment segment;
  bool zero;
};
struct PageRange {
  gas::PageIndex first;
  std::uint32_t pages;
};
struct Wake {
  Waiter waiter;
  bool timed_out;
  bool barrier_last;
  std::int32_t ended_at;  // where the thread ended that it joins; -1: it joins none
  void* error;
  void* result;
};

// Private to the process.
struct State {
  std::once_flag once;
  std::atomic<bool> connected{false};
  pid_t member = 0;  // constant after attach()
  std::unique_ptr<net::Transport> transport;
  std::optional<net::Calls> calls;
  std::atomic<std::uint64_t> left{0};    // bit: a process of another machine that has left
  std::atomic<int> lost{-1};             // a process that failed
  std::atomic<std::int64_t> lost_ns{0};  // since when; before `lost`
  std::mutex proxies_lock;
  std::vector<Descriptor*> free_proxies;  // Guarded by proxies_lock.
};
State& state() noexcept {
  static State* s = new State;  // outlives main: its threads use it to the end
  return *s;
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) noexcept {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
T read_as(std::span<const std::byte> bytes) {
  T value;
  AYT_CHECK(bytes.size() >= sizeof value, "a peer's message is too short");
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}
net::Bytes copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

Descriptor& thread_at(gas::SlotIndex slot) {
  AYT_CHECK(slot < ult::config().thread_count, "a peer named thread {}", slot);
  return ult::config().threads[slot];
}
int holder_of(gas::SlotIndex slot) noexcept {
  return static_cast<int>(gas::slot_entry(slot).owner.load(std::memory_order_acquire));
}
// Of a thread that may be held elsewhere: its descriptor here says nothing.
gas::SlotIndex slot_of(const Descriptor* d) noexcept { return static_cast<gas::SlotIndex>(d - ult::config().threads); }
ProcessQueues& mine() noexcept { return ult::queues_of(self()); }

// This process's own idea of which stacks are in use elsewhere: of those that were here. For people (dump).
void note_stack(gas::SlotIndex slot) noexcept {
  const gas::SlotIndex each = gas::layout().slots_per_process;
  const int home = static_cast<int>(slot / each);
  if (home == self() || home >= processes()) return;
  ProcessQueues& theirs = ult::queues_of(home);
  const std::lock_guard guard(theirs.slots_lock);
  theirs.next_fresh_slot = std::max(theirs.next_fresh_slot, slot % each + 1);
}

net::Bytes call(int process, Function function, std::span<const std::byte> argument) {
  connect();
  std::optional<net::Bytes> result = state().calls->call(process, function, argument);
  if (!result) net::await_end_of_job(process);
  return *std::move(result);
}

void tell(int process, net::HandlerId handler, std::span<const std::byte> message) {
  net::Transport& t = *state().transport;
  net::until_taken(t, [&] { return t.try_message_async({process, handler, message.data(), message.size(), {}}); });
}

// ------------------------------------------------------------------------------------------------ movement

// Hands over the slot of a thread that is in no queue. Serving thread or worker; this process has released.
net::Bytes move_out(Descriptor* d, int to) {
  Moving m;
  m.slot = d->slot;
  m.first_used = gas::page_of(d->sp);
  net::Bytes message(sizeof m);
  m.moves = dsm::remote()->give_slot(d->slot, m.first_used, to, message);
  const std::uint64_t word = d->join.move_out();  // Q2: who found it here before has left its mark in the word
  m.join = word;
  if (word != JoinWord::kRunning && word != JoinWord::kDetached) {
    auto* const waiter = reinterpret_cast<Descriptor*>(word);  // NOLINT: J3
    m.waiter = waiter_of(waiter);
    m.join = JoinWord::kMoved;
    retire(waiter);
  }
  std::memcpy(m.descriptor.data(), static_cast<const void*>(d), sizeof m.descriptor);
  std::memcpy(message.data(), &m, sizeof m);
  return message;
}

// Null: there was none.
Descriptor* move_in(std::span<const std::byte> message) {
  if (message.empty()) return nullptr;
  const Moving m = read_as<Moving>(message);
  Descriptor& d = thread_at(m.slot);
  const std::uint64_t waits = d.wait_sequence;
  std::memcpy(static_cast<void*>(&d), m.descriptor.data(), sizeof d);
  AYT_CHECK(d.slot == m.slot, "a peer sent thread {} as {}", d.slot, m.slot);
  d.wait_sequence = std::max(d.wait_sequence, waits);
  d.next = nullptr;
  d.sanitizer = nullptr;
  d.needs_acquire = true;
  d.join.move_in(m.join != JoinWord::kMoved ? m.join : reinterpret_cast<std::uint64_t>(local_for(m.waiter)));
  const auto end = gas::slot_first(d.slot) + static_cast<gas::PageIndex>(gas::layout().slot_pages);
  const std::span<const std::byte> pages = message.subspan(sizeof m);
  AYT_CHECK(m.first_used >= gas::slot_first(d.slot) && m.first_used <= end &&
                pages.size() == std::size_t{end - m.first_used} << gas::kPageShift,
            "a peer sent {} bytes of a stack", pages.size());
  dsm::remote()->take_slot(d.slot, m.first_used, pages, m.moves);
  note_stack(d.slot);
  return &d;
}

// ------------------------------------------------------------------------------------------------ served

net::Bytes on_steal(void*, net::ProcessId caller, std::span<const std::byte> argument) {
  const auto random = read_as<std::uint64_t>(argument);
  Descriptor* const d = ult::take_across(self(), random);
  if (!d) return {};
  if (d->placement != ult::Placement::kBegun && holder_of(d->slot) != self())
    return copy_of(bytes_of(Hinted{d->slot, dsm::remote()->moves_of(d->slot), holder_of(d->slot)}));
  dsm::remote()->release();
  return move_out(d, caller);
}

Descriptor& asked_for(std::span<const std::byte> argument) {
  Descriptor& d = thread_at(read_as<Named>(argument).slot);
  AYT_CHECK(holder_of(slot_of(&d)) == self(), "a peer asked for stack {}, which is not here", slot_of(&d));
  return d;
}

net::Bytes on_bring(void*, net::ProcessId caller, std::span<const std::byte> argument) {
  Descriptor& d = asked_for(argument);
  d.sp = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(d.object) & ~std::uintptr_t{15});  // NOLINT
  dsm::remote()->release();
  return move_out(&d, caller);
}

// The stack is fetched by the worker that starts the thread: nothing that is waited for arrives on the serving thread.
net::Bytes on_place(void*, net::ProcessId caller, std::span<const std::byte> argument) {
  const auto placed = read_as<Placed>(argument);
  Descriptor& d = thread_at(placed.slot);
  dsm::remote()->learn_holder(placed.slot, caller, placed.moves);
  d.slot = placed.slot;
  d.placement = placed.placement;
  d.high.store(placed.high, std::memory_order_relaxed);
  d.pins = 0;
  ult::push_placed(&d, self());
  return {};
}

net::Bytes on_start(void*, net::ProcessId caller, std::span<const std::byte> argument) {
  Descriptor& d = asked_for(argument);
  dsm::remote()->release();
  return move_out(&d, caller);
}

struct Want {  // the argument of kSpare
  std::uint32_t count, surplus;
};

net::Bytes on_spare(void*, net::ProcessId caller, std::span<const std::byte> argument) {
  const auto want = read_as<Want>(argument);
  net::Bytes slots;
  for (Descriptor* d = want.surplus != 0 ? own_surplus_threads(want.count) : own_spare_threads(want.count); d;) {
    Descriptor* const next = d->next;
    const Spare spare{d->slot, dsm::remote()->give_dead_slot(d->slot, caller), d->generation, d->wait_sequence};
    d->join.move_out();
    const auto bytes = bytes_of(spare);
    slots.insert(slots.end(), bytes.begin(), bytes.end());
    d = next;
  }
  return slots;
}

void answer_join(const Waiter& waiter, const Descriptor& ended) {
  Wake wake{waiter, false, false, self(), ended.error, ended.result};
  tell(waiter.process, kWakeHandler, bytes_of(wake));
}

net::Bytes on_join(void*, net::ProcessId, std::span<const std::byte> argument) {
  const Join join = read_as<Join>(argument);
  Descriptor& d = thread_at(join.slot);
  const int holder = holder_of(join.slot);
  Descriptor* const waiter = holder == self() ? local_for(join.waiter) : nullptr;
  const std::uint64_t word = waiter ? d.join.wait(reinterpret_cast<std::uint64_t>(waiter)) : JoinWord::kMoved;
  if (word == JoinWord::kRunning) return {};
  if (waiter) retire(waiter);
  if (word == JoinWord::kMoved) {
    state().calls->post(holder_of(join.slot), kJoin, copy_of(argument));  // Q3
    return {};
  }
  if (!JoinWord::is_done(word)) return {};  // another thread joins it: misuse, which waits for ever
  dsm::remote()->release_since(d.ended);
  answer_join(join.waiter, d);
  return {};
}

constexpr std::int64_t kLostNs = 5 * base::kNsPerSecond;  // in which the launcher tells why
constexpr int kLostExit = 134;                            // as of everything that the runtime cannot survive

constexpr std::int32_t kFound = -2;  // where a holder's number stands otherwise

// kFound: it is done; or who holds it; kNobody: it has just come or gone, ask again.
std::int32_t detach_here(gas::SlotIndex slot) {
  Descriptor& d = thread_at(slot);
  const int holder = holder_of(slot);
  const std::uint64_t word = holder == self() ? d.join.detach() : JoinWord::kMoved;
  if (word == JoinWord::kMoved) return holder != self() ? holder : gas::kNobody;
  if (JoinWord::is_done(word) && d.error) ult::terminate_with(&d);
  if (JoinWord::is_done(word)) {
    ++d.generation;
    ult::free_thread(&d);
  }
  return kFound;
}

net::Bytes on_detach(void*, net::ProcessId, std::span<const std::byte> argument) {
  return copy_of(bytes_of(detach_here(read_as<Named>(argument).slot)));
}

// Of a thread that is held here, or was a moment ago: `holder` says which.
Found facts_here(const Descriptor& d) {
  const int before = holder_of(slot_of(&d));
  const std::uint64_t word = d.join.load();
  const bool plain = JoinWord::is_done(word) || word == JoinWord::kRunning || word == JoinWord::kDetached;
  const ThreadFacts facts{ult::number_of(&d), d.invoke, plain ? word : JoinWord::kMoved, d.root,
                          d.high.load(std::memory_order_relaxed)};
  const int after = holder_of(slot_of(&d));
  return {facts, before == after ? after : gas::kNobody};
}

net::Bytes on_facts(void*, net::ProcessId, std::span<const std::byte> argument) {
  const gas::SlotIndex slot = read_as<Named>(argument).slot;
  return copy_of(bytes_of(facts_here(thread_at(slot))));
}

// Asks a thread that may be held here to end. Where it has left meanwhile it is asked again: once more changes nothing.
Found cancel_here(const Cancelled& c) {
  Descriptor& d = thread_at(c.slot);
  const int before = holder_of(c.slot);
  if (before == self() && (ult::ask_to_cancel(&d, c.generation) & ult::kCancelDisabled) == 0)
    sync::end_cancelled_wait(&d);
  return {{}, before == holder_of(c.slot) ? before : gas::kNobody};
}

net::Bytes on_cancel(void*, net::ProcessId, std::span<const std::byte> argument) {
  const auto c = read_as<Cancelled>(argument);
  return copy_of(bytes_of(cancel_here(c)));
}

// As cancel_here().
Found prioritise_here(const Prioritised& c) {
  Descriptor& d = thread_at(c.slot);
  const int before = holder_of(c.slot);
  if (before == self() && d.generation == c.generation) d.high.store(c.high, std::memory_order_relaxed);  // T5
  return {{}, before == holder_of(c.slot) ? before : gas::kNobody};
}

net::Bytes on_priority(void*, net::ProcessId, std::span<const std::byte> argument) {
  return copy_of(bytes_of(prioritise_here(read_as<Prioritised>(argument))));
}

CThreads c_threads_here() {
  CThreads sums{};
  ProcessQueues& q = mine();
  for (int i = 0; i < q.workers; ++i) {
    ult::WorkerCounters& c = q.worker[i].counters;
    sums.ended += std::atomic_ref(c.c_ended).load(std::memory_order_acquire);
    sums.begun += std::atomic_ref(c.c_begun).load(std::memory_order_acquire);
  }
  return sums;
}

net::Bytes on_c_threads(void*, net::ProcessId, std::span<const std::byte>) {
  return copy_of(bytes_of(c_threads_here()));
}

net::Bytes on_sync(void*, net::ProcessId, std::span<const std::byte> argument) {
  return copy_of(bytes_of(sync::serve(read_as<sync::Call>(argument))));
}

net::Bytes on_names(void*, net::ProcessId, std::span<const std::byte> argument) {
  return copy_of(bytes_of(names::serve(read_as<names::Request>(argument))));
}

// ------------------------------------------------------------------------------------------------ heap

net::Bytes on_free(void*, net::ProcessId, std::span<const std::byte> argument) {
  std::vector<void*> objects(argument.size() / sizeof(void*));
  std::memcpy(objects.data(), argument.data(), objects.size() * sizeof(void*));
  gas::heap::freed_elsewhere(objects.data(), objects.size());
  return {};
}

net::Bytes on_size(void*, net::ProcessId, std::span<const std::byte> argument) {
  return copy_of(bytes_of(gas::heap::usable_size(read_as<void*>(argument))));
}

net::Bytes on_large(void*, net::ProcessId caller, std::span<const std::byte> argument) {
  const auto asked = read_as<LargeAsked>(argument);
  LargeTaken taken{};
  taken.address = gas::heap::allocate_for(caller, asked.bytes, asked.align, &taken.segment, &taken.zero);
  return copy_of(bytes_of(taken));
}

void on_owner(void* transport, const net::Message& message) {
  const auto page = read_as<gas::PageIndex>({message.payload, message.size_bytes});
  const int owner = page < gas::layout().pages ? gas::static_owner(page) : gas::kNobody;
  static_cast<net::Transport*>(transport)->reply(message.token, &owner, sizeof owner);
}

void on_punch(void* transport, const net::Message& message) {
  const auto range = read_as<PageRange>({message.payload, message.size_bytes});
  const std::size_t pages = gas::layout().pages;
  AYT_CHECK(range.first >= gas::layout().large_first && range.first <= pages && range.pages <= pages - range.first,
            "process {} gave back {} pages from {}", message.source, range.pages, range.first);
  gas::punch(self(), range.first, range.pages);
  static_cast<net::Transport*>(transport)->reply(message.token, nullptr, 0);
}

int ask_owner(gas::PageIndex page) {
  int owner = gas::kNobody;
  const net::Completion done =
      net::rpc(*state().transport, 0, kOwnerHandler, &page, sizeof page, {&owner}, sizeof owner);
  if (!done.ok()) net::await_end_of_job(0);
  AYT_CHECK(owner == gas::kNobody || (owner >= 0 && owner < processes()), "process 0 named process {}", owner);
  return owner;
}

void ask_punch(int process, gas::PageIndex first, std::size_t pages) {
  const PageRange range{first, static_cast<std::uint32_t>(pages)};
  if (!net::rpc(*state().transport, process, kPunchHandler, &range, sizeof range, {}, 0).ok())
    net::await_end_of_job(process);
}

void free_elsewhere(int process, void* const* objects, std::size_t count) {
  connect();
  state().calls->post(process, kFree, copy_of(std::as_bytes(std::span(objects, count))));
}

std::size_t size_elsewhere(int process, const void* object) {
  return read_as<std::size_t>(call(process, kSize, bytes_of(object)));
}

void* take_large_elsewhere(std::size_t bytes, std::size_t align, gas::Segment* segment, bool* zero) {
  const LargeAsked asked{bytes, align};
  const auto taken = read_as<LargeTaken>(call(0, kLarge, bytes_of(asked)));
  const gas::Segment& s = taken.segment;
  AYT_CHECK(s.first <= gas::layout().pages && s.pages <= gas::layout().pages - s.first,
            "process 0 gave {} pages from {}", s.pages, s.first);
  *segment = s;
  *zero = taken.zero;
  return taken.address;
}

// ------------------------------------------------------------------------------------------------ handlers

void on_wake(void*, const net::Message& message) {
  const Wake w = read_as<Wake>({message.payload, message.size_bytes});
  Descriptor* const d = w.waiter.os != 0 ? sync::os_waiter(w.waiter.index) : &thread_at(w.waiter.index);
  if (w.ended_at >= 0) {
    d->joined = JoinWord::done_at(w.ended_at);
    d->joined_error = w.error;
    d->joined_result = w.result;
  }
  d->timed_out = w.timed_out;
  d->barrier_last = w.barrier_last;
  wake(d);
}

void on_freed(void*, const net::Message& message) {
  Descriptor& d = thread_at(read_as<Named>({message.payload, message.size_bytes}).slot);
  AYT_CHECK(holder_of(slot_of(&d)) == self(), "process {} freed stack {}, which is not here", message.source,
            slot_of(&d));
  d.error = nullptr;
  ++d.generation;  // its number names no thread any more
  ult::free_thread(&d);
}

void on_finished(void*, const net::Message& message) {
  net::bootstrap::set_result(read_as<std::int32_t>({message.payload, message.size_bytes}));
  finish_here();
}

void on_peer_failed(void*, net::ProcessId process) {
  State& s = state();
  s.calls->on_peer_failed(process);
  if (s.lost.load(std::memory_order_relaxed) >= 0) return;  // only this thread writes it
  s.lost_ns.store(base::real_now_ns(), std::memory_order_relaxed);
  s.lost.store(process, std::memory_order_release);  // pairs with look_for_lost()
}

void on_left(void*, const net::Message& message) {
  state().left.fetch_or(std::uint64_t{1} << message.source, std::memory_order_release);  // pairs with others_stay()
}

// ------------------------------------------------------------------------------------------------ hooks of ult

void join_apart(Descriptor* self_, Descriptor* child) {
  const Join join{slot_of(child), waiter_of(self_)};
  state().calls->post(holder_of(join.slot), kJoin, copy_of(bytes_of(join)));
}

void fetch(Descriptor* d, Function how) {
  const Named named{slot_of(d)};
  const int holder = holder_of(named.slot);
  if (holder != self()) move_in(call(holder, how, bytes_of(named)));
}

Descriptor* steal(Worker& w) {
  const int victim = next_victim(w);
  if (victim < 0) return nullptr;
  const std::int64_t start = base::real_now_ns();
  const std::uint64_t random = w.random >> 40;
  const net::Bytes answer = call(victim, kSteal, bytes_of(random));
  Descriptor* d = nullptr;
  if (answer.size() == sizeof(Hinted)) {
    const auto hinted = read_as<Hinted>(answer);
    d = &thread_at(hinted.slot);
    if (hinted.holder != self()) dsm::remote()->learn_holder(hinted.slot, hinted.holder, hinted.moves);
    fetch(d, kStart);
  } else {
    d = move_in(answer);
  }
  if (d) d->placement = ult::Placement::kBegun;
  asked_victim(w, victim, d != nullptr);
  w.counters.steal_ns += static_cast<std::uint64_t>(base::real_now_ns() - start);
  return d;
}

// Asks `ask(process)` about what lies on a stack, from holder to holder (R1 of peers.hpp), until its answer is none of them.
template <class Ask>
void follow_holders(gas::SlotIndex slot, Ask&& ask) {
  base::SpinThenSleep again(1);
  for (int at = holder_of(slot);;) {
    const std::int32_t next = ask(at);
    if (next == kFound) return;
    if (next == gas::kNobody || next == at) {
      again.wait();
      continue;
    }
    AYT_CHECK(next >= 0 && next < processes(), "a peer named process {}", next);
    at = next;
  }
}

// When it returns, the thread is detached, whoever asks.
void detach_apart(Descriptor* child) {
  call_native(
      [](void* c) {
        const Named named{slot_of(static_cast<Descriptor*>(c))};
        follow_holders(named.slot, [&](int at) {
          return at == self() ? detach_here(named.slot) : read_as<std::int32_t>(call(at, kDetach, bytes_of(named)));
        });
      },
      child);
}

void wake_apart(Descriptor* proxy, Descriptor* ended) {
  if (!ended) return wake(proxy);
  const Waiter waiter = waiter_of(proxy);
  retire(proxy);
  answer_join(waiter, *ended);
}

// The process travels in the descriptor: the call takes one pointer, and the caller's stack may lie in the space.
void free_apart(Descriptor* d, int process) {
  d->proxy_process = process;
  call_native(
      [](void* p) {
        auto* const freed = static_cast<Descriptor*>(p);
        tell(freed->proxy_process, kFreedHandler, bytes_of(Named{slot_of(freed)}));
      },
      d);
}

void place_apart(Descriptor* child, int process) {
  const Placed placed{child->slot, dsm::remote()->moves_of(child->slot), child->placement,
                      child->high.load(std::memory_order_relaxed)};
  state().calls->post(process, kPlace, copy_of(bytes_of(placed)));
}

bool is_on_this_machine(int process) noexcept {
  const net::bootstrap::Job& job = net::bootstrap::job();
  const int local = process - job.control->first_process;
  return local >= 0 && local < job.process_count;
}

bool others_stay() noexcept {
  const net::bootstrap::Job& job = net::bootstrap::job();
  const auto stays = [](const net::bootstrap::MemberControl& m) {
    return m.has_left.load(std::memory_order_acquire) == 0 && m.has_exited.load(std::memory_order_acquire) == 0;
  };
  if (std::any_of(job.control->members, job.control->members + job.process_count, stays)) return true;
  const std::uint64_t left = state().left.load(std::memory_order_acquire);
  for (int p = 0; p < processes(); ++p)
    if (!is_on_this_machine(p) && (left >> p & 1) == 0 && !state().transport->peer_failed(p)) return true;
  return false;
}

// At the exit of a member, after the destructors of its static objects: what it holds may still be asked for by the others,
// until all have come so far or are gone.
void stay_to_the_end() {
  if (getpid() != state().member || running()) return;  // a child that the program forked; exit() inside the run
  mark_left();
  if (!connected() || !finished()) return;
  for (int p = 0; p < processes(); ++p)
    if (!is_on_this_machine(p)) tell(p, kLeftHandler, {});
  base::SpinThenSleep again(1);
  while (!net::bootstrap::job_ending() && others_stay()) again.wait();
  // A library below a transport must not be unloaded under its threads.
  state().calls->stop();
  state().transport.reset();
  state().calls.reset();
}

void join_network() {
  State& s = state();
  // However late the others come, as with shared memory; the launcher ends the job when one does not come at all.
  const net::bootstrap::Phase phase = net::bootstrap::phase();
  net::bootstrap::set_phase(net::bootstrap::Phase::kRunning);
  net::bootstrap::barrier_wait(*net::bootstrap::job().control);
  if (const base::Status status = net::attach_job_network(&s.transport); !status.ok())
    net::bootstrap::end_job(base::kStartFailureExit, status.message());
  net::bootstrap::set_phase(phase);
  net::Transport& t = *s.transport;
  dsm::attach_network(t);
  s.calls.emplace(t);
  s.calls->serve(kSteal, on_steal, nullptr);
  s.calls->serve(kBring, on_bring, nullptr);
  s.calls->serve(kPlace, on_place, nullptr);
  s.calls->serve(kStart, on_start, nullptr);
  s.calls->serve(kSpare, on_spare, nullptr);
  s.calls->serve(kJoin, on_join, nullptr);
  s.calls->serve(kDetach, on_detach, nullptr);
  s.calls->serve(kSync, on_sync, nullptr);
  s.calls->serve(kNames, on_names, nullptr);
  s.calls->serve(kFacts, on_facts, nullptr);
  s.calls->serve(kCancel, on_cancel, nullptr);
  s.calls->serve(kPriority, on_priority, nullptr);
  s.calls->serve(kCThreads, on_c_threads, nullptr);
  s.calls->serve(kFree, on_free, nullptr);
  s.calls->serve(kSize, on_size, nullptr);
  s.calls->serve(kLarge, on_large, nullptr);
  t.set_handler(kOwnerHandler, on_owner, &t);
  t.set_handler(kPunchHandler, on_punch, &t);
  gas::set_large_hooks({ask_owner, ask_punch});
  t.set_handler(kWakeHandler, on_wake, nullptr);
  t.set_handler(kFreedHandler, on_freed, nullptr);
  t.set_handler(kFinishedHandler, on_finished, nullptr);
  t.set_handler(kLeftHandler, on_left, nullptr);
  t.set_peer_failure_handler(on_peer_failed, nullptr);
  t.start();
  s.calls->start();
  dsm::start_network();
  s.connected.store(true, std::memory_order_release);  // pairs with connected()
}

}  // namespace

void attach() {
  state().member = getpid();
  std::atexit(stay_to_the_end);
}
void mark_left() noexcept {
  const net::bootstrap::Job& job = net::bootstrap::job();
  job.control->members[job.process_id].has_left.store(1, std::memory_order_release);
}
void connect() { std::call_once(state().once, join_network); }
bool connected() noexcept { return state().connected.load(std::memory_order_acquire); }
bool active() noexcept { return ult::config().apart; }

Waiter waiter_of(const Descriptor* d) noexcept {
  if (d->proxy) return {d->proxy_process, d->proxy_index, d->proxy_os ? 1u : 0u};
  if (d->os_thread) return {self(), sync::os_waiter_index(d), 1};
  return {self(), d->slot, 0};
}

Descriptor* local_for(const Waiter& waiter) {
  if (waiter.process == self()) return waiter.os != 0 ? sync::os_waiter(waiter.index) : &thread_at(waiter.index);
  State& s = state();
  Descriptor* proxy = nullptr;
  {
    const std::lock_guard guard(s.proxies_lock);
    if (!s.free_proxies.empty()) {
      proxy = s.free_proxies.back();
      s.free_proxies.pop_back();
    }
  }
  if (!proxy) proxy = new Descriptor{};  // never freed: a timer may outlive its wait
  proxy->proxy = true;
  proxy->proxy_process = waiter.process;
  proxy->proxy_index = waiter.index;
  proxy->proxy_os = waiter.os != 0;
  proxy->timed_out = false;
  proxy->barrier_last = false;
  return proxy;
}

void retire(Descriptor* d) {
  if (!d->proxy) return;
  State& s = state();
  const std::lock_guard guard(s.proxies_lock);
  s.free_proxies.push_back(d);
}

void wake(Descriptor* d) {
  if (d->proxy) {
    const Wake message{waiter_of(d), d->timed_out, d->barrier_last, -1, nullptr, nullptr};
    retire(d);
    tell(message.waiter.process, kWakeHandler, bytes_of(message));
    return;
  }
  d->needs_acquire = true;
  ult::make_ready(d, true);
}

void ask(int process, const sync::Call& call) {
  connect();
  state().calls->post(process, kSync, copy_of(bytes_of(call)));
}
std::uint64_t ask_value(int process, const sync::Call& question) {
  connect();
  return read_as<std::uint64_t>(call(process, kSync, bytes_of(question)));
}

names::Answer ask_names(const names::Request& request) {
  connect();
  return read_as<names::Answer>(call(0, kNames, bytes_of(request)));
}

// Arguments and results on their way to the native stack. Set and read on one worker.
namespace {
struct FactsCall {
  gas::SlotIndex slot;
  ThreadFacts facts;
};
[[gnu::noinline]] FactsCall& facts_call() {
  thread_local FactsCall c;
  return c;
}
[[gnu::noinline]] Prioritised& priority_call() {
  thread_local Prioritised c;
  return c;
}
[[gnu::noinline]] Cancelled& cancel_call() {
  thread_local Cancelled c;
  return c;
}
struct CThreadsCall {
  int process;
  CThreads sums;
};
[[gnu::noinline]] CThreadsCall& c_threads_call() {
  thread_local CThreadsCall c;
  return c;
}
}  // namespace

ThreadFacts facts_of(const Descriptor* d) {
  facts_call().slot = slot_of(d);
  call_native(
      [](void*) {
        FactsCall& c = facts_call();
        follow_holders(c.slot, [&](int at) {
          const Found found =
              at == self() ? facts_here(thread_at(c.slot)) : read_as<Found>(call(at, kFacts, bytes_of(Named{c.slot})));
          c.facts = found.facts;
          return found.holder == at ? kFound : found.holder;
        });
      },
      nullptr);
  return facts_call().facts;  // call_native does not switch threads
}

void cancel(const Descriptor* d, std::uint32_t generation) {
  cancel_call() = {slot_of(d), generation};
  call_native(
      [](void*) {
        const Cancelled c = cancel_call();
        if (!gas::apart()) {
          Descriptor& thread = thread_at(c.slot);
          if ((ult::ask_to_cancel(&thread, c.generation) & ult::kCancelDisabled) == 0)
            sync::end_cancelled_wait(&thread);
          return;
        }
        follow_holders(c.slot, [&](int at) {
          const Found found = at == self() ? cancel_here(c) : read_as<Found>(call(at, kCancel, bytes_of(c)));
          return found.holder == at ? kFound : found.holder;
        });
      },
      nullptr);
}

void set_priority(const Descriptor* d, std::uint32_t generation, bool high) {
  priority_call() = {slot_of(d), generation, high};
  call_native(
      [](void*) {
        const Prioritised c = priority_call();
        if (!gas::apart()) {
          Descriptor& thread = thread_at(c.slot);
          if (thread.generation == c.generation) thread.high.store(c.high, std::memory_order_relaxed);  // T5
          return;
        }
        follow_holders(c.slot, [&](int at) {
          const Found found = at == self() ? prioritise_here(c) : read_as<Found>(call(at, kPriority, bytes_of(c)));
          return found.holder == at ? kFound : found.holder;
        });
      },
      nullptr);
}

bool is_waiter(const Descriptor* thread, const Descriptor* d) noexcept {
  const std::uint64_t word = d->join.load();
  if (JoinWord::is_done(word) || word <= JoinWord::kMoved) return false;
  const auto* const waiter = reinterpret_cast<const Descriptor*>(word);  // NOLINT: J3
  return waiter == thread || (waiter->proxy && !waiter->proxy_os && waiter->proxy_index == slot_of(thread));
}

CThreads c_threads(int process) {
  c_threads_call().process = process;
  call_native(
      [](void*) {
        CThreadsCall& c = c_threads_call();
        c.sums = c.process == self() ? c_threads_here() : read_as<CThreads>(call(c.process, kCThreads, {}));
      },
      nullptr);
  return c_threads_call().sums;  // call_native does not switch threads
}

Descriptor* spare_threads(int process, std::uint32_t count, bool surplus) {
  const net::Bytes slots = call(process, kSpare, bytes_of(Want{count, surplus ? 1u : 0u}));
  Descriptor* list = nullptr;
  for (std::size_t at = 0; at + sizeof(Spare) <= slots.size(); at += sizeof(Spare)) {
    const auto spare = read_as<Spare>(std::span(slots).subspan(at));
    Descriptor& d = thread_at(spare.slot);
    d.slot = spare.slot;
    d.generation = std::max(d.generation, spare.generation);
    d.wait_sequence = std::max(d.wait_sequence, spare.wait_sequence);
    d.stack_top = fresh_stack_top(spare.slot);
    // What this process last knew of a thread on that stack.
    d.error = nullptr;
    d.joined = 0;
    d.pins = 0;
    d.placement = ult::Placement::kBegun;
    d.has_values = false;
    d.fault_frame = nullptr;
    d.needs_acquire = false;
    dsm::remote()->take_dead_slot(spare.slot, spare.moves);
    note_stack(spare.slot);
    d.next = list;
    list = &d;
  }
  return list;
}

void set_hooks(ult::Hooks& hooks) {
  hooks.steal_remote = steal;
  hooks.bring_placed = [](Descriptor* d) { fetch(d, kBring); };
  hooks.start_placed = [](Descriptor* d) { fetch(d, kStart); };
  hooks.release = [] { dsm::remote()->release(); };
  hooks.join_apart = join_apart;
  hooks.detach_apart = detach_apart;
  hooks.wake_apart = wake_apart;
  hooks.free_apart = free_apart;
  hooks.place_apart = place_apart;
}

net::Counters counters() noexcept { return connected() ? state().transport->counters() : net::Counters{}; }

void set_heap_hooks(gas::heap::Hooks& hooks) {
  hooks.free_elsewhere = free_elsewhere;
  hooks.size_elsewhere = size_elsewhere;
  hooks.take_large_elsewhere = take_large_elsewhere;
}

void tell_finished() {
  std::int32_t status = 0;
  net::bootstrap::get_result(status);
  for (int p = 0; p < processes(); ++p)
    if (p != self()) tell(p, kFinishedHandler, bytes_of(status));
}

void look_for_lost() {
  const int lost = state().lost.load(std::memory_order_acquire);
  if (lost < 0 || base::real_now_ns() - state().lost_ns.load(std::memory_order_relaxed) < kLostNs) return;
  char why[160];
  const char* const host = net::bootstrap::job().control->cards[lost].host;
  const std::size_t bytes =
      base::print_to(why, "process {}{}{} is not reached any more", lost, *host != '\0' ? " on host " : "", host);
  net::bootstrap::end_job(kLostExit, {why, bytes});
}

void await_all() {
  if (net::bootstrap::job().is_wide() && !net::barrier(*state().transport).ok()) net::await_end_of_job(-1);
}

}  // namespace ayatori::tasks::remote
