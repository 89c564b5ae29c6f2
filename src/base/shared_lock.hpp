// SPDX-License-Identifier: Apache-2.0
// A lock for memory shared between processes. Called by workers, thieves and fault handlers on native or alternate
// stacks, never on a stack of the space (thesis 6.2.4).
//
// L1. Waiters spin about 200 pauses, then yield the CPU, then sleep 50 us: the holder may be preempted on this very CPU.
// L2. A holder that dies ends the job (the launcher kills all members), so no waiter needs to recover the lock.
#pragma once

#include <sched.h>
#include <time.h>

#include <atomic>
#include <cstdint>

namespace ayatori::base {

inline void cpu_pause() noexcept { __builtin_ia32_pause(); }

// Back-off between tries (L1). One object a wait.
class Backoff {
 public:
  void wait() noexcept {
    if (++tries_ <= kPauses) {
      cpu_pause();
    } else if (tries_ <= kPauses + kYields) {
      sched_yield();
    } else {
      const timespec nap{0, 50'000};
      nanosleep(&nap, nullptr);
    }
  }

 private:
  static constexpr int kPauses = 200;
  static constexpr int kYields = 100;
  int tries_ = 0;
};

class SharedLock {
 public:
  void lock() noexcept {
    Backoff backoff;
    while (!try_lock()) backoff.wait();
  }
  bool try_lock() noexcept {
    // acquire: pairs with the release store in unlock()
    return word_.load(std::memory_order_relaxed) == 0 && word_.exchange(1, std::memory_order_acquire) == 0;
  }
  void unlock() noexcept { word_.store(0, std::memory_order_release); }
  bool held() const noexcept { return word_.load(std::memory_order_relaxed) != 0; }  // for checks only

 private:
  std::atomic<std::uint32_t> word_{0};
};

}  // namespace ayatori::base
