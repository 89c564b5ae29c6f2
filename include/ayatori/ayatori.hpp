// SPDX-License-Identifier: Apache-2.0
// The public C++ interface: fork-join threads over one memory shared by all processes of the job.
//
// Memory model in one paragraph (docs/memory-model.md has it whole): what a thread wrote before it forked, ended,
// unlocked a mutex or arrived at a barrier is seen by the thread that was forked, that joined it, that locked the
// mutex next or that left the barrier, on whatever process each of them runs. Unordered accesses to the same byte, one
// of them a write, are data races. Plain std::atomic, globals and function-local statics are per process.
//
// Thread-safety: everything here may be called from any user-level thread; what may be called from elsewhere says so.
#pragma once

#if __cplusplus < 202002L
#error "ayatori/ayatori.hpp needs C++20: compile with -std=c++20 or later"
#endif

#include <ayatori/errno.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <iosfwd>
#include <limits>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <span>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

namespace ayatori {

namespace detail {

struct Descriptor;  // a user-level thread; lies outside the space

// Room for a callable on the stack of a thread that does not run yet (thesis 6.1, `allocate`).
struct Allocated {
  Descriptor* thread;
  void* object;
};

// Throws std::system_error (resource_unavailable_try_again) when no stack is left, (operation_not_permitted) when the
// caller is not a user-level thread.
Allocated allocate_thread(std::size_t align, std::size_t bytes);
// process < 0: here; otherwise on that process, not stolen before it starts unless it is a hint.
struct Where {
  int process = -1;
  bool hint = false;
  bool high = false;
};
// Starts `thread` with invoke(object), here child first: the caller's continuation is what others may steal. allocated_at: the
// process where the caller was at allocate_thread, or -1: it cannot have moved since.
void fork_thread(Allocated child, void (*invoke)(void*), Where where, int allocated_at) noexcept;
// As fork_thread(child, invoke, {}, -1) where nothing can have happened since allocate_thread that moves the caller.
void fork_thread_at_once(Descriptor* child, void (*invoke)(void*)) noexcept;
void* abandon_thread(Allocated child, int allocated_at) noexcept;  // undo of allocate_thread
// Waits for the end of `thread`, makes its writes visible, frees it and sets the handle to null; rethrows what left it.
void join_thread(Descriptor*& thread);
// As join_thread, but hands back what left the thread instead of throwing it.
std::exception_ptr join_thread_nothrow(Descriptor* thread) noexcept;
void detach_thread(Descriptor* thread) noexcept;
// Frees a thread that has ended in this process without an exception, whose join nobody would have to wait for, and returns
// its number; 0: nothing was done.
std::uint64_t reap_thread(Descriptor* thread) noexcept;
bool thread_ended(const Descriptor* thread) noexcept;  // so far as this process knows: its join would not wait
std::uint64_t thread_number(const Descriptor* thread) noexcept;  // unique in the job while the thread lives
std::uint64_t current_thread_number() noexcept;
void yield_thread() noexcept;
void sleep_thread(std::int64_t nanoseconds) noexcept;
void store_exception(std::exception_ptr error) noexcept;  // of the current thread, for its joiner

struct RootArgs {
  int argc;
  char** argv;
};
int run_job(int argc, char** argv, void (*construct)(void* where, void* from), int (*call)(void* object, RootArgs args),
            void (*destroy)(void*), void* from, std::size_t align, std::size_t bytes);

// One 8-byte cell behind atomic<T>; address as the user sees it. Out of the space: plain atomics of this process.
enum class Rmw { kLoad, kStore, kExchange, kAdd, kAnd, kOr, kXor, kCompareExchange };
// `bytes` is 4 or 8. Returns the value before the operation. For kCompareExchange `expected` is compared.
std::uint64_t atomic_rmw(void* address, std::size_t bytes, Rmw op, std::uint64_t operand, std::uint64_t expected,
                         std::memory_order order) noexcept;
void atomic_construct(void* address, std::size_t bytes, std::uint64_t value) noexcept;
void atomic_destroy(void* address, std::size_t bytes) noexcept;

// Handles of synchronisation objects whose state lies outside the space; 0 is no object. `object`: where the handle
// will lie, nothing writes there; in static data of the program all processes get the same one.
using SyncHandle = std::uint64_t;
SyncHandle mutex_create(void* object);
void mutex_destroy(const void* object, SyncHandle) noexcept;
void mutex_lock(SyncHandle);
bool mutex_try_lock(SyncHandle) noexcept;
void mutex_unlock(SyncHandle) noexcept;
bool mutex_lock_until(SyncHandle, std::int64_t steady_nanoseconds);  // false: the time is over
// Of a recursive mutex: whether the caller holds it already, now once more; else, once it has locked it, it owns it. Three
// calls, as the handle of an object in static data is another one where the caller goes on after a wait.
bool recursive_lock_again(SyncHandle) noexcept;
void recursive_own(SyncHandle) noexcept;
void recursive_unlock(SyncHandle) noexcept;
SyncHandle semaphore_create(void* object, std::ptrdiff_t value);
void semaphore_destroy(const void* object, SyncHandle) noexcept;
bool semaphore_acquire_until(SyncHandle, std::int64_t steady_nanoseconds);  // the greatest number: for ever
bool semaphore_try_acquire(SyncHandle) noexcept;
void semaphore_release(SyncHandle, std::ptrdiff_t count) noexcept;
SyncHandle condition_create(void* object);
void condition_destroy(const void* object, SyncHandle) noexcept;
void condition_wait(SyncHandle condition, SyncHandle mutex);
// false: the time is over.
bool condition_wait_until(SyncHandle condition, SyncHandle mutex, std::int64_t steady_nanoseconds);
void condition_notify(SyncHandle, bool all) noexcept;
SyncHandle barrier_create(void* object, std::ptrdiff_t expected);
void barrier_destroy(const void* object, SyncHandle) noexcept;
// Returns true in the one thread that arrived last, before anybody leaves; it must then call barrier_release.
bool barrier_arrive(SyncHandle, std::ptrdiff_t count, bool wait, bool drop);
void barrier_release(SyncHandle) noexcept;
std::uint64_t barrier_phase(SyncHandle) noexcept;  // the one in which the caller will arrive
void barrier_wait_phase(SyncHandle, std::uint64_t phase);
SyncHandle rwlock_create(void* object);  // nobody overtakes anybody
void rwlock_destroy(const void* object, SyncHandle) noexcept;
// false: the time is over. Throws std::system_error (resource_deadlock_would_occur): the caller holds it alone.
bool rwlock_lock_until(SyncHandle, bool shared, std::int64_t steady_nanoseconds);
bool rwlock_try_lock(SyncHandle, bool shared) noexcept;
void rwlock_unlock(SyncHandle) noexcept;

// Keys of thread-specific data; 0 is none. One in static data is one for all processes.
std::uint32_t key_create(const void* object, void (*destructor)(void*));  // throws as mutex_create
void key_delete(std::uint32_t key) noexcept;
void* key_get(std::uint32_t key) noexcept;
void key_set(std::uint32_t key, void* value);  // throws std::bad_alloc

// Room for a global<T>: the same address in every process, as all members execute the same initialisers.
void* global_reserve(std::size_t bytes, std::size_t align);
bool global_constructs_here() noexcept;  // true in the one process that constructs it
struct SpaceNew {                        // while it lives, operator new of this OS thread gives memory of the space
  SpaceNew() noexcept;
  ~SpaceNew();
};
void pin_current(int delta) noexcept;
void set_current_priority(bool high) noexcept;
bool current_priority() noexcept;
int hinted_process(const void* address) noexcept;  // who owns it; -1: nobody, or not known

// While it lives, the current thread stays on this process.
struct Pin {
  Pin() noexcept { pin_current(+1); }
  ~Pin() { pin_current(-1); }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;
};
// A copy of what only this process can read, whatever code the copying runs.
template <class T>
T copy_pinned(const T& from) {
  const Pin pin;
  return T(from);
}

}  // namespace detail

// ---------------------------------------------------------------------------------------------------- the job

// This process's number in the job (0 .. process_count()-1). Callable from any OS thread.
int process_id() noexcept;
int process_count() noexcept;
// Number of the worker that runs the caller (0 .. worker_count()-1); -1 when the caller is no user-level thread.
int worker_id() noexcept;
int worker_count() noexcept;  // workers of this process

// Starts the runtime in every process of the job and calls f(std::span<char*> args) as the first thread, on process 0.
// Returns its result in every process. Callable once, from main's thread: another call ends the job with status 125.
//
// The first thread copies f onto its own stack, so that captures by value are valid everywhere, also what they own (a
// std::string's characters become memory of the space). An f that can only be moved is moved: what it owns outside
// itself stays memory of process 0, which the first thread must not use, nor free, after it went elsewhere.
template <class F>
int run(int argc, char** argv, F f) {
  const auto call = [](F& function, detail::RootArgs args) -> int {
    return std::invoke(function, std::span<char*>(args.argv, static_cast<std::size_t>(args.argc)));
  };
  using Call = decltype(call);
  if constexpr (std::is_copy_constructible_v<F>) {
    return detail::run_job(
        argc, argv, [](void* where, void* from) { ::new (where) F*(static_cast<F*>(from)); },
        [](void* object, detail::RootArgs args) -> int {
          F copy = detail::copy_pinned(std::as_const(**static_cast<F**>(object)));
          return Call{}(copy, args);
        },
        [](void*) {}, &f, alignof(F*), sizeof(F*));
  } else {
    return detail::run_job(
        argc, argv, [](void* where, void* from) { ::new (where) F(std::move(*static_cast<F*>(from))); },
        [](void* object, detail::RootArgs args) -> int { return Call{}(*static_cast<F*>(object), args); },
        [](void* object) { static_cast<F*>(object)->~F(); }, &f, alignof(F), sizeof(F));
  }
}

// Is this address in the global space? Any OS thread.
bool in_space(const void* address) noexcept;

// Counters of this process since the start of the job; times in nanoseconds.
struct stats {
  std::uint64_t threads_forked = 0, steals_local = 0, steals_remote = 0, joins_remote = 0;
  std::uint64_t read_faults = 0, write_faults = 0, blocks_fetched = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0, messages_sent = 0;
  std::uint64_t diffs_sent = 0, diff_bytes = 0, invalidations = 0, releases = 0, acquires = 0;
  std::uint64_t compute_ns = 0, idle_ns = 0, fault_ns = 0, steal_ns = 0;
  std::uint64_t messages_by_memory = 0;  // of messages_sent: between processes of one machine
  std::uint64_t steals_beyond = 0;       // of steals_remote: from processes of other machines
};
stats snapshot() noexcept;

// ---------------------------------------------------------------------------------------------------- threads

// A ready thread of high priority runs before the normal ones of its process when a worker there looks for a thread to run,
// and is stolen first; nobody is interrupted, and what a worker has forked and not finished is not left for it. Every 16th time a
// normal thread comes first, so that none waits for ever. thread(priority::high, f, args...); threads that it forks are
// normal again.
enum class priority : unsigned char { normal, high };

// Placement: thread(on(p), f, args...) starts on process p and is not stolen before it starts.
struct on {
  explicit constexpr on(int p, priority how = priority::normal) noexcept : process(p), level(how) {}
  int process;
  priority level;
};

// Hint: thread(near(x), f, args...) starts on the process where the data at x lie, whose page needs not be fetched there, unless
// another one that has nothing to do takes it. Where x is no memory of the space, or lies here: as without.
struct near {
  explicit near(const void* address, priority how = priority::normal) noexcept
      : process(detail::hinted_process(address)), level(how) {}
  // By its number; -1: no hint. As it is no address.
  static near at(int p, priority how = priority::normal) noexcept { return near(p, how, 0); }
  int process;
  priority level;

