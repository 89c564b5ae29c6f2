// SPDX-License-Identifier: Apache-2.0
// once_flag and call_once. Part of ayatori/ayatori.hpp.
//
// A flag in the space (global<once_flag>, a member of an object there, a local of a thread) counts for the job: one thread
// runs the function, on whatever process, and all others, there and elsewhere, see what it wrote. A flag outside the space
// counts for its process, in static data too: plain globals, which such a function sets, are each process's own, as what a
// function-local static holds. The thread stays on its process until that call returns.
//
// Thread-safety: any user-level thread, or OS thread of the program.
#pragma once

#include <ayatori/ayatori.hpp>

namespace ayatori {

namespace detail {

// Processes that know that something in the space has happened and see what was written before: a thread of theirs has held
// the lock of it since. A bit is written by a thread of its process, under that lock.
class SeenBy {
 public:
  constexpr SeenBy() noexcept = default;
  bool here() const noexcept {
    // acquire: pairs with the store in add_here(), of a thread of this process
    return (std::atomic_ref<std::uint64_t>(processes_).load(std::memory_order_acquire) & bit()) != 0;
  }
  bool anywhere() const noexcept {
    return std::atomic_ref<std::uint64_t>(processes_).load(std::memory_order_relaxed) != 0;
  }
  void add_here() noexcept {  // under the lock
    const std::atomic_ref<std::uint64_t> processes(processes_);
    processes.store(processes.load(std::memory_order_relaxed) | bit(), std::memory_order_release);
  }

 private:
  static std::uint64_t bit() noexcept { return std::uint64_t{1} << process_id(); }
  mutable std::uint64_t processes_ = 0;
};

// Of a flag outside the space: made by the first who asks.
SyncHandle once_mutex(std::uint64_t* handle);
void once_end(std::uint64_t* handle) noexcept;

}  // namespace detail

class once_flag {
 public:
  // In the space: throws std::system_error when there is no room for its mutex.
  constexpr once_flag() {
    if (!std::is_constant_evaluated() && in_space(this)) handle_ = detail::mutex_create(&handle_);
  }
  constexpr ~once_flag() {
    if (!std::is_constant_evaluated() && handle_ != 0) detail::once_end(&handle_);
  }
  once_flag(const once_flag&) = delete;
  once_flag& operator=(const once_flag&) = delete;

 private:
  template <class F, class... Args>
  friend void call_once(once_flag& flag, F&& f, Args&&... args);
  struct Unlock {
    std::uint64_t& handle;
    ~Unlock() { detail::mutex_unlock(handle); }
  };
  template <class F>
  void run(F& f) {
    detail::mutex_lock(detail::once_mutex(&handle_));
    const Unlock unlock{handle_};
    if (!done_) {
      f();
      done_ = true;
    }
    seen_.add_here();
  }
  std::uint64_t handle_ = 0;
  bool done_ = false;  // guarded by the mutex
  detail::SeenBy seen_;
};

// An exception that leaves f reaches the caller; the flag is then as before, and another call runs.
template <class F, class... Args>
void call_once(once_flag& flag, F&& f, Args&&... args) {
  if (flag.seen_.here()) [[likely]]
    return;
  const auto call = [&] { (void)std::invoke(std::forward<F>(f), std::forward<Args>(args)...); };
  if (in_space(&flag)) return flag.run(call);
  const pinned stay;
  flag.run(call);
}

}  // namespace ayatori
