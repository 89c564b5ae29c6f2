// SPDX-License-Identifier: Apache-2.0
// What include/ayatori/ayatori.hpp declares: threads, atomics, synchronisation, the job. Memory is in memory.cpp.
#include <ayatori/ayatori.hpp>
#include <cstdio>
#include <cstdlib>

#include "api/check_mode.hpp"
#include "api/start.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "dsm/dsm.hpp"
#include "gas/space.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "net/bootstrap/surroundings.hpp"
#include "tasks/atomics.hpp"
#include "tasks/keys.hpp"
#include "tasks/remote.hpp"
#include "tasks/runtime.hpp"
#include "tasks/sync.hpp"
#include "ult/current.hpp"
#include "ult/fast.hpp"
#include "ult/scheduler.hpp"

namespace ayatori {

namespace {

std::exception_ptr take_error(detail::Descriptor* d) noexcept {
  static_assert(sizeof(std::exception_ptr) == sizeof(void*));
  std::exception_ptr error;
  auto* stored = reinterpret_cast<std::exception_ptr*>(&d->error);
  if (d->error) {
    error = std::move(*stored);
    d->error = nullptr;
  }
  return error;
}

// An exception left a detached thread: ends the job as std::terminate does, with its message.
[[noreturn]] void terminate_with(std::exception_ptr error) noexcept {
  try {
    std::rethrow_exception(std::move(error));
  } catch (...) {
    std::terminate();
  }
}

}  // namespace

int process_id() noexcept { return net::bootstrap::job().number(); }
int process_count() noexcept { return net::bootstrap::job().processes(); }
int worker_count() noexcept { return tasks::workers(); }
int worker_id() noexcept { return ult::on_user_thread() ? ult::current_worker()->number : -1; }

stats snapshot() noexcept {
  stats s;
  const tasks::StatsRow row = tasks::worker_stats();
  s.threads_forked = row.threads_forked;
  s.steals_local = row.steals_local;
  s.steals_remote = row.steals_remote;
  s.joins_remote = row.joins_remote;
  s.steals_beyond = row.steals_beyond;
  s.compute_ns = row.compute_ns;
  s.idle_ns = row.idle_ns;
  s.steal_ns = row.steal_ns;
  s.fault_ns = dsm::fault_ns();
  s.compute_ns -= std::min(s.compute_ns, s.fault_ns + s.steal_ns);
  if (tasks::processes() > 1) {
    const dsm::Counters& c = dsm::protocol().process(tasks::self()).counters;
    s.read_faults = c.read_faults;
    s.write_faults = c.write_faults;
    s.blocks_fetched = c.blocks_fetched;
    s.bytes_sent = c.bytes_sent;
    s.bytes_received = c.bytes_received;
    s.diffs_sent = c.diffs_sent;
    s.diff_bytes = c.diff_bytes;
    s.invalidations = c.invalidations;
    s.releases = c.releases;
    s.acquires = c.acquires;
    const net::Counters net = tasks::remote::counters();
    s.messages_sent = net.messages_sent;
    s.messages_by_memory = net.messages_by_memory;
  }
  return s;
}

namespace detail {

bool upper_first() noexcept { return ult::upper_first(); }
bool nothing_to_steal() noexcept { return ult::nothing_to_steal(); }

namespace {

void publish() {
  const stats s = snapshot();
  const std::uint64_t row[] = {
      s.threads_forked, s.steals_local,       s.steals_remote,  s.joins_remote,  s.read_faults, s.write_faults,
      s.blocks_fetched, s.bytes_sent,         s.bytes_received, s.messages_sent, s.diffs_sent,  s.diff_bytes,
      s.invalidations,  s.releases,           s.acquires,       s.compute_ns,    s.idle_ns,     s.fault_ns,
      s.steal_ns,       s.messages_by_memory, s.steals_beyond};
  net::bootstrap::publish_stats(row);
}

// exit() inside the run. On a native stack: nothing of this may suspend the thread that exits.
void publish_at_exit() noexcept {
  tasks::call_native(
      [](void*) {
        api::check_mode::end_at_exit();
        if (net::bootstrap::stats_wanted()) publish();
      },
      nullptr);
}

}  // namespace

int run_job(int argc, char** argv, void (*construct)(void*, void*), int (*call)(void*, RootArgs),
            void (*destroy)(void*), void* from, std::size_t align, std::size_t bytes) {
  api::ensure_started();
  static constinit std::atomic<bool> called{false};
  if (called.exchange(true)) net::bootstrap::end_job(125, "ayatori::run was called a second time: a job has one run");
  net::bootstrap::refuse_several_machines();
  tasks::Root root{};
  root.construct = construct;
  root.call = reinterpret_cast<void*>(call);
  root.invoke = [](void* function, void* object, int n, char** v) {
    return reinterpret_cast<int (*)(void*, RootArgs)>(function)(object, RootArgs{n, v});
  };
  root.destroy = destroy;
  root.from = from;
  root.align = align;
  root.bytes = bytes;
  root.argc = argc;
  root.argv = argv;
  api::check_mode::begin();
  net::bootstrap::set_exit_hook(publish_at_exit);
  const int status = tasks::run(root);
  api::check_mode::end();
  if (net::bootstrap::stats_wanted()) publish();
  return status;
}

namespace {

[[gnu::cold, gnu::noinline, noreturn]] void no_thread() {
  if (!ult::on_user_thread())
    throw std::system_error(std::make_error_code(std::errc::operation_not_permitted),
                            "ayatori::thread outside ayatori::run");
  throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again),
                          "ayatori::thread: no stack left (AYATORI_SPACE_SIZE, AYATORI_STACK_SIZE)");
}

std::exception_ptr reap_joined(Descriptor* d) noexcept {
  std::exception_ptr error = take_error(d);
  ult::reap(d);
  return error;
}

[[gnu::noinline]] void join_slowly(Descriptor*& handle) {
  Descriptor* const d = handle;
  if (!ult::join(d)) [[unlikely]]
    throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur),
                            "ayatori::thread: a thread joins itself");
  handle = nullptr;
  if (std::exception_ptr error = reap_joined(d)) std::rethrow_exception(std::move(error));
}