 private:
  constexpr near(int p, priority how, int) noexcept : process(p), level(how) {}
};

namespace detail {
template <class T>
inline constexpr bool is_attribute = std::is_same_v<T, on> || std::is_same_v<T, near> || std::is_same_v<T, priority>;
}  // namespace detail

class thread {
 public:
  class id {
   public:
    constexpr id() noexcept = default;
    explicit constexpr id(std::uint64_t number) noexcept : number_(number) {}
    friend constexpr auto operator<=>(id, id) noexcept = default;
    constexpr std::uint64_t number() const noexcept { return number_; }  // 0: no thread
    template <class Char, class Traits>
    friend std::basic_ostream<Char, Traits>& operator<<(std::basic_ostream<Char, Traits>& out, id i) {
      return i.number_ == 0 ? out << "no thread" : out << i.number_;
    }

   private:
    std::uint64_t number_ = 0;
  };

  thread() noexcept = default;
  template <class F, class... Args>
    requires(!std::is_same_v<std::remove_cvref_t<F>, thread> && !detail::is_attribute<std::remove_cvref_t<F>>)
  explicit thread(F&& f, Args&&... args) {
    start<true>({}, std::forward<F>(f), std::forward<Args>(args)...);
  }
  // Throws std::system_error (invalid_argument) when there is no such process.
  template <class F, class... Args>
  thread(on where, F&& f, Args&&... args) {
    if (where.process < 0 || where.process >= process_count())
      throw std::system_error(std::make_error_code(std::errc::invalid_argument), "ayatori::on");
    start<false>({where.process, false, where.level == priority::high}, std::forward<F>(f),
                 std::forward<Args>(args)...);
  }
  template <class F, class... Args>
  thread(near where, F&& f, Args&&... args) {
    start<false>({where.process, true, where.level == priority::high}, std::forward<F>(f), std::forward<Args>(args)...);
  }
  template <class F, class... Args>
  thread(priority level, F&& f, Args&&... args) {
    start<false>({-1, false, level == priority::high}, std::forward<F>(f), std::forward<Args>(args)...);
  }
  thread(const thread&) = delete;
  thread& operator=(const thread&) = delete;
  // What is moved is nobody else's for that moment: a thread that has ended gives its stack back then, and is joined by name
  // alone. Who starts many threads and joins them later needs no more stacks than run at once.
  thread(thread&& other) noexcept : thread_(take(other)) {}
  thread& operator=(thread&& other) noexcept {
    if (joinable()) std::terminate();
    thread_ = take(other);
    return *this;
  }
  ~thread() {
    if (joinable()) std::terminate();
  }

