// SPDX-License-Identifier: Apache-2.0
// Waiting, in two forms: the seam through which a page fault suspends a user-level thread (dsm calls, ult implements;
// the two never see each other), and the polling loop of OS threads that sleeps by time.
//
// W1. park() is called in a fault handler on the alternate stack and does not return there: the thread's registers are
//     saved, the worker goes on with its scheduler on its native stack and calls `parked` first.
// W2. A ticket is woken exactly once, by any OS thread of the process, not before `parked` was entered; after wake()
//     the ticket is no longer the caller's.
// W3. While may_park() says no (libraries' code, native stacks, foreign OS threads: rule P10 of docs/design) the fault is resolved
//     inline, in the handler.
// W4. Nobody spins without end: SpinThenSleep pauses, yields, then sleeps, so that more workers than CPUs make progress.
#pragma once

#include <cstdint>

namespace ayatori::base {

// Ops table of whoever schedules threads; constant after set_waiter.
struct Waiter {
  using Ticket = void*;  // a suspended thread
  using Parked = void (*)(Ticket ticket, void* argument);

  // `context`: the handler's ucontext_t. May the code that it interrupted be suspended here and resumed on any worker?
  bool (*may_park)(const void* context) noexcept;
  // Suspends that code; on the worker's native stack parked(ticket, argument) starts what will wake it. The argument
  // is copied as a pointer only: what it points to must not lie on the alternate stack.
  void (*park)(void* context, Parked parked, void* argument) noexcept;
  // Makes the thread runnable; it re-executes the access that faulted.
  void (*wake)(Ticket ticket) noexcept;
};

void set_waiter(const Waiter* waiter) noexcept;  // nullptr: no threads here, every fault is resolved inline
const Waiter* waiter() noexcept;                 // nullptr: see above

// One object a wait. Call wait() after each miss, reset() after a hit.
class SpinThenSleep {
 public:
  static constexpr int kPausesMin = 8;
  static constexpr int kPausesMax = 256;
  static constexpr int kYieldEvery = 20;  // misses
  static constexpr int kSleepAfter = 200;
  static constexpr std::int64_t kSleepNsMin = 50'000;
  static constexpr std::int64_t kSleepNsMax = 1'000'000;

  SpinThenSleep() noexcept = default;
  // misses_before_sleep: fewer where a peer's answer takes long, more where it is imminent.
  explicit SpinThenSleep(int misses_before_sleep) noexcept : sleep_after_(misses_before_sleep) {}

  void wait() noexcept {
    if (const std::int64_t ns = next()) sleep(ns);
  }
  // As wait(), but leaves the sleeping to the caller (a futex, a poll): 0, or how many nanoseconds to sleep.
  std::int64_t next() noexcept;
  void reset() noexcept;

 private:
  static void sleep(std::int64_t ns) noexcept;
  int sleep_after_ = kSleepAfter;
  int misses_ = 0;
  int pauses_ = kPausesMin;
  std::int64_t sleep_ns_ = kSleepNsMin;
};

}  // namespace ayatori::base
