// SPDX-License-Identifier: Apache-2.0
// promise, future, shared_future, packaged_task, async: the standard's shapes and rules, between threads of all processes.
// Part of ayatori/ayatori.hpp.
//
// What a thread wrote before it set a value is visible to who gets it, or has found it ready. The shared state lies in the
// space, wherever its promise was made, and what it holds should too. Errors are std::future_error. There are no
// allocators.
//
// Thread-safety: as in the standard library: the objects that share a state may be used by different threads, on any
// processes; one object by one thread at a time.
#pragma once

#include <ayatori/once.hpp>
#include <ayatori/stop.hpp>
#include <future>
#include <optional>

namespace ayatori {

using std::future_category;
using std::future_errc;
using std::future_error;
using std::future_status;

enum class launch : unsigned { async = 1, deferred = 2 };
constexpr launch operator|(launch a, launch b) noexcept {
  return static_cast<launch>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr launch operator&(launch a, launch b) noexcept {
  return static_cast<launch>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}
constexpr launch operator^(launch a, launch b) noexcept {
  return static_cast<launch>(static_cast<unsigned>(a) ^ static_cast<unsigned>(b));
}
constexpr launch operator~(launch a) noexcept { return static_cast<launch>(~static_cast<unsigned>(a) & 3u); }
constexpr launch& operator|=(launch& a, launch b) noexcept { return a = a | b; }
constexpr launch& operator&=(launch& a, launch b) noexcept { return a = a & b; }
constexpr launch& operator^=(launch& a, launch b) noexcept { return a = a ^ b; }

template <class R>
class future;
template <class R>
class shared_future;
template <class R>
class promise;

namespace detail {

// What a thread does when it ends, after the destructors of its local<T>s.
struct ExitCall {
  void (*run)(ExitCall*) noexcept = nullptr;
  ExitCall* next = nullptr;
};
void at_thread_exit(ExitCall* call);  // of the calling thread; throws std::bad_alloc

// Makes copies of the pointer, and what rethrows it, safe on several processes at once; the count of the C++ library is
// not. Called before another process knows of it, or again.
void share_exception(const std::exception_ptr& error) noexcept;
// Has it another owner than the caller, as a handler that still runs?
bool exception_is_shared(const std::exception_ptr& error) noexcept;

[[noreturn]] inline void throw_future(future_errc code) { throw future_error(code); }

// F1. set_, ready_ and changed_ are guarded by mutex_. The result is written once, before ready_, by who has set set_ or is
//     the task itself; read by owners that have seen ready_.
// F2. An owner may make another one, without the mutex: copies of a shared_future are made where the thread must not wait.
//     Each leaves once, under the mutex, so that the last one sees what all of them wrote. Who has seen, under the mutex,
//     that it is the only one stays it.
class FutureState {
 public:
  static void* operator new(std::size_t bytes) { return allocate(bytes); }
  static void* operator new(std::size_t bytes, std::align_val_t align) {
    return allocate(bytes, static_cast<std::size_t>(align));
  }
  static void operator delete(void* address) noexcept { deallocate(address); }
  static void operator delete(void* address, std::align_val_t) noexcept { deallocate(address); }
  FutureState(const FutureState&) = delete;
  FutureState& operator=(const FutureState&) = delete;

  void enter() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }  // F2
  void leave() noexcept {
    bool last;
    {
      const std::lock_guard lock(mutex_);
      last = owners_.fetch_sub(1, std::memory_order_relaxed) == 1;
    }
    if (last) delete this;
  }
  void leave_alone() noexcept { delete this; }  // by the only owner (F2)
  // A promise or task goes.
  void abandon(bool has_future) noexcept {
    if (!has_future) return leave_alone();
    bool last;
    {
      const std::lock_guard lock(mutex_);
      last = owners_.fetch_sub(1, std::memory_order_relaxed) == 1;
      if (!last && !set_) {
        error_ = std::make_exception_ptr(future_error(future_errc::broken_promise));
        set_ = true;
        ready_now();
      }
    }
    if (last) delete this;
  }
  // Until the result is there; runs a deferred task. True: the caller is the only owner.
  bool wait() {
    if (seen_.here()) return false;
    std::unique_lock lock(mutex_);
    if (!ready_) [[unlikely]]
      wait_slowly(lock);
    seen_.add_here();
    return owners_.load(std::memory_order_relaxed) == 1;
  }
  future_status wait_until(std::int64_t deadline) {
    if (seen_.here()) return future_status::ready;
    std::unique_lock lock(mutex_);
    if (!ready_ && deferred_) return future_status::deferred;
    if (!ready_ && deadline <= deadline_in(0)) {  // a look; others of this worker get their turn
      lock.unlock();
      this_thread::yield();
      lock.lock();
      if (!ready_) return future_status::timeout;
    }
    while (!ready_) {
      wanted();
      const std::chrono::steady_clock::time_point time{std::chrono::nanoseconds(deadline)};
      if (changed_->wait_until(lock, time) == std::cv_status::timeout && !ready_) return future_status::timeout;
    }
    seen_.add_here();
    return future_status::ready;
  }
  void set_error(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    claim();
    put_error(std::move(error));
    ready_now();
  }
  // The same; ready when the calling thread ends.
  void set_error_at_exit(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    claim();
    ready_at_exit();
    put_error(std::move(error));
  }
  // Of a task, which alone sets the result.
  void publish() noexcept {
    const std::lock_guard lock(mutex_);
    ready_now();
  }
  void publish_at_exit() {
    const std::lock_guard lock(mutex_);
    ready_at_exit();
  }
  void check_unset() {
    const std::lock_guard lock(mutex_);
    claim();
  }
  void put_error(std::exception_ptr error) noexcept {
    if (exception_is_shared(error)) share_exception(error);
    error_ = std::move(error);
  }
  // By the future, which no shared_future will follow.
  void rethrow() {
    if (error_) [[unlikely]]
      std::rethrow_exception(std::move(error_));
  }
  void rethrow_to_many() {
    if (!error_) [[likely]]
      return;
    {
      const std::lock_guard lock(mutex_);
      share_exception(error_);
    }
    std::rethrow_exception(error_);
  }

 protected:
  explicit FutureState(std::uint32_t owners) : owners_(owners) {}
  virtual ~FutureState() = default;
  virtual void run_deferred() noexcept {}
  // These three under the mutex.
  void claim() {
    if (set_) throw_future(future_errc::promise_already_satisfied);
    set_ = true;
  }
  void unclaim() noexcept { set_ = false; }
  void ready_now() noexcept {
    ready_ = true;
    if (changed_) [[unlikely]]
      changed_->notify_all();
  }
  void ready_at_exit() {
    try {
      exit_.state = this;
      exit_.run = [](ExitCall* call) noexcept {
        FutureState* const state = static_cast<AtExit*>(call)->state;
        state->publish();
        state->leave();
      };
      at_thread_exit(&exit_);
    } catch (...) {
      unclaim();
      throw;
    }
    enter();
  }

  mutex mutex_;
  bool deferred_ = false;  // a task that nobody has waited for; guarded by mutex_

 private:
  struct AtExit : ExitCall {
    FutureState* state = nullptr;
  };
  void wanted() {
    if (!changed_) changed_.emplace();
  }
  [[gnu::noinline]] void wait_slowly(std::unique_lock<mutex>& lock) {
    if (deferred_) {
      deferred_ = false;
      lock.unlock();
      run_deferred();
      lock.lock();
    }
    while (!ready_) {
      wanted();
      changed_->wait(lock);
    }
  }

  atomic<std::uint32_t> owners_;
  bool set_ = false, ready_ = false;
  SeenBy seen_;  // that it is ready
  std::optional<condition_variable> changed_;
  std::exception_ptr error_;
  AtExit exit_;
};

struct Nothing {};
template <class R>
using Stored = std::conditional_t<std::is_void_v<R>, Nothing,
                                  std::conditional_t<std::is_reference_v<R>, std::remove_reference_t<R>*, R>>;

template <class R>
class FutureResult : public FutureState {
 public:
  using Value = Stored<R>;
  explicit FutureResult(std::uint32_t owners) : FutureState(owners) {}
  ~FutureResult() override {
    if (has_value_) value_.~Value();
  }
  template <class... Args>
  void set(Args&&... args) {
    const std::lock_guard lock(mutex_);
    claim_and_put(std::forward<Args>(args)...);
    ready_now();
  }
  template <class... Args>
  void set_at_exit(Args&&... args) {
    const std::lock_guard lock(mutex_);
    claim_and_put(std::forward<Args>(args)...);
    try {
      ready_at_exit();
    } catch (...) {
      has_value_ = false;
      value_.~Value();
      throw;
    }
  }
  template <class... Args>
  void put(Args&&... args) {
    ::new (static_cast<void*>(std::addressof(value_))) Value(std::forward<Args>(args)...);
    has_value_ = true;
  }
  // The result of f, or what leaves it.
  template <class F>
  void put_result_of(F&& f) noexcept {
    std::exception_ptr error;
    try {
      if constexpr (std::is_void_v<R>) {
        f();
        put();
      } else if constexpr (std::is_reference_v<R>) {
        put(std::addressof(static_cast<std::remove_reference_t<R>&>(f())));
      } else {
        put(f());
      }
      return;
    } catch (...) {
      error = std::current_exception();
    }
    put_error(std::move(error));  // where no handler owns it any more
  }
  Value& value() noexcept { return value_; }

 private:
  template <class... Args>
  void claim_and_put(Args&&... args) {
    claim();
    if constexpr (std::is_nothrow_constructible_v<Value, Args&&...>) {
      put(std::forward<Args>(args)...);
    } else {
      try {
        put(std::forward<Args>(args)...);
      } catch (...) {
        unclaim();
        throw;
      }
    }
  }
  union {
    Value value_;
  };
  bool has_value_ = false;
};

// Owns a state for a future. An empty one says no_state.
template <class R>
class FutureOwner {
 public:
  using State = FutureResult<R>;
  FutureOwner() noexcept = default;
  explicit FutureOwner(State* entered) noexcept : state_(entered) {}
  FutureOwner(const FutureOwner& other) noexcept : state_(other.state_) {
    if (state_ != nullptr) state_->enter();
  }
  FutureOwner(FutureOwner&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  FutureOwner& operator=(FutureOwner other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~FutureOwner() {
    if (state_ == nullptr) return;
    if (alone_)
      state_->leave_alone();
    else
      state_->leave();
  }
  bool valid() const noexcept { return state_ != nullptr; }
  State& state() const {
    if (state_ == nullptr) throw_future(future_errc::no_state);
    return *state_;
  }
  void alone() noexcept { alone_ = true; }

 private:
  State* state_ = nullptr;
  bool alone_ = false;
};

// Owns a state for a promise or packaged_task.
template <class R>
class PromiseOwner {
 public:
  using State = FutureResult<R>;
  PromiseOwner() : state_(new State(2)) {}  // itself and the future
  explicit PromiseOwner(std::nullptr_t) noexcept {}
  PromiseOwner(PromiseOwner&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)), has_future_(other.has_future_) {}
  PromiseOwner& operator=(PromiseOwner other) noexcept {
    swap(other);
    return *this;
  }
  ~PromiseOwner() {
    if (state_ != nullptr) state_->abandon(has_future_);
  }
  void swap(PromiseOwner& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(has_future_, other.has_future_);
  }
  State* get() const noexcept { return state_; }
  State& state() const {
    if (state_ == nullptr) throw_future(future_errc::no_state);
    return *state_;
  }
  FutureOwner<R> take_future() {
    State& s = state();
    if (std::exchange(has_future_, true)) throw_future(future_errc::future_already_retrieved);
    return FutureOwner<R>(&s);
  }

 private:
  State* state_ = nullptr;
  bool has_future_ = false;
};

struct FutureAccess {
  template <class R>
  static future<R> make(FutureOwner<R> owner) noexcept {
    return future<R>(std::move(owner));
  }
};

}  // namespace detail

// ---------------------------------------------------------------------------------------------------- futures

template <class R>
class [[nodiscard]] future {
 public:
  future() noexcept = default;
  future(future&&) noexcept = default;
  future& operator=(future&&) noexcept = default;
  future(const future&) = delete;
  future& operator=(const future&) = delete;

  // All but valid() throw std::future_error (no_state) where there is no state. Waits are for a thread; it alone is
  // suspended. Waiting runs a deferred task.
  R get() {
    (void)owner_.state();
    detail::FutureOwner<R> owner(std::move(owner_));
    if (owner.state().wait()) owner.alone();
    owner.state().rethrow();
    if constexpr (std::is_reference_v<R>)
      return static_cast<R>(*owner.state().value());
    else if constexpr (!std::is_void_v<R>)
      return std::move(owner.state().value());
  }
  bool valid() const noexcept { return owner_.valid(); }
  void wait() const { (void)owner_.state().wait(); }
  template <class Rep, class Period>
  future_status wait_for(const std::chrono::duration<Rep, Period>& duration) const {
    return owner_.state().wait_until(detail::deadline_after(duration));
  }
  template <class Clock, class Duration>
  future_status wait_until(const std::chrono::time_point<Clock, Duration>& time) const {
    return owner_.state().wait_until(detail::deadline_at(time));
  }
  shared_future<R> share() noexcept { return shared_future<R>(std::move(*this)); }

 private:
  friend class shared_future<R>;
  friend struct detail::FutureAccess;
  explicit future(detail::FutureOwner<R> owner) noexcept : owner_(std::move(owner)) {}
  detail::FutureOwner<R> owner_;
};

template <class R>
class [[nodiscard]] shared_future {
 public:
  shared_future() noexcept = default;
  shared_future(future<R>&& from) noexcept : owner_(std::move(from.owner_)) {}  // NOLINT: std's shape
  shared_future(const shared_future&) noexcept = default;
  shared_future(shared_future&&) noexcept = default;
  shared_future& operator=(const shared_future&) noexcept = default;
  shared_future& operator=(shared_future&&) noexcept = default;

  // As future's; after the first of a process, nanoseconds.
  std::conditional_t<std::is_void_v<R> || std::is_reference_v<R>, R,
                     std::add_lvalue_reference_t<const detail::Stored<R>>>
  get() const {
    auto& state = owner_.state();
    (void)state.wait();
    state.rethrow_to_many();
    if constexpr (std::is_reference_v<R>)
      return static_cast<R>(*state.value());
    else if constexpr (!std::is_void_v<R>)
      return state.value();
  }
  bool valid() const noexcept { return owner_.valid(); }
  void wait() const { (void)owner_.state().wait(); }
  template <class Rep, class Period>
  future_status wait_for(const std::chrono::duration<Rep, Period>& duration) const {
    return owner_.state().wait_until(detail::deadline_after(duration));
  }
  template <class Clock, class Duration>
  future_status wait_until(const std::chrono::time_point<Clock, Duration>& time) const {
    return owner_.state().wait_until(detail::deadline_at(time));
  }

 private:
  detail::FutureOwner<R> owner_;
};

// ---------------------------------------------------------------------------------------------------- promises

namespace detail {

template <class R>
class PromiseBase {
 public:
  void set_exception(std::exception_ptr error) { owner_.state().set_error(std::move(error)); }
  void set_exception_at_thread_exit(std::exception_ptr error) { owner_.state().set_error_at_exit(std::move(error)); }

 protected:
  PromiseOwner<R> owner_;
};

}  // namespace detail

// The functions throw std::future_error: no_state, future_already_retrieved, promise_already_satisfied. ..._at_thread_exit
// makes the result ready when the calling thread ends, after its local<T>s are destroyed, on whatever process that is.
template <class R>
class promise : public detail::PromiseBase<R> {
 public:
  promise() = default;
  promise(promise&&) noexcept = default;
  promise& operator=(promise&&) noexcept = default;
  void swap(promise& other) noexcept { this->owner_.swap(other.owner_); }
  friend void swap(promise& a, promise& b) noexcept { a.swap(b); }
  future<R> get_future() { return detail::FutureAccess::make(this->owner_.take_future()); }
  void set_value(const R& value) { this->owner_.state().set(value); }
  void set_value(R&& value) { this->owner_.state().set(std::move(value)); }
  void set_value_at_thread_exit(const R& value) { this->owner_.state().set_at_exit(value); }
  void set_value_at_thread_exit(R&& value) { this->owner_.state().set_at_exit(std::move(value)); }
};
template <class R>
class promise<R&> : public detail::PromiseBase<R&> {
 public:
  promise() = default;
  promise(promise&&) noexcept = default;
  promise& operator=(promise&&) noexcept = default;
  void swap(promise& other) noexcept { this->owner_.swap(other.owner_); }
  friend void swap(promise& a, promise& b) noexcept { a.swap(b); }
  future<R&> get_future() { return detail::FutureAccess::make(this->owner_.take_future()); }
  void set_value(R& value) { this->owner_.state().set(std::addressof(value)); }
  void set_value_at_thread_exit(R& value) { this->owner_.state().set_at_exit(std::addressof(value)); }
};
template <>
class promise<void> : public detail::PromiseBase<void> {
 public:
  promise() = default;
  promise(promise&&) noexcept = default;
  promise& operator=(promise&&) noexcept = default;
  void swap(promise& other) noexcept { owner_.swap(other.owner_); }
  friend void swap(promise& a, promise& b) noexcept { a.swap(b); }
  future<void> get_future() { return detail::FutureAccess::make(owner_.take_future()); }
  void set_value() { owner_.state().set(); }
  void set_value_at_thread_exit() { owner_.state().set_at_exit(); }
};

// ---------------------------------------------------------------------------------------------------- tasks

template <class>
class packaged_task;

// The callable is destroyed with the task, not with the last future.
template <class R, class... Args>
class packaged_task<R(Args...)> {
 public:
  packaged_task() noexcept : owner_(nullptr) {}
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, packaged_task>)
  explicit packaged_task(F&& f) : function_(new Holds<std::decay_t<F>>(std::forward<F>(f))) {}
  packaged_task(packaged_task&&) noexcept = default;
  packaged_task& operator=(packaged_task&&) noexcept = default;
  void swap(packaged_task& other) noexcept {
    std::swap(function_, other.function_);
    owner_.swap(other.owner_);
  }
  friend void swap(packaged_task& a, packaged_task& b) noexcept { a.swap(b); }
  bool valid() const noexcept { return function_ != nullptr; }
  future<R> get_future() { return detail::FutureAccess::make(owner_.take_future()); }
  void operator()(Args... args) {
    auto& state = owner_.state();
    state.check_unset();
    state.put_result_of([&]() -> R { return function_->call(std::forward<Args>(args)...); });
    state.publish();
  }
  void make_ready_at_thread_exit(Args... args) {
    auto& state = owner_.state();
    state.check_unset();
    state.put_result_of([&]() -> R { return function_->call(std::forward<Args>(args)...); });
    state.publish_at_exit();
  }
  void reset() {
    (void)owner_.state();
    owner_ = detail::PromiseOwner<R>();
  }

 private:
  struct Function {
    static void* operator new(std::size_t bytes) { return allocate(bytes); }
    static void* operator new(std::size_t bytes, std::align_val_t align) {
      return allocate(bytes, static_cast<std::size_t>(align));
    }
    static void operator delete(void* address) noexcept { deallocate(address); }
    static void operator delete(void* address, std::align_val_t) noexcept { deallocate(address); }
    virtual ~Function() = default;
    virtual R call(Args&&... args) = 0;
  };
  template <class F>
  struct Holds final : Function {
    F f;
    template <class G>
    explicit Holds(G&& g) : f(std::forward<G>(g)) {}
    R call(Args&&... args) override {
      if constexpr (std::is_void_v<R>)
        std::invoke(f, std::forward<Args>(args)...);
      else
        return std::invoke(f, std::forward<Args>(args)...);
    }
  };
  std::unique_ptr<Function> function_;
  detail::PromiseOwner<R> owner_;
};

namespace detail {
template <class>
struct SignatureOf;
template <class R, class F, class... Args>
struct SignatureOf<R (F::*)(Args...)> {
  using type = R(Args...);
};
template <class R, class F, class... Args>
struct SignatureOf<R (F::*)(Args...) const> : SignatureOf<R (F::*)(Args...)> {};
template <class R, class F, class... Args>
struct SignatureOf<R (F::*)(Args...) noexcept> : SignatureOf<R (F::*)(Args...)> {};
template <class R, class F, class... Args>
struct SignatureOf<R (F::*)(Args...) const noexcept> : SignatureOf<R (F::*)(Args...)> {};
}  // namespace detail
template <class R, class... Args>
packaged_task(R (*)(Args...)) -> packaged_task<R(Args...)>;
template <class F>
packaged_task(F) -> packaged_task<typename detail::SignatureOf<decltype(&F::operator())>::type>;

// ---------------------------------------------------------------------------------------------------- async

namespace detail {

// A state with its task. The task's thread owns nothing: the last owner joins it.
template <class R, class Call>
class AsyncState final : public FutureResult<R> {
 public:
  template <class... Args>
  explicit AsyncState(std::in_place_t here, Args&&... args)
      : FutureResult<R>(1), call_(here, std::forward<Args>(args)...) {}
  ~AsyncState() override {
    if (thread_.joinable()) (void)thread_.join_nothrow();
  }
  void fork() {
    thread_ = thread([this] { run(); });
  }
  void fork(on where) {
    thread_ = thread(where, [this] { run(); });
  }
  void defer() noexcept { this->deferred_ = true; }