  // Waits for the thread's end; its writes are then visible here. Rethrows the exception that left it.
  // Throws std::system_error: invalid_argument (not joinable), resource_deadlock_would_occur (joins itself).
  void join() {
    if (is_ended(checked()))
      thread_ = nullptr;
    else
      detail::join_thread(thread_);
  }
  void detach() {
    detail::Descriptor* t = checked();
    thread_ = nullptr;
    if (!is_ended(t)) detail::detach_thread(t);
  }
  bool joinable() const noexcept { return thread_ != nullptr; }
  id get_id() const noexcept {
    if (is_ended(thread_)) return id(number_of_ended(thread_));
    return thread_ ? id(detail::thread_number(thread_)) : id();
  }
  void swap(thread& other) noexcept { std::swap(thread_, other.thread_); }
  friend void swap(thread& a, thread& b) noexcept { a.swap(b); }
  // Threads that run at once: the workers of all processes.
  static unsigned hardware_concurrency() noexcept {
    return static_cast<unsigned>(process_count()) * static_cast<unsigned>(worker_count());
  }
  // Null, too, of a thread that is known to have ended.
  detail::Descriptor* native_handle() noexcept { return is_ended(thread_) ? nullptr : thread_; }

  // As join(), but returns what left the thread (null: nothing) instead of throwing it.
  std::exception_ptr join_nothrow() noexcept {
    detail::Descriptor* const t = std::exchange(thread_, nullptr);
    return is_ended(t) ? nullptr : detail::join_thread_nothrow(t);
  }

