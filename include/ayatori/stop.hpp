// SPDX-License-Identifier: Apache-2.0
// Asking threads to stop: stop_token, stop_source, stop_callback, jthread, and condition_variable_any, whose waits end when
// they are asked to. The standard's shapes and rules, between threads of all processes. Part of ayatori/ayatori.hpp.
//
// What a thread wrote before it asked (request_stop) is visible to who finds that it was asked, and to the callbacks, which
// run in the thread that asks, wherever it is. A stop_callback lies in the space: a local of a thread, or a heap object.
//
// Thread-safety: as in the standard library: tokens, sources and callbacks of one state may be used by any threads at once,
// one object by one of them at a time.
#pragma once

#include <ayatori/ayatori.hpp>

namespace ayatori {

struct nostopstate_t {
  explicit nostopstate_t() = default;
};
inline constexpr nostopstate_t nostopstate{};

namespace detail {

std::uint64_t caller_number() noexcept;  // unique in the job among user-level threads and OS threads that live

// A stop_callback as its state knows it.
struct StopCallback {
  void (*invoke)(StopCallback*) noexcept = nullptr;
  StopCallback* previous = nullptr;  // these three: guarded by the state's mutex
  StopCallback* next = nullptr;
  bool listed = false;
};

// What the tokens, sources and callbacks of one request share. Lies in the space.
// A1. Whoever owns it counts in word_. Owners leave under the mutex: the last one sees what all of them wrote, and frees it.
// A2. A callback leaves the list before it runs: it runs once. It may be gone when it returns.
class StopState {
 public:
  static constexpr std::uint64_t kRequested = 1, kSource = 2, kOwner = std::uint64_t{1} << 32;

  // The caller is its first source.
  static StopState* make() {
    void* const room = allocate(sizeof(StopState), alignof(StopState));
    try {
      return ::new (room) StopState;
    } catch (...) {
      deallocate(room);
      throw;
    }
  }
  StopState(const StopState&) = delete;
  StopState& operator=(const StopState&) = delete;

  void enter(std::uint64_t as) noexcept { word_.fetch_add(as, std::memory_order_relaxed); }  // by an owner
  void leave(std::uint64_t as) noexcept {
    mutex_.lock();
    const std::uint64_t before = word_.fetch_sub(as, std::memory_order_relaxed);  // ordered by the mutex (A1)
    mutex_.unlock();
    if (before / kOwner != 1) return;
    this->~StopState();
    deallocate(this);
  }
  // Cheap while nobody has asked: it leaves alone what this process has cached.
  bool requested() const noexcept {
    return (word_.load(std::memory_order_relaxed) & kRequested) != 0 &&
           (word_.load(std::memory_order_acquire) & kRequested) != 0;  // pairs with the release in request()
  }
  bool possible() const noexcept { return word_.load(std::memory_order_relaxed) % kOwner != 0; }

  bool request() noexcept {
    if ((word_.fetch_or(kRequested, std::memory_order_acq_rel) & kRequested) != 0) return false;
    enter(kOwner);  // a callback may end the caller's source
    mutex_.lock();  // a callback is in the list by now, or finds that it was requested
    requester_ = caller_number();
    while (StopCallback* const callback = callbacks_) {
      unlink(callback);
      running_ = callback;
      mutex_.unlock();
      callback->invoke(callback);
      mutex_.lock();
      running_ = nullptr;  // A2
      if (binary_semaphore* const waits = std::exchange(waits_, nullptr)) waits->release();
    }
    requester_ = 0;
    mutex_.unlock();
    leave(kOwner);
    return true;
  }
  // The callback will run once when it is requested, and owns the state until remove(). False: it has been requested, or
  // never will be.
  bool add(StopCallback* callback) noexcept {
    mutex_.lock();
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    const bool waits = (word & kRequested) == 0 && word % kOwner != 0;
    if (waits) {
      enter(kOwner);
      callback->next = callbacks_;
      if (callbacks_ != nullptr) callbacks_->previous = callback;
      callbacks_ = callback;
      callback->listed = true;
    }
    mutex_.unlock();
    return waits;
  }
  // It does not run from here on, unless in the caller.
  void remove(StopCallback* callback) noexcept {
    mutex_.lock();
    if (callback->listed) {
      unlink(callback);
    } else if (running_ == callback && requester_ != caller_number()) {
      binary_semaphore ended(0);
      waits_ = &ended;  // nobody else waits for this callback
      mutex_.unlock();
      ended.acquire();
      mutex_.lock();  // who released it has done with it
    }
    mutex_.unlock();
    leave(kOwner);
  }