[[gnu::noinline]] std::exception_ptr join_slowly_nothrow(Descriptor* d) noexcept {
  ult::join(d);
  return reap_joined(d);
}

}  // namespace

Allocated allocate_thread(std::size_t align, std::size_t bytes) {
  const ult::Room room = ult::allocate(align, bytes);
  if (!room.thread) [[unlikely]]
    no_thread();
  return {room.thread, room.object};
}

namespace {
// Where the caller went elsewhere since, and processes share no memory, the child's descriptor there knows nothing (Q1 of
// tasks/remote.hpp), not even where its stack is.
void note_stack(const Allocated& child, int allocated_at) noexcept {
  if (allocated_at >= 0) child.thread->stack_process = allocated_at;
}
}  // namespace

void fork_thread(Allocated child, void (*invoke)(void*), Where where, int allocated_at) noexcept {
  note_stack(child, allocated_at);
  if (where.high) child.thread->high.store(true, std::memory_order_relaxed);  // T5
  if (where.process < 0 || (where.hint && where.process == process_id()))
    ult::fork(child.thread, invoke);
  else
    ult::fork_placed(child.thread, invoke, where.process, where.hint ? Placement::kHinted : Placement::kPlaced);
}

void fork_thread_at_once(Descriptor* child, void (*invoke)(void*)) noexcept { ult::fork_at_once(child, invoke); }

void* abandon_thread(Allocated child, int allocated_at) noexcept {
  note_stack(child, allocated_at);
  ult::abandon(child.thread);
  return child.object;
}

std::exception_ptr join_thread_nothrow(Descriptor* d) noexcept {
  if (ult::join_and_reap(d)) [[likely]]
    return nullptr;
  return join_slowly_nothrow(d);
}

void join_thread(Descriptor*& handle) {
  if (ult::join_and_reap(handle)) [[likely]]
    handle = nullptr;
  else
    join_slowly(handle);
}

void detach_thread(Descriptor* d) noexcept {
  if (!ult::detach(d) && d->error) terminate_with(take_error(d));
}

std::uint64_t reap_thread(Descriptor* d) noexcept {
  if (!ult::on_user_thread()) [[unlikely]]
    return 0;
  if (d->join.load() != ult::config().done_here || d->error) return 0;
  const std::uint64_t number = ult::number_of(d);  // apart, too: the word says that it is held here (Q1)
  if (!ult::join_and_reap(d)) [[unlikely]]
    ult::reap(d);  // the worker has enough of them
  return number;
}

bool thread_ended(const Descriptor* d) noexcept {
  if (!d) return true;
  const std::uint64_t word = d->join.load();
  // Apart, the word of a thread that another process holds says nothing (Q1).
  return word == ult::config().done_here || (!gas::apart() && ult::JoinWord::is_done(word));
}

std::uint64_t thread_number(const Descriptor* d) noexcept {
  return gas::apart() ? tasks::remote::facts_of(d).number : ult::number_of(d);
}
std::uint64_t current_thread_number() noexcept {
  return ult::on_user_thread() ? ult::number_of(ult::current_thread()) : 0;
}