 private:
  template <bool kHere, class F, class... Args>
  void start(detail::Where where, F&& f, Args&&... args) {
    using Call = std::tuple<std::decay_t<F>, std::decay_t<Args>...>;
    // To copy these runs no code of the user, which could wait and go on elsewhere (a fault does not move a thread).
    constexpr bool kPlain =
        (std::is_trivially_copyable_v<std::decay_t<F>> && ... && std::is_trivially_copyable_v<std::decay_t<Args>>);
    const detail::Allocated child = detail::allocate_thread(alignof(Call), sizeof(Call));
    const int allocated_at = kPlain ? -1 : process_id();
    if constexpr (std::is_nothrow_constructible_v<Call, F&&, Args&&...>) {
      ::new (child.object) Call(std::forward<F>(f), std::forward<Args>(args)...);
    } else {
      try {
        ::new (child.object) Call(std::forward<F>(f), std::forward<Args>(args)...);
      } catch (...) {
        detail::abandon_thread(child, allocated_at);
        throw;
      }
    }
    thread_ = child.thread;  // before the fork: the continuation may run elsewhere
    if constexpr (kPlain && kHere)
      detail::fork_thread_at_once(child.thread, &invoke<Call>);
    else
      detail::fork_thread(child, &invoke<Call>, where, allocated_at);
  }
  template <class Call>
  static void invoke(void* object) {
    Call* call = static_cast<Call*>(object);
    try {
      std::apply([](auto& f, auto&... args) { (void)std::invoke(std::move(f), std::move(args)...); }, *call);
    } catch (...) {
      detail::store_exception(std::current_exception());
    }
    call->~Call();
  }
  detail::Descriptor* checked() const {
    if (!thread_) throw std::system_error(std::make_error_code(std::errc::invalid_argument), "ayatori::thread");
    return thread_;
  }
  static bool is_ended(const detail::Descriptor* t) noexcept { return (reinterpret_cast<std::uintptr_t>(t) & 1) != 0; }
  static detail::Descriptor* take(thread& other) noexcept {
    detail::Descriptor* const t = std::exchange(other.thread_, nullptr);
    if (!t || is_ended(t)) return t;
    const std::uint64_t number = detail::reap_thread(t);
    return number == 0 ? t : ended(number);
  }
  // A number's lower half has a bit to spare.
  static detail::Descriptor* ended(std::uint64_t number) noexcept {
    const std::uint64_t lower = number & 0xffff'ffff;
    return reinterpret_cast<detail::Descriptor*>((number ^ lower) | lower << 1 | 1);  // NOLINT: no pointer
  }
  static std::uint64_t number_of_ended(const detail::Descriptor* t) noexcept {
    const auto mark = reinterpret_cast<std::uint64_t>(t);
    const std::uint64_t lower = mark & 0xffff'ffff;
    return (mark ^ lower) | lower >> 1;
  }

  detail::Descriptor* thread_ = nullptr;  // or ended(number) of one that gave its stack back
};

namespace detail {
using ExactNs = std::chrono::duration<long double, std::nano>;  // 64 bits and a sign, and no overflow

// Whole nanoseconds, rounded up; the greatest number for what is longer.
template <class Rep, class Period>
std::int64_t whole_ns(const std::chrono::duration<Rep, Period>& duration) {
  const long double ns = std::ceil(ExactNs(duration).count());
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  return ns >= static_cast<long double>(kMax) ? kMax : ns <= 0 ? 0 : static_cast<std::int64_t>(ns);
}
template <class Clock, class Duration>
std::int64_t ns_until(const std::chrono::time_point<Clock, Duration>& time) {
  return whole_ns(ExactNs(time.time_since_epoch()) - ExactNs(Clock::now().time_since_epoch()));
}
// On the steady clock.
inline std::int64_t deadline_in(std::int64_t ns) {
  const std::int64_t now = whole_ns(std::chrono::steady_clock::now().time_since_epoch());
  return ns > std::numeric_limits<std::int64_t>::max() - now ? std::numeric_limits<std::int64_t>::max() : now + ns;
}
}  // namespace detail

namespace this_thread {
inline thread::id get_id() noexcept { return thread::id(detail::current_thread_number()); }
inline void yield() noexcept { detail::yield_thread(); }
// Of the calling thread, from the next time on that it waits or yields; nothing outside user-level threads.
inline void set_priority(priority level) noexcept { detail::set_current_priority(level == priority::high); }
inline priority get_priority() noexcept { return detail::current_priority() ? priority::high : priority::normal; }
template <class Rep, class Period>
void sleep_for(const std::chrono::duration<Rep, Period>& duration) {
  detail::sleep_thread(detail::whole_ns(duration));
}
template <class Clock, class Duration>
void sleep_until(const std::chrono::time_point<Clock, Duration>& time) {
  detail::sleep_thread(detail::ns_until(time));
}
}  // namespace this_thread

// While it lives, the current thread stays on this process (it may still change the worker): for C library resources,
// file locks, addresses of thread-local variables. Nests.
class pinned {
 public:
  pinned() noexcept = default;