 private:
  StopState() = default;
  ~StopState() = default;
  void unlink(StopCallback* callback) noexcept {
    if (callback->next != nullptr) callback->next->previous = callback->previous;
    if (callback->previous != nullptr)
      callback->previous->next = callback->next;
    else
      callbacks_ = callback->next;
    callback->listed = false;
  }

  atomic<std::uint64_t> word_{kOwner + kSource};  // owners, sources and whether it was requested
  mutex mutex_;                                   // guards all below
  StopCallback* callbacks_ = nullptr;
  StopCallback* running_ = nullptr;
  binary_semaphore* waits_ = nullptr;  // of who removes the running one
  std::uint64_t requester_ = 0;        // who runs callbacks
};

// Owns a state, as a token or a source.
template <std::uint64_t kAs>
class StopOwner {
 public:
  StopOwner() noexcept = default;
  explicit StopOwner(StopState* entered) noexcept : state_(entered) {}
  StopOwner(const StopOwner& other) noexcept : state_(other.state_) {
    if (state_ != nullptr) state_->enter(kAs);
  }
  StopOwner(StopOwner&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  StopOwner& operator=(StopOwner other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~StopOwner() {
    if (state_ != nullptr) state_->leave(kAs);
  }
  StopState* get() const noexcept { return state_; }
  void swap(StopOwner& other) noexcept { std::swap(state_, other.state_); }

 private:
  StopState* state_ = nullptr;
};

}  // namespace detail

class stop_token {
 public:
  stop_token() noexcept = default;
  // Has somebody asked? A look at one word: nanoseconds, over tcp a message where the source was made elsewhere.
  [[nodiscard]] bool stop_requested() const noexcept { return owner_.get() != nullptr && owner_.get()->requested(); }
  [[nodiscard]] bool stop_possible() const noexcept { return owner_.get() != nullptr && owner_.get()->possible(); }
  void swap(stop_token& other) noexcept { owner_.swap(other.owner_); }
  friend void swap(stop_token& a, stop_token& b) noexcept { a.swap(b); }
  [[nodiscard]] friend bool operator==(const stop_token& a, const stop_token& b) noexcept {
    return a.owner_.get() == b.owner_.get();
  }

 private:
  friend class stop_source;
  template <class>
  friend class stop_callback;
  using Owner = detail::StopOwner<detail::StopState::kOwner>;
  explicit stop_token(detail::StopState* entered) noexcept : owner_(entered) {}
  Owner owner_;
};

class stop_source {
 public:
  stop_source() : owner_(detail::StopState::make()) {}  // throws std::bad_alloc
  explicit stop_source(nostopstate_t) noexcept {}
  [[nodiscard]] stop_token get_token() const noexcept {
    if (owner_.get() != nullptr) owner_.get()->enter(detail::StopState::kOwner);
    return stop_token(owner_.get());
  }
  [[nodiscard]] bool stop_possible() const noexcept { return owner_.get() != nullptr; }
  [[nodiscard]] bool stop_requested() const noexcept { return owner_.get() != nullptr && owner_.get()->requested(); }
  // Asks, and runs the callbacks. False: somebody has asked before, or there is no state.
  bool request_stop() const noexcept { return owner_.get() != nullptr && owner_.get()->request(); }
  void swap(stop_source& other) noexcept { owner_.swap(other.owner_); }
  friend void swap(stop_source& a, stop_source& b) noexcept { a.swap(b); }
  [[nodiscard]] friend bool operator==(const stop_source& a, const stop_source& b) noexcept {
    return a.owner_.get() == b.owner_.get();
  }

 private:
  detail::StopOwner<detail::StopState::kOwner + detail::StopState::kSource> owner_;
};

// Runs the callback when somebody asks, in that thread, or at once where somebody has. The destructor waits while it runs in
// another thread. An exception that leaves the callback ends the job.
template <class Callback>
class stop_callback : detail::StopCallback {
 public:
  using callback_type = Callback;
  template <class C>
    requires std::is_constructible_v<Callback, C>
  explicit stop_callback(const stop_token& token, C&& callback) noexcept(std::is_nothrow_constructible_v<Callback, C>)
      : callback_(std::forward<C>(callback)) {
    start(token);
  }
  template <class C>
    requires std::is_constructible_v<Callback, C>
  explicit stop_callback(stop_token&& token, C&& callback) noexcept(std::is_nothrow_constructible_v<Callback, C>)
      : callback_(std::forward<C>(callback)) {
    start(token);
  }
  ~stop_callback() {
    if (state_ != nullptr) state_->remove(this);
  }
  stop_callback(const stop_callback&) = delete;
  stop_callback& operator=(const stop_callback&) = delete;

