// SPDX-License-Identifier: Apache-2.0
// The ways in which each program runs: over Ayatori's threads, with the library's calls elided (--serial), and, where a program
// has --hints, over threads with its work dealt out in advance.
// A program is a template over one of the classes below and uses nothing else of the library, so that both runs
// execute the same algorithm on the same data layout.
//
// 1. Serial calls what Parallel forks, at the place of the fork, on the caller's stack.
// 2. reduce() folds over the same tree in both modes and on any number of processes, so that floating-point sums
//    agree bit for bit.
// 3. Programs read clocks, do input and output in on_process_0 only: a thread may be on another machine after any fork.
#pragma once

#include <ayatori/ayatori.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

namespace common {

struct Parallel {
  static constexpr bool kSerial = false;
  using thread = ayatori::thread;
  using mutex = ayatori::mutex;
  static thread thread_on(int process, auto&& f) { return {ayatori::on(process), std::forward<decltype(f)>(f)}; }
  static void invoke(auto&&... f) { ayatori::parallel_invoke(std::forward<decltype(f)>(f)...); }
  // a(share) and b(share), whose work is as these weights; only Hinted looks at shares and weights.
  struct Share {};
  static Share whole() { return {}; }
  static void divide(Share s, double, auto&& a, double, auto&& b) {
    ayatori::parallel_invoke([&] { a(s); }, [&] { b(s); });
  }
  static int process_id() { return ayatori::process_id(); }
  static int process_count() { return ayatori::process_count(); }
  // f(i) for i in [first, last); at most `grain` of them in one thread.
  static void for_each(std::int64_t first, std::int64_t last, std::int64_t grain, auto&& f) {
    ayatori::parallel_for(first, last, grain, f);
  }
  // op over f(i) in order of i; one thread an index.
  template <class T>
  static T reduce(std::int64_t first, std::int64_t last, T identity, auto&& f, auto&& op) {
    return ayatori::parallel_reduce(first, last, std::int64_t{1}, identity, f, op);
  }
  static void on_process_0(auto&& f) {
    thread t(ayatori::on(0), [&f] {
      ayatori::pinned here;
      f();
    });
    t.join();
  }
};

// The same, with each process's part of the work sent there in advance (ayatori::share).
struct Hinted : Parallel {
  using Share = ayatori::share;
  static Share whole() { return Share::all(); }
  static void divide(Share s, double a_weight, auto&& a, double b_weight, auto&& b) {
    ayatori::parallel_invoke(s, a_weight, a, b_weight, b);
  }
  static void for_each(std::int64_t first, std::int64_t last, std::int64_t grain, auto&& f) {
    ayatori::parallel_for(whole(), first, last, grain, f);
  }
};

struct Serial {
  static constexpr bool kSerial = true;
  struct Share {};
  static Share whole() { return {}; }
  static void divide(auto s, double, auto&& a, double, auto&& b) {  // any mode's share
    a(s);
    b(s);
  }
  class thread {
   public:
    thread() noexcept = default;
    template <class F>
      requires(!std::is_same_v<std::remove_cvref_t<F>, thread>)
    explicit thread(F&& f) {
      f();
    }
    void join() noexcept {}
  };
  struct mutex {
    void lock() noexcept {}
    void unlock() noexcept {}
  };
  static thread thread_on(int, auto&& f) { return thread(f); }
  static void invoke(auto&&... f) { (f(), ...); }
  static int process_id() { return 0; }
  static int process_count() { return 1; }
  static void for_each(std::int64_t first, std::int64_t last, std::int64_t, auto&& f) {
    for (std::int64_t i = first; i < last; ++i) f(i);
  }
  template <class T>
  static T reduce(std::int64_t first, std::int64_t last, T identity, auto&& f, auto&& op) {
    if (!(first < last)) return identity;
    if (last - first == 1) return op(identity, f(first));
    const std::int64_t middle = first + (last - first) / 2;
    T left = reduce(first, middle, identity, f, op);
    T right = reduce(middle, last, identity, f, op);
    return op(std::move(left), std::move(right));
  }
  static void on_process_0(auto&& f) { f(); }
};

// Seconds of process 0's clock between construction and seconds().
template <class Mode>
class Timer {
 public:
  Timer() : start_(now()) {}
  double seconds() const { return std::chrono::duration<double>(now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  static Clock::time_point now() {
    Clock::time_point t;
    Mode::on_process_0([&t] { t = Clock::now(); });
    return t;
  }
  Clock::time_point start_;
};

}  // namespace common