 private:
  detail::Pin pin_;
};

// ---------------------------------------------------------------------------------------------------- memory

// Memory of the space; any process may free what another allocated. allocate throws std::bad_alloc. Any OS thread.
// `align` is a power of two.
void* allocate(std::size_t bytes, std::size_t align = alignof(std::max_align_t));
void deallocate(void* address) noexcept;
std::pmr::memory_resource* space_resource() noexcept;

template <class T>
struct allocator {
  using value_type = T;
  allocator() noexcept = default;
  template <class U>
  allocator(const allocator<U>&) noexcept {}
  T* allocate(std::size_t n) {
    if (n > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(ayatori::allocate(n * sizeof(T), alignof(T)));
  }
  void deallocate(T* p, std::size_t) noexcept { ayatori::deallocate(p); }
  friend bool operator==(const allocator&, const allocator&) noexcept { return true; }
};

// A global variable that is one object for all processes. Constructed by process 0 before its main, hence before the run;
// in main, before the run, other processes may be earlier. Not destroyed.
template <class T>
class global {
 public:
  template <class... Args>
  explicit global(Args&&... args) : object_(static_cast<T*>(detail::global_reserve(sizeof(T), alignof(T)))) {
    if (detail::global_constructs_here()) {
      detail::SpaceNew scope;
      ::new (static_cast<void*>(object_)) T(std::forward<Args>(args)...);
    }
  }
  global(const global&) = delete;
  global& operator=(const global&) = delete;
  T& get() const noexcept { return *object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  operator T&() const noexcept { return *object_; }
  template <class U>
    requires(!std::is_same_v<std::remove_cvref_t<U>, global> && std::is_assignable_v<T&, U>)
  T& operator=(U&& value) {  // NOLINT: as the variable itself
    *object_ = std::forward<U>(value);
    return *object_;
  }

 private:
  T* object_;
};

// ---------------------------------------------------------------------------------------------------- synchronisation

// One in the space is one object for all processes wherever it lies; so is one in static data (a plain global, a static
// member or local) of the program, which each process constructs and destroys for itself. One on the C library's heap or
// on the stack of an OS thread is its process's own.

// std::mutex's shape; suspends the thread, not the worker. What its last holder wrote is visible to the next.
class mutex {
 public:
  mutex() : handle_(detail::mutex_create(&handle_)) {}
  ~mutex() { detail::mutex_destroy(&handle_, handle_); }
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;
  void lock() { detail::mutex_lock(handle_); }
  bool try_lock() noexcept { return detail::mutex_try_lock(handle_); }
  void unlock() noexcept { detail::mutex_unlock(handle_); }

 private:
  friend class condition_variable;
  detail::SyncHandle handle_;
};

class condition_variable {
 public:
  condition_variable() : handle_(detail::condition_create(&handle_)) {}
  ~condition_variable() { detail::condition_destroy(&handle_, handle_); }
  condition_variable(const condition_variable&) = delete;
  condition_variable& operator=(const condition_variable&) = delete;
  void notify_one() noexcept { detail::condition_notify(handle_, false); }
  void notify_all() noexcept { detail::condition_notify(handle_, true); }
  void wait(std::unique_lock<mutex>& lock) { detail::condition_wait(handle_, lock.mutex()->handle_); }
  template <class Predicate>
  void wait(std::unique_lock<mutex>& lock, Predicate predicate) {
    while (!predicate()) wait(lock);
  }
  template <class Clock, class Duration>
  std::cv_status wait_until(std::unique_lock<mutex>& lock, const std::chrono::time_point<Clock, Duration>& time) {
    return wait_deadline(lock, detail::deadline_in(detail::ns_until(time)));
  }
  template <class Rep, class Period>
  std::cv_status wait_for(std::unique_lock<mutex>& lock, const std::chrono::duration<Rep, Period>& duration) {
    return wait_deadline(lock, detail::deadline_in(detail::whole_ns(duration)));
  }
  template <class Clock, class Duration, class Predicate>
  bool wait_until(std::unique_lock<mutex>& lock, const std::chrono::time_point<Clock, Duration>& time,
                  Predicate predicate) {
    while (!predicate())
      if (wait_until(lock, time) == std::cv_status::timeout) return predicate();
    return true;
  }
  template <class Rep, class Period, class Predicate>
  bool wait_for(std::unique_lock<mutex>& lock, const std::chrono::duration<Rep, Period>& duration,
                Predicate predicate) {
    const std::int64_t deadline = detail::deadline_in(detail::whole_ns(duration));
    while (!predicate())
      if (wait_deadline(lock, deadline) == std::cv_status::timeout) return predicate();
    return true;
  }

 private:
  std::cv_status wait_deadline(std::unique_lock<mutex>& lock, std::int64_t steady_ns) {
    return detail::condition_wait_until(handle_, lock.mutex()->handle_, steady_ns) ? std::cv_status::no_timeout
                                                                                   : std::cv_status::timeout;
  }
  detail::SyncHandle handle_;
};

namespace detail {
struct NoCompletion {
  void operator()() const noexcept {}
};
}  // namespace detail

// std::barrier's shape; barrier, below, is the one without completion. In static data: of as many threads in all processes.
template <class Completion = detail::NoCompletion>
class basic_barrier {
 public:
  explicit basic_barrier(std::ptrdiff_t expected, Completion completion = Completion())
      : handle_(detail::barrier_create(&handle_, expected)), completion_(std::move(completion)) {}
  ~basic_barrier() { detail::barrier_destroy(&handle_, handle_); }
  basic_barrier(const basic_barrier&) = delete;
  basic_barrier& operator=(const basic_barrier&) = delete;
  class arrival_token {
   public:
    arrival_token(arrival_token&&) noexcept = default;
    arrival_token& operator=(arrival_token&&) noexcept = default;

   private:
    friend basic_barrier;
    explicit arrival_token(std::uint64_t phase) noexcept : phase_(phase) {}
    std::uint64_t phase_;
  };