 private:
  static void run(detail::StopCallback* self) noexcept {
    std::forward<Callback>(static_cast<stop_callback*>(self)->callback_)();
  }
  void start(const stop_token& token) noexcept {
    detail::StopState* const state = token.owner_.get();
    if (state == nullptr) return;
    invoke = &run;
    state_ = state;  // before others know of it
    if (state->add(this)) return;
    state_ = nullptr;
    if (state->requested()) run(this);
  }
  Callback callback_;
  detail::StopState* state_ = nullptr;  // in whose list it was put
};
template <class Callback>
stop_callback(stop_token, Callback) -> stop_callback<Callback>;

// std::jthread's shape: a thread that is asked to stop, then joined, by the destructor. f gets a stop_token as its first
// argument if it takes one. An exception that leaves the thread reaches who calls join(), as of ayatori::thread; where the
// destructor or an assignment joins, it ends the job.
class jthread {
 public:
  using id = thread::id;
  using native_handle_type = detail::Descriptor*;

  jthread() noexcept : source_(nostopstate) {}
  template <class F, class... Args>
    requires(!std::is_same_v<std::remove_cvref_t<F>, jthread> && !std::is_same_v<std::remove_cvref_t<F>, on>)
  explicit jthread(F&& f, Args&&... args) : thread_(start(source_, std::forward<F>(f), std::forward<Args>(args)...)) {}
  // Throws as thread(on).
  template <class F, class... Args>
  jthread(on where, F&& f, Args&&... args)
      : thread_(start_on(source_, where, std::forward<F>(f), std::forward<Args>(args)...)) {}
  jthread(const jthread&) = delete;
  jthread& operator=(const jthread&) = delete;
  jthread(jthread&& other) noexcept
      : source_(std::exchange(other.source_, stop_source(nostopstate))), thread_(std::move(other.thread_)) {}
  jthread& operator=(jthread&& other) noexcept {
    jthread(std::move(other)).swap(*this);
    return *this;
  }
  ~jthread() {
    if (!joinable()) return;
    request_stop();
    join();
  }

  void swap(jthread& other) noexcept {
    source_.swap(other.source_);
    thread_.swap(other.thread_);
  }
  friend void swap(jthread& a, jthread& b) noexcept { a.swap(b); }
  [[nodiscard]] bool joinable() const noexcept { return thread_.joinable(); }
  void join() { thread_.join(); }
  void detach() { thread_.detach(); }
  [[nodiscard]] id get_id() const noexcept { return thread_.get_id(); }
  [[nodiscard]] native_handle_type native_handle() noexcept { return thread_.native_handle(); }
  [[nodiscard]] stop_source get_stop_source() noexcept { return source_; }
  [[nodiscard]] stop_token get_stop_token() const noexcept { return source_.get_token(); }
  bool request_stop() noexcept { return source_.request_stop(); }
  [[nodiscard]] static unsigned hardware_concurrency() noexcept { return thread::hardware_concurrency(); }

 private:
  template <class F, class... Args>
  static thread start(const stop_source& source, F&& f, Args&&... args) {
    if constexpr (std::is_invocable_v<std::decay_t<F>, stop_token, std::decay_t<Args>...>)
      return thread(std::forward<F>(f), source.get_token(), std::forward<Args>(args)...);
    else
      return thread(std::forward<F>(f), std::forward<Args>(args)...);
  }
  template <class F, class... Args>
  static thread start_on(const stop_source& source, on where, F&& f, Args&&... args) {
    if constexpr (std::is_invocable_v<std::decay_t<F>, stop_token, std::decay_t<Args>...>)
      return thread(where, std::forward<F>(f), source.get_token(), std::forward<Args>(args)...);
    else
      return thread(where, std::forward<F>(f), std::forward<Args>(args)...);
  }
  stop_source source_;
  thread thread_;
};

// std::condition_variable_any's shape: waits with any lock; in the space or in static data, as mutexes are. A wait costs a
// mutex more than with condition_variable.
class condition_variable_any {
 public:
  condition_variable_any() : mutex_(detail::mutex_create(&mutex_)) {
    try {
      condition_ = detail::condition_create(&condition_);
    } catch (...) {
      detail::mutex_destroy(&mutex_, mutex_);
      throw;
    }
  }
  // Nobody waits who was not notified.
  ~condition_variable_any() {
    if (in_space(this)) {
      detail::mutex_lock(mutex_);
      while (inside_ > 0) {  // those still need mutex_
        detail::mutex_unlock(mutex_);
        this_thread::yield();
        detail::mutex_lock(mutex_);
      }
      detail::mutex_unlock(mutex_);
    }
    detail::condition_destroy(&condition_, condition_);
    detail::mutex_destroy(&mutex_, mutex_);
  }
  condition_variable_any(const condition_variable_any&) = delete;
  condition_variable_any& operator=(const condition_variable_any&) = delete;