void yield_thread() noexcept {
  if (ult::on_user_thread())
    ult::yield();
  else
    std::this_thread::yield();
}

void sleep_thread(std::int64_t ns) noexcept {
  if (ult::on_user_thread())
    ult::sleep(ns);
  else
    std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
}

void store_exception(std::exception_ptr error) noexcept {
  Descriptor* d = ult::current_thread();
  if (d->join.load() == ult::JoinWord::kDetached) terminate_with(std::move(error));
  ::new (static_cast<void*>(&d->error)) std::exception_ptr(std::move(error));
}

void pin_current(int delta) noexcept {
  if (!ult::on_user_thread()) return;
  std::uint32_t& pins = ult::current_thread()->pins;
  pins += static_cast<std::uint32_t>(delta);
}

void set_current_priority(bool high) noexcept {
  if (ult::on_user_thread()) ult::current_thread()->high.store(high, std::memory_order_relaxed);  // T5
}
bool current_priority() noexcept {
  return ult::on_user_thread() && ult::current_thread()->high.load(std::memory_order_relaxed);
}

namespace {
struct OwnerCall {
  gas::PageIndex page;
  int owner;
};
[[gnu::noinline]] OwnerCall& owner_call() {
  thread_local OwnerCall c;
  return c;
}
}  // namespace

int hinted_process(const void* address) noexcept {
  if (!gas::contains(address)) return -1;
  const gas::PageIndex page = gas::page_of(address);
  if (const int owner = gas::owner_of(page); owner != gas::kNobody || !gas::apart()) return owner;
  owner_call().page = page;
  tasks::call_native(
      [](void*) {
        OwnerCall& c = owner_call();
        c.owner = gas::learn_owner(c.page) ? gas::owner_of(c.page) : -1;
      },
      nullptr);
  return owner_call().owner;  // call_native does not switch threads
}

std::uint64_t atomic_rmw(void* address, std::size_t bytes, Rmw op, std::uint64_t operand, std::uint64_t expected,
                         std::memory_order order) noexcept {
  return tasks::atomic_apply(address, bytes, static_cast<tasks::AtomicOp>(op), operand, expected, order);
}
void atomic_construct(void* address, std::size_t bytes, std::uint64_t value) noexcept {
  tasks::atomic_construct(address, bytes, value);
}

void atomic_destroy(void* address, std::size_t bytes) noexcept { tasks::atomic_destroy(address, bytes); }

namespace {

SyncHandle construct_object(const void* object, tasks::sync::Kind kind, std::ptrdiff_t expected) {
  api::ensure_started();  // an initialiser may be earlier than the library's own
  return tasks::sync::construct(object, kind, expected);
}

}  // namespace

SyncHandle mutex_create(void* object) { return construct_object(object, tasks::sync::Kind::kMutex, 0); }
void mutex_destroy(const void* object, SyncHandle h) noexcept {
  tasks::sync::destruct(object, h, tasks::sync::Kind::kMutex);
}
void mutex_lock(SyncHandle h) { tasks::sync::mutex_lock(h); }
bool mutex_try_lock(SyncHandle h) noexcept { return tasks::sync::mutex_try_lock(h); }
void mutex_unlock(SyncHandle h) noexcept { tasks::sync::mutex_unlock(h); }
bool mutex_lock_until(SyncHandle h, std::int64_t steady_ns) { return tasks::sync::mutex_lock_until(h, steady_ns); }

bool recursive_lock_again(SyncHandle h) noexcept {
  tasks::sync::Holding now = tasks::sync::holding(h);  // the caller's own number is written by itself alone
  if (now.owner != tasks::sync::caller_number()) return false;
  ++now.depth;
  tasks::sync::set_holding(h, now);
  return true;
}
void recursive_own(SyncHandle h) noexcept { tasks::sync::set_holding(h, {tasks::sync::caller_number(), 1}); }
void recursive_unlock(SyncHandle h) noexcept {
  tasks::sync::Holding now = tasks::sync::holding(h);
  AYT_CHECK(now.owner == tasks::sync::caller_number(),
            "an ayatori::recursive_mutex was unlocked by who does not hold it");
  if (--now.depth == 0) now.owner = 0;
  tasks::sync::set_holding(h, now);
  if (now.depth == 0) tasks::sync::mutex_unlock(h);
}