  // Counts `n` arrivals (at least 1, at most those that this phase still expects); whose last runs the completion.
  [[nodiscard]] arrival_token arrive(std::ptrdiff_t n = 1) {
    arrival_token token(detail::barrier_phase(handle_));
    finish(detail::barrier_arrive(handle_, n, false, false));
    return token;
  }
  // Waits until the phase of the token has ended; what all arrivals had written is visible then.
  void wait(arrival_token&& token) const { detail::barrier_wait_phase(handle_, token.phase_); }
  void arrive_and_wait() { finish(detail::barrier_arrive(handle_, 1, true, false)); }
  void arrive_and_drop() { finish(detail::barrier_arrive(handle_, 1, false, true)); }
  static constexpr std::ptrdiff_t max() noexcept { return std::numeric_limits<std::ptrdiff_t>::max(); }

 private:
  void finish(bool last) {
    if (last) {
      completion_();
      detail::barrier_release(handle_);
    }
  }
  detail::SyncHandle handle_;
  [[no_unique_address]] Completion completion_;
};
using barrier = basic_barrier<>;

namespace detail {
inline constexpr std::int64_t kForEver = std::numeric_limits<std::int64_t>::max();

// For functions that take a deadline of the steady clock, which kForEver is not.
template <class Rep, class Period>
std::int64_t deadline_after(const std::chrono::duration<Rep, Period>& duration) {
  return std::min(deadline_in(whole_ns(duration)), kForEver - 1);
}
template <class Clock, class Duration>
std::int64_t deadline_at(const std::chrono::time_point<Clock, Duration>& time) {
  return std::min(deadline_in(ns_until(time)), kForEver - 1);
}

template <bool kRecursive>
class timed_mutex_base {
 public:
  timed_mutex_base() : handle_(mutex_create(&handle_)) {}
  ~timed_mutex_base() { mutex_destroy(&handle_, handle_); }
  timed_mutex_base(const timed_mutex_base&) = delete;
  timed_mutex_base& operator=(const timed_mutex_base&) = delete;
  void lock() {
    if (again()) return;
    mutex_lock(handle_);
    own();
  }
  bool try_lock() noexcept { return again() || (mutex_try_lock(handle_) && own()); }
  void unlock() noexcept {
    if constexpr (kRecursive)
      recursive_unlock(handle_);
    else
      mutex_unlock(handle_);
  }
  // false: the time is over. What is free is locked, whatever the time.
  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& duration) {
    return lock_until(deadline_after(duration));
  }
  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& time) {
    return lock_until(deadline_at(time));
  }

 private:
  bool lock_until(std::int64_t deadline) { return try_lock() || (mutex_lock_until(handle_, deadline) && own()); }
  bool again() const noexcept {
    if constexpr (kRecursive) return recursive_lock_again(handle_);
    return false;
  }
  bool own() const noexcept {
    if constexpr (kRecursive) recursive_own(handle_);
    return true;
  }
  SyncHandle handle_;
};
}  // namespace detail

// The standard's shapes. A lock is the thread's, on whatever process it goes on.
using timed_mutex = detail::timed_mutex_base<false>;
using recursive_timed_mutex = detail::timed_mutex_base<true>;
using recursive_mutex = recursive_timed_mutex;

// std::shared_mutex's and std::shared_timed_mutex's shape; first come, first served: a thread that holds it for reading must
// not lock it again. What its holders wrote is visible to the next one that holds it alone.
class shared_timed_mutex {
 public:
  shared_timed_mutex() : handle_(detail::rwlock_create(&handle_)) {}
  ~shared_timed_mutex() { detail::rwlock_destroy(&handle_, handle_); }
  shared_timed_mutex(const shared_timed_mutex&) = delete;
  shared_timed_mutex& operator=(const shared_timed_mutex&) = delete;
  // These throw std::system_error (resource_deadlock_would_occur) when the caller holds it alone, those with a time too.
  void lock() { (void)detail::rwlock_lock_until(handle_, false, detail::kForEver); }
  void lock_shared() { (void)detail::rwlock_lock_until(handle_, true, detail::kForEver); }
  bool try_lock() noexcept { return detail::rwlock_try_lock(handle_, false); }
  bool try_lock_shared() noexcept { return detail::rwlock_try_lock(handle_, true); }
  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& duration) {
    return lock_until(false, detail::deadline_after(duration));
  }
  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& time) {
    return lock_until(false, detail::deadline_at(time));
  }
  template <class Rep, class Period>
  bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& duration) {
    return lock_until(true, detail::deadline_after(duration));
  }
  template <class Clock, class Duration>
  bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& time) {
    return lock_until(true, detail::deadline_at(time));
  }
  void unlock() noexcept { detail::rwlock_unlock(handle_); }
  void unlock_shared() noexcept { detail::rwlock_unlock(handle_); }

 private:
  bool lock_until(bool shared, std::int64_t deadline) {
    return detail::rwlock_try_lock(handle_, shared) || detail::rwlock_lock_until(handle_, shared, deadline);
  }
  detail::SyncHandle handle_;
};
using shared_mutex = shared_timed_mutex;

// std::counting_semaphore's shape. What a thread wrote before it released is visible to one that acquires after it.
template <std::ptrdiff_t kMost = std::numeric_limits<std::int32_t>::max()>
class counting_semaphore {
  static_assert(kMost >= 0 && kMost <= std::numeric_limits<std::int32_t>::max());

