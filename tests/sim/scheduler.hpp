// SPDX-License-Identifier: Apache-2.0
// The seeded scheduler of the simulation: each worker of each simulated process is a fiber of one OS thread; at every
// scheduling point the seed decides which fiber goes on. Nothing else is a source of randomness.
//
// Who uses it: machine.hpp (locks, memory accesses) and runtime.cpp (workers), on the fibers.
// S1. A fiber is left only in point(), yield(), block() and fail(): what lies between is atomic.
// S2. One (seed, planted bug) gives one run: same steps, same failure.
// S3. After fail() no fiber runs again; fibers own no memory, so that they can be left where they stand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/shared_lock.hpp"

namespace ayatori::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 0x1234567) {}
  std::uint64_t next() noexcept {  // splitmix64
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  std::uint32_t below(std::uint32_t n) noexcept {
    return static_cast<std::uint32_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
  }
  int between(int low, int high) noexcept {
    return low + static_cast<int>(below(static_cast<std::uint32_t>(high - low + 1)));
  }
  bool one_in(std::uint32_t n) noexcept { return below(n) == 0; }
  bool percent(std::uint32_t n) noexcept { return below(100) < n; }

 private:
  std::uint64_t state_;
};

class Scheduler {
 public:
  static constexpr int kMaxFibers = 16;

  // Starts over with no fibers.
  void reset(std::uint64_t seed, std::uint64_t step_limit);
  // entry(argument, number) runs as a fiber. Returns its number.
  int spawn(void (*entry)(void*, int), void* argument);
  // Runs until every fiber has returned (true) or something failed (false).
  bool run();

  // On a fiber:
  void point() {
    ++points_;
    if (random_.below(256) >= switch_chance_) return;
    for (std::uint32_t stay = random_.one_in(24) ? 1 + random_.below(longest_delay_) : 1; stay > 0; --stay) yield();
  }
  void yield() { leave(); }
  void idle();                         // yields; the fiber found nothing to do
  void block(base::SharedLock* lock);  // until the lock is free
  void busy() { fibers_[current_].idle = false; }
  int current() const noexcept { return current_; }

  // Ends the run; keeps the first message. Returns only when called from outside a fiber.
  void fail(const char* what);
  const std::string& failure() const noexcept { return failure_; }
  bool failed() const noexcept { return !failure_.empty(); }
  std::uint64_t steps() const noexcept { return steps_; }
  std::uint64_t points() const noexcept { return points_; }
  Random& random() noexcept { return random_; }

 private:
  struct Fiber {
    std::unique_ptr<std::byte[]> stack;
    void* sp = nullptr;
    void (*entry)(void*, int) = nullptr;
    void* argument = nullptr;
    base::SharedLock* waits_for = nullptr;
    std::uint32_t weight = 1;  // of 64
    bool done = false, idle = false;
    void* sanitizer_stack = nullptr;
  };
  static constexpr std::size_t kStackBytes = std::size_t{128} << 10;

  static void enter();
  void leave();
  int pick();
  void reweigh();

  Fiber fibers_[kMaxFibers];
  int count_ = 0, live_ = 0, current_ = -1;
  void* main_sp_ = nullptr;
  void* main_sanitizer_stack_ = nullptr;
  const void* main_stack_bottom_ = nullptr;
  std::size_t main_stack_bytes_ = 0;
  Random random_{0};
  std::uint32_t switch_chance_ = 64;  // of 256, at a point
  std::uint32_t longest_delay_ = 1;   // steps that a fiber may stand still in the middle of something
  std::uint32_t reweigh_every_ = 0;   // steps; 0: all fibers are equal
  std::uint64_t steps_ = 0, step_limit_ = 0, points_ = 0;
  std::string failure_;
};

}  // namespace ayatori::sim
