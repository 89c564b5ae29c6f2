// SPDX-License-Identifier: Apache-2.0
// Claims about time, futexes, polling loops and the lock for shared memory. Method: two threads, or two processes on a
// shared anonymous mapping; nothing depends on how long a sleep takes.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/shared_lock.hpp"
#include "base/waiter.hpp"

namespace ayatori::base {
namespace {

template <class T>
T* make_shared_object() {
  void* room = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return room == MAP_FAILED ? nullptr : new (room) T();
}

TEST(Clock, RealTimeNeverGoesBack) {
  std::int64_t last = now_ns();
  for (int i = 0; i < 10'000; ++i) {
    const std::int64_t now = now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Clock, SourceReplacesTimeForAScopeOnly) {
  std::int64_t virtual_ns = 5;
  const ClockSource source{[](void* context) { return *static_cast<std::int64_t*>(context); }, &virtual_ns};
  {
    const ScopedClock scope(&source);
    EXPECT_EQ(now_ns(), 5);
    virtual_ns = 70;
    EXPECT_EQ(now_ns(), 70);
    EXPECT_GT(real_now_ns(), 70);
  }
  EXPECT_GT(now_ns(), 70);
}

TEST(Futex, ChangedWordDoesNotSleepAndTimeoutEnds) {
  std::atomic<std::uint32_t> word{7};
  EXPECT_EQ(futex_wait(word, 8), FutexResult::kChanged);
  EXPECT_EQ(futex_wait(word, 7, kNsPerMs), FutexResult::kTimeout);
  EXPECT_EQ(futex_wait(word, 7, 0), FutexResult::kTimeout);
  EXPECT_EQ(futex_wake(word, kAllWaiters), 0);
}

TEST(Futex, WakesAnotherProcessThroughSharedMemory) {
  auto* word = make_shared_object<std::atomic<std::uint32_t>>();
  ASSERT_NE(word, nullptr);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    while (word->load() == 0) futex_wait(*word, 0, 10 * kNsPerSecond);
    _exit(static_cast<int>(word->load()));
  }
  word->store(9);
  futex_wake(*word, 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 9);
  munmap(word, sizeof *word);
}

TEST(SpinThenSleep, SleepsOnlyAfterItsMissesAndDoublesUpToItsLimit) {
  SpinThenSleep wait(30);
  for (int i = 0; i < 30; ++i) ASSERT_EQ(wait.next(), 0) << i;
  EXPECT_EQ(wait.next(), SpinThenSleep::kSleepNsMin);
  EXPECT_EQ(wait.next(), 2 * SpinThenSleep::kSleepNsMin);
  for (int i = 0; i < 10; ++i) wait.next();
  EXPECT_EQ(wait.next(), SpinThenSleep::kSleepNsMax);
  wait.reset();
  EXPECT_EQ(wait.next(), 0);
}

TEST(Waiter, NobodySchedulesThreadsUntilSomeoneSaysSo) {
  EXPECT_EQ(waiter(), nullptr);
  const Waiter table{[](const void*) noexcept { return true; }, [](void*, Waiter::Parked, void*) noexcept {},
                     [](Waiter::Ticket) noexcept {}};
  set_waiter(&table);
  EXPECT_EQ(waiter(), &table);
  set_waiter(nullptr);
  EXPECT_EQ(waiter(), nullptr);
}

TEST(SharedLock, ExcludesThreadsOfTwoProcesses) {
  struct Shared {
    SharedLock lock;
    std::uint64_t count = 0;
  };
  auto* shared = make_shared_object<Shared>();
  ASSERT_NE(shared, nullptr);
  constexpr int kRounds = 20'000;
  const auto work = [shared] {
    for (int i = 0; i < kRounds; ++i) {
      const std::scoped_lock hold(shared->lock);
      ++shared->count;
    }
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    work();
    _exit(0);
  }
  std::thread second(work);
  work();
  second.join();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(shared->count, 3u * kRounds);
  EXPECT_FALSE(shared->lock.held());
  munmap(shared, sizeof *shared);
}

TEST(SharedLock, TryLockFailsWhileHeld) {
  SharedLock lock;
  EXPECT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  EXPECT_TRUE(lock.held());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

}  // namespace
}  // namespace ayatori::base