 public:
  explicit counting_semaphore(std::ptrdiff_t value) : handle_(detail::semaphore_create(&handle_, value)) {}
  ~counting_semaphore() { detail::semaphore_destroy(&handle_, handle_); }
  counting_semaphore(const counting_semaphore&) = delete;
  counting_semaphore& operator=(const counting_semaphore&) = delete;
  static constexpr std::ptrdiff_t max() noexcept { return kMost; }
  void release(std::ptrdiff_t count = 1) noexcept { detail::semaphore_release(handle_, count); }
  void acquire() { (void)detail::semaphore_acquire_until(handle_, detail::kForEver); }
  bool try_acquire() noexcept { return detail::semaphore_try_acquire(handle_); }
  template <class Rep, class Period>
  bool try_acquire_for(const std::chrono::duration<Rep, Period>& duration) {
    return acquire_until(detail::deadline_after(duration));
  }
  template <class Clock, class Duration>
  bool try_acquire_until(const std::chrono::time_point<Clock, Duration>& time) {
    return acquire_until(detail::deadline_at(time));
  }

 private:
  bool acquire_until(std::int64_t deadline) {
    return detail::semaphore_try_acquire(handle_) || detail::semaphore_acquire_until(handle_, deadline);
  }
  detail::SyncHandle handle_;
};
using binary_semaphore = counting_semaphore<1>;

// std::latch's shape. What was written before a count down is visible to those that waited.
class latch {
 public:
  explicit latch(std::ptrdiff_t expected) : handle_(expected > 0 ? detail::barrier_create(&handle_, expected) : 0) {}
  ~latch() { detail::barrier_destroy(&handle_, handle_); }
  latch(const latch&) = delete;
  latch& operator=(const latch&) = delete;
  static constexpr std::ptrdiff_t max() noexcept { return std::numeric_limits<std::int32_t>::max(); }
  // In all at most as often as was expected.
  void count_down(std::ptrdiff_t count = 1) {
    if (count > 0 && detail::barrier_arrive(handle_, count, false, false)) detail::barrier_release(handle_);
  }
  bool try_wait() const {
    if (handle_ != 0 && detail::barrier_phase(handle_) == 0) return false;
    wait();
    return true;
  }
  void wait() const {
    if (handle_ != 0) detail::barrier_wait_phase(handle_, 0);
  }
  void arrive_and_wait(std::ptrdiff_t count = 1) {
    count_down(count);
    wait();
  }

 private:
  detail::SyncHandle handle_;
};

// A T of each thread, for threads that go on elsewhere (a thread_local belongs to an OS thread). Made when its thread first
// asks for it, destroyed when that ends; of one whose local is gone before, no destructor runs. A local in static data is one
// for all processes. Throws std::system_error when no key is left (1024 in the job, with those of the C interface).
template <class T>
class local {
 public:
  local() : key_(detail::key_create(&key_, [](void* value) { delete static_cast<T*>(value); })) {}
  ~local() { detail::key_delete(key_); }
  local(const local&) = delete;
  local& operator=(const local&) = delete;
  // Of the calling thread. Throws std::bad_alloc, and what T's constructor throws.
  T& get() const {
    if (void* const there = detail::key_get(key_)) return *static_cast<T*>(there);
    auto made = std::make_unique<T>();
    detail::key_set(key_, made.get());
    return *made.release();
  }
  T& operator*() const { return get(); }
  T* operator->() const { return &get(); }
  // Has the calling thread one?
  bool has_value() const noexcept { return detail::key_get(key_) != nullptr; }

 private:
  std::uint32_t key_;
};