SyncHandle semaphore_create(void* object, std::ptrdiff_t value) {
  AYT_CHECK(value >= 0 && value <= std::ptrdiff_t{tasks::sync::kSemaphoreMax}, "a semaphore of {}", value);
  return construct_object(object, tasks::sync::Kind::kSemaphore, value);
}
void semaphore_destroy(const void* object, SyncHandle h) noexcept {
  tasks::sync::destruct(object, h, tasks::sync::Kind::kSemaphore);
}
bool semaphore_acquire_until(SyncHandle h, std::int64_t steady_ns) { return tasks::sync::semaphore_wait(h, steady_ns); }
bool semaphore_try_acquire(SyncHandle h) noexcept { return tasks::sync::semaphore_try_wait(h); }
void semaphore_release(SyncHandle h, std::ptrdiff_t count) noexcept {
  AYT_CHECK(count >= 0 && tasks::sync::semaphore_post(h, count), "an ayatori::counting_semaphore went above {}",
            std::uint32_t{tasks::sync::kSemaphoreMax});
}

SyncHandle condition_create(void* object) { return construct_object(object, tasks::sync::Kind::kCondition, 0); }
void condition_destroy(const void* object, SyncHandle h) noexcept {
  tasks::sync::destruct(object, h, tasks::sync::Kind::kCondition);
}
void condition_wait(SyncHandle c, SyncHandle m) {
  tasks::sync::condition_wait(c, m, std::numeric_limits<std::int64_t>::max());
}
bool condition_wait_until(SyncHandle c, SyncHandle m, std::int64_t steady_ns) {
  return tasks::sync::condition_wait(c, m, std::min(steady_ns, std::numeric_limits<std::int64_t>::max() - 1));
}
void condition_notify(SyncHandle h, bool all) noexcept { tasks::sync::condition_notify(h, all); }
SyncHandle barrier_create(void* object, std::ptrdiff_t expected) {
  return construct_object(object, tasks::sync::Kind::kBarrier, expected);
}
void barrier_destroy(const void* object, SyncHandle h) noexcept {
  tasks::sync::destruct(object, h, tasks::sync::Kind::kBarrier);
}
bool barrier_arrive(SyncHandle h, std::ptrdiff_t count, bool wait, bool drop) {
  return tasks::sync::barrier_arrive(h, count, wait, drop);
}
void barrier_release(SyncHandle h) noexcept { tasks::sync::barrier_release(h); }
std::uint64_t barrier_phase(SyncHandle h) noexcept { return tasks::sync::barrier_phase(h); }
void barrier_wait_phase(SyncHandle h, std::uint64_t phase) { tasks::sync::barrier_wait_phase(h, phase); }

SyncHandle rwlock_create(void* object) {
  return construct_object(object, tasks::sync::Kind::kRwLock, tasks::sync::kFirstComeFirstServed);
}
void rwlock_destroy(const void* object, SyncHandle h) noexcept {
  tasks::sync::destruct(object, h, tasks::sync::Kind::kRwLock);
}
bool rwlock_lock_until(SyncHandle h, bool shared, std::int64_t steady_ns) {
  const tasks::sync::RwLocked locked = tasks::sync::rwlock_lock(h, shared, steady_ns);
  if (locked == tasks::sync::RwLocked::kDeadlock)
    throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur), "ayatori::shared_mutex");
  return locked == tasks::sync::RwLocked::kYes;
}
bool rwlock_try_lock(SyncHandle h, bool shared) noexcept { return tasks::sync::rwlock_try_lock(h, shared); }
void rwlock_unlock(SyncHandle h) noexcept {
  AYT_CHECK(tasks::sync::rwlock_unlock(h), "an ayatori::shared_mutex that nobody holds was unlocked");
}

std::uint32_t key_create(const void* object, void (*destructor)(void*)) {
  api::ensure_started();  // as construct_object
  if (const tasks::keys::Key key = tasks::keys::create(object, destructor)) return key;
  throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "ayatori::local");
}
void key_delete(std::uint32_t key) noexcept {
  if (!tasks::finished()) tasks::keys::erase(key);
}
void* key_get(std::uint32_t key) noexcept { return tasks::keys::get(key); }
void key_set(std::uint32_t key, void* value) {
  if (tasks::keys::set(key, value) == tasks::keys::Set::kNoMemory) throw std::bad_alloc();
}

void* global_reserve(std::size_t bytes, std::size_t align) {
  // Program order of the initialisers is the same in all members, so the addresses are too.
  static std::size_t used = 0;
  const gas::Layout& l = gas::layout();
  const std::size_t room = static_cast<std::size_t>(l.globals_end - l.globals_first) << gas::kPageShift;
  const std::size_t at = (used + align - 1) / align * align;
  AYT_CHECK(at + bytes <= room, "no room for ayatori::global<T> variables of {} bytes in all", at + bytes);
  used = at + bytes;
  return gas::user_view() + (std::size_t{l.globals_first} << gas::kPageShift) + at;
}
bool global_constructs_here() noexcept { return process_id() == 0; }

}  // namespace detail
}  // namespace ayatori