 private:
  void run_deferred() noexcept override { run(); }
  void run() noexcept {
    this->put_result_of([this]() -> R {
      return std::apply([](auto& f, auto&... args) -> R { return std::invoke(std::move(f), std::move(args)...); },
                        *call_);
    });
    call_.reset();
    this->publish();
  }
  std::optional<Call> call_;
  thread thread_;
};

template <class F, class... Args>
using AsyncResult = std::invoke_result_t<std::decay_t<F>, std::decay_t<Args>...>;
template <class F, class... Args>
using AsyncStateOf = AsyncState<AsyncResult<F, Args...>, std::tuple<std::decay_t<F>, std::decay_t<Args>...>>;

}  // namespace detail

// launch::async forks a thread, child first as all, which the last future of its state joins; launch::deferred runs f in the
// first thread that waits without a time. With both, or without a policy: a thread, but deferred where none can be had (no
// stack left, or outside of run). Throws std::system_error where launch::async alone can have none.
template <class F, class... Args>
[[nodiscard]] future<detail::AsyncResult<F, Args...>> async(launch policy, F&& f, Args&&... args) {
  auto* const state =
      new detail::AsyncStateOf<F, Args...>(std::in_place, std::forward<F>(f), std::forward<Args>(args)...);
  auto result = detail::FutureAccess::make(detail::FutureOwner<detail::AsyncResult<F, Args...>>(state));
  const bool may_defer = (policy & launch::deferred) == launch::deferred;
  if ((policy & launch::async) != launch::async) {
    state->defer();
    return result;
  }
  try {
    state->fork();
  } catch (const std::system_error&) {
    if (!may_defer) throw;
    state->defer();
  }
  return result;
}
template <class F, class... Args>
  requires(!std::is_same_v<std::remove_cvref_t<F>, launch> && !std::is_same_v<std::remove_cvref_t<F>, on>)
[[nodiscard]] future<detail::AsyncResult<F, Args...>> async(F&& f, Args&&... args) {
  return ayatori::async(launch::async | launch::deferred, std::forward<F>(f), std::forward<Args>(args)...);
}
// In a thread on that process; throws as thread(on).
template <class F, class... Args>
[[nodiscard]] future<detail::AsyncResult<F, Args...>> async(on where, F&& f, Args&&... args) {
  auto* const state =
      new detail::AsyncStateOf<F, Args...>(std::in_place, std::forward<F>(f), std::forward<Args>(args)...);
  auto result = detail::FutureAccess::make(detail::FutureOwner<detail::AsyncResult<F, Args...>>(state));
  state->fork(where);
  return result;
}

// The lock is unlocked and all are notified when the calling thread ends, after its local<T>s are destroyed. Throws
// std::bad_alloc.
inline void notify_all_at_thread_exit(condition_variable& condition, std::unique_lock<mutex> lock) {
  struct Notify : detail::ExitCall {
    condition_variable* condition;
    mutex* held;
  };
  auto* const notify = ::new (allocate(sizeof(Notify), alignof(Notify))) Notify{};
  notify->condition = &condition;
  notify->run = [](detail::ExitCall* call) noexcept {
    auto* const self = static_cast<Notify*>(call);
    self->condition->notify_all();  // while it is held: who is notified may destroy the condition
    self->held->unlock();
    deallocate(self);
  };
  notify->held = lock.mutex();
  try {
    detail::at_thread_exit(notify);
  } catch (...) {
    deallocate(notify);
    throw;
  }
  (void)lock.release();
}

}  // namespace ayatori