// std::atomic's shape; works between processes: operations are carried out on the owner's copy. An operation with
// release order first publishes what this process wrote, one with acquire order then lets go of what it cached, so
// that message passing through an atomic works; use memory_order_relaxed for plain counters. Outside the space (a plain
// global, static local) it is each process's own, unlike a mutex: use global<atomic<T>>.
template <class T>
class atomic {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8 || std::is_integral_v<T>),
                "ayatori::atomic takes integers, pointers and trivially copyable types of 4 or 8 bytes");
  static_assert(sizeof(T) <= 8, "ayatori::atomic takes types of at most 8 bytes");
  static constexpr bool kInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;
  static constexpr bool kPointer = std::is_pointer_v<T> && std::is_object_v<std::remove_pointer_t<T>>;
  static constexpr bool kArithmetic = kInteger || kPointer || std::is_floating_point_v<T>;
  static constexpr std::size_t kBytes = sizeof(T) < 4 ? 4 : sizeof(T);  // small integers live in 4 bytes

 public:
  using value_type = T;
  using difference_type = std::conditional_t<std::is_pointer_v<T>, std::ptrdiff_t, T>;
  atomic() noexcept : atomic(T{}) {}
  atomic(T value) noexcept { detail::atomic_construct(&storage_, kBytes, bits(value)); }  // NOLINT: std's shape
  ~atomic() { detail::atomic_destroy(&storage_, kBytes); }
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;
  static constexpr bool is_always_lock_free = false;
  bool is_lock_free() const noexcept { return false; }

  T load(std::memory_order order = std::memory_order_seq_cst) const noexcept {
    return rmw(detail::Rmw::kLoad, 0, 0, order);
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
    rmw(detail::Rmw::kStore, bits(value), 0, order);
  }
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return rmw(detail::Rmw::kExchange, bits(value), 0, order);
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order order = std::memory_order_seq_cst) noexcept {
    const std::uint64_t want = bits(expected);
    const T before = rmw(detail::Rmw::kCompareExchange, bits(desired), want, order);
    if (bits(before) == want) return true;
    expected = before;
    return false;
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success, std::memory_order) noexcept {
    return compare_exchange_strong(expected, desired, success);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return compare_exchange_strong(expected, desired, order);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success, std::memory_order) noexcept {
    return compare_exchange_strong(expected, desired, success);
  }
  T fetch_add(difference_type value, std::memory_order order = std::memory_order_seq_cst) noexcept
    requires kArithmetic
  {
    if constexpr (kPointer) {
      const auto step = static_cast<std::uint64_t>(value) * sizeof(std::remove_pointer_t<T>);
      return rmw(detail::Rmw::kAdd, step, 0, order);
    } else if constexpr (kInteger) {
      return rmw(detail::Rmw::kAdd, bits(value), 0, order);
    } else {
      T before = load(std::memory_order_relaxed);  // only compared
      while (!compare_exchange_strong(before, before + value, order)) {
      }
      return before;
    }
  }
  T fetch_sub(difference_type value, std::memory_order order = std::memory_order_seq_cst) noexcept
    requires kArithmetic
  {
    return fetch_add(static_cast<difference_type>(difference_type{0} - value), order);
  }
  T fetch_and(T value, std::memory_order order = std::memory_order_seq_cst) noexcept
    requires kInteger
  {
    return rmw(detail::Rmw::kAnd, bits(value), 0, order);
  }
  T fetch_or(T value, std::memory_order order = std::memory_order_seq_cst) noexcept
    requires kInteger
  {
    return rmw(detail::Rmw::kOr, bits(value), 0, order);
  }
  T fetch_xor(T value, std::memory_order order = std::memory_order_seq_cst) noexcept
    requires kInteger
  {
    return rmw(detail::Rmw::kXor, bits(value), 0, order);
  }
  // Until the value differs from `old`; polls and lets other threads run.
  void wait(T old, std::memory_order order = std::memory_order_seq_cst) const noexcept {
    while (bits(load(order)) == bits(old)) this_thread::yield();
  }
  void notify_one() noexcept {}
  void notify_all() noexcept {}
  operator T() const noexcept { return load(); }  // NOLINT: std's shape
  T operator=(T value) noexcept {                 // NOLINT: std's shape
    store(value);
    return value;
  }
  T operator++() noexcept
    requires(kInteger || kPointer)
  {
    return *this += 1;
  }
  T operator++(int) noexcept
    requires(kInteger || kPointer)
  {
    return fetch_add(1);
  }
  T operator--() noexcept
    requires(kInteger || kPointer)
  {
    return *this -= 1;
  }
  T operator--(int) noexcept
    requires(kInteger || kPointer)
  {
    return fetch_sub(1);
  }
  T operator+=(difference_type value) noexcept
    requires kArithmetic
  {
    return static_cast<T>(fetch_add(value) + value);
  }
  T operator-=(difference_type value) noexcept
    requires kArithmetic
  {
    return static_cast<T>(fetch_sub(value) - value);
  }
  T operator&=(T value) noexcept
    requires kInteger
  {
    return static_cast<T>(fetch_and(value) & value);
  }
  T operator|=(T value) noexcept
    requires kInteger
  {
    return static_cast<T>(fetch_or(value) | value);
  }
  T operator^=(T value) noexcept
    requires kInteger
  {
    return static_cast<T>(fetch_xor(value) ^ value);
  }

 private:
  static std::uint64_t bits(T value) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, &value, sizeof(T));
    return word;
  }
  T rmw(detail::Rmw op, std::uint64_t operand, std::uint64_t expected, std::memory_order order) const noexcept {
    if constexpr (sizeof(T) < 4) {  // arithmetic must not carry into the unused bytes
      if (op != detail::Rmw::kLoad && op != detail::Rmw::kStore && op != detail::Rmw::kExchange &&
          op != detail::Rmw::kCompareExchange) {
        std::uint64_t old = detail::atomic_rmw(&storage_, kBytes, detail::Rmw::kLoad, 0, 0, std::memory_order_relaxed);
        for (;;) {
          T next;
          std::memcpy(&next, &old, sizeof(T));
          T by;
          std::memcpy(&by, &operand, sizeof(T));
          if (op == detail::Rmw::kAdd) next = static_cast<T>(next + by);
          if (op == detail::Rmw::kAnd) next = static_cast<T>(next & by);
          if (op == detail::Rmw::kOr) next = static_cast<T>(next | by);
          if (op == detail::Rmw::kXor) next = static_cast<T>(next ^ by);
          const std::uint64_t seen =
              detail::atomic_rmw(&storage_, kBytes, detail::Rmw::kCompareExchange, bits(next), old, order);
          if (seen == old) break;
          old = seen;
        }
        T before;
        std::memcpy(&before, &old, sizeof(T));
        return before;
      }
    }
    const std::uint64_t word = detail::atomic_rmw(&storage_, kBytes, op, operand, expected, order);
    T value;
    std::memcpy(&value, &word, sizeof(T));
    return value;
  }
  alignas(kBytes) mutable unsigned char storage_[kBytes];
};

}  // namespace ayatori

template <>
struct std::hash<ayatori::thread::id> {
  std::size_t operator()(ayatori::thread::id id) const noexcept { return std::hash<std::uint64_t>()(id.number()); }
};

#include <ayatori/future.hpp>    // IWYU pragma: export
#include <ayatori/once.hpp>      // IWYU pragma: export
#include <ayatori/parallel.hpp>  // IWYU pragma: export
#include <ayatori/share.hpp>     // IWYU pragma: export
#include <ayatori/stop.hpp>      // IWYU pragma: export