  void notify_one() noexcept { notify(false); }
  void notify_all() noexcept { notify(true); }
  // An exception of lock.lock() ends the job.
  template <class Lock>
  void wait(Lock& lock) {
    (void)block(lock, detail::kForEver, nullptr);
  }
  template <class Lock, class Predicate>
  void wait(Lock& lock, Predicate predicate) {
    while (!predicate()) wait(lock);
  }
  template <class Lock, class Clock, class Duration>
  std::cv_status wait_until(Lock& lock, const std::chrono::time_point<Clock, Duration>& time) {
    return status(block(lock, detail::deadline_at(time), nullptr));
  }
  template <class Lock, class Rep, class Period>
  std::cv_status wait_for(Lock& lock, const std::chrono::duration<Rep, Period>& duration) {
    return status(block(lock, detail::deadline_after(duration), nullptr));
  }
  template <class Lock, class Clock, class Duration, class Predicate>
  bool wait_until(Lock& lock, const std::chrono::time_point<Clock, Duration>& time, Predicate predicate) {
    while (!predicate())
      if (wait_until(lock, time) == std::cv_status::timeout) return predicate();
    return true;
  }
  template <class Lock, class Rep, class Period, class Predicate>
  bool wait_for(Lock& lock, const std::chrono::duration<Rep, Period>& duration, Predicate predicate) {
    const std::int64_t deadline = detail::deadline_after(duration);
    while (!predicate())
      if (block(lock, deadline, nullptr) == Ended::kTimedOut) return predicate();
    return true;
  }
  // These return predicate(), also as soon as the token's source asks to stop.
  template <class Lock, class Predicate>
  bool wait(Lock& lock, stop_token token, Predicate predicate) {
    return wait_stoppable(lock, token, [] { return detail::kForEver; }, predicate);
  }
  template <class Lock, class Clock, class Duration, class Predicate>
  bool wait_until(Lock& lock, stop_token token, const std::chrono::time_point<Clock, Duration>& time,
                  Predicate predicate) {
    return wait_stoppable(lock, token, [&time] { return detail::deadline_at(time); }, predicate);
  }
  template <class Lock, class Rep, class Period, class Predicate>
  bool wait_for(Lock& lock, stop_token token, const std::chrono::duration<Rep, Period>& duration, Predicate predicate) {
    const std::int64_t deadline = detail::deadline_after(duration);
    return wait_stoppable(lock, token, [deadline] { return deadline; }, predicate);
  }

 private:
  enum class Ended { kWoken, kTimedOut, kStopped };
  static std::cv_status status(Ended ended) noexcept {
    return ended == Ended::kTimedOut ? std::cv_status::timeout : std::cv_status::no_timeout;
  }
  void notify(bool all) noexcept {
    detail::mutex_lock(mutex_);
    detail::condition_notify(condition_, all);
    detail::mutex_unlock(mutex_);
  }
  // Handles are read anew after each wait: in static data they are those of the process where the thread goes on.
  template <class Lock>
  Ended block(Lock& lock, std::int64_t deadline, const stop_token* token) {
    detail::mutex_lock(mutex_);
    if (token != nullptr && token->stop_requested()) {  // who asks later notifies
      detail::mutex_unlock(mutex_);
      return Ended::kStopped;
    }
    try {
      lock.unlock();
    } catch (...) {
      detail::mutex_unlock(mutex_);
      throw;
    }
    ++inside_;
    bool in_time = true;
    if (deadline == detail::kForEver)
      detail::condition_wait(condition_, mutex_);
    else
      in_time = detail::condition_wait_until(condition_, mutex_, deadline);
    --inside_;
    detail::mutex_unlock(mutex_);
    [&lock]() noexcept { lock.lock(); }();
    return in_time ? Ended::kWoken : Ended::kTimedOut;
  }
  template <class Lock, class Deadline, class Predicate>
  bool wait_stoppable(Lock& lock, const stop_token& token, Deadline deadline, Predicate& predicate) {
    if (token.stop_requested()) return predicate();
    const stop_callback wake(token, [this] { notify_all(); });
    while (!predicate()) {
      const Ended ended = block(lock, deadline(), &token);
      if (ended != Ended::kWoken) return predicate();
    }
    return true;
  }

  detail::SyncHandle mutex_;
  detail::SyncHandle condition_ = 0;
  int inside_ = 0;  // who waits; guarded by mutex_. Not used in static data.
};

}  // namespace ayatori
