// SPDX-License-Identifier: Apache-2.0
// The submission queue and the gate before it by themselves (net/offload/submission_queue.hpp U1-U4, sleep_gate.hpp S1-S2),
// with queues of 4 slots. Sleeps have no time limit: a lost wake-up is a hang.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/futex.hpp"
#include "base/shared_lock.hpp"
#include "net/offload/sleep_gate.hpp"
#include "net/offload/submission_queue.hpp"

namespace ayatori::net::offload {
namespace {

constexpr std::uint64_t kAnyStamp = ~std::uint64_t{0} >> 3;

bool push(SubmissionQueue& queue, std::uint64_t number, std::uint64_t stamp = 0) {
  return queue.try_push(ShortKind::kRead, {1, 2, number, nullptr, 8, {}, kNoRegion, 1}, stamp);
}

TEST(SubmissionQueue, HoldsWhatFitsInOrderAndSaysWhenFull) {
  for (const std::size_t slots : {2u, 4u, 256u}) {
    SubmissionQueue queue(slots);
    std::uint64_t pushed = 0, taken = 0;
    for (int lap = 0; lap < 50; ++lap) {
      for (std::size_t fill = 0; fill <= slots; fill += slots > 4 ? 51 : 1) {  // at every position of the wrap
        EXPECT_TRUE(queue.nothing_visible());
        for (std::size_t i = 0; i < fill; ++i) ASSERT_TRUE(push(queue, pushed++));
        EXPECT_EQ(queue.nothing_visible(), fill == 0);
        EXPECT_EQ(queue.full(), fill == slots);
        if (fill == slots) {
          ASSERT_FALSE(push(queue, 0));
        }
        EXPECT_EQ(queue.end(0) - queue.head(), fill);
        for (std::size_t i = 0; i < fill; ++i) {
          const SubmissionQueue::Slot* slot = queue.front(0);
          ASSERT_NE(slot, nullptr);
          ASSERT_EQ(slot->move.offset, taken++);
          queue.pop();
        }
        EXPECT_EQ(queue.front(0), nullptr);
      }
    }
  }
}

TEST(SubmissionQueue, KeepsWhatItWasGiven) {
  SubmissionQueue queue(4);
  int word = 0;
  const Callback done{[](void*, Completion) {}, &word};
  ASSERT_TRUE(queue.try_push(ShortKind::kWrite, {-1, 7, 1ull << 60, &word, 99, done, 5, 3}, 0));
  ASSERT_TRUE(queue.try_push(ShortAtomic{2, 8, 24, ~0ull, 11, done, AtomicOp::kFetchAnd, 4, 9}, 0));
  const SubmissionQueue::Slot* slot = queue.front(0);
  ASSERT_EQ(slot->kind(), ShortKind::kWrite);
  EXPECT_EQ(slot->move.process, -1);
  EXPECT_EQ(slot->move.region, 7u);
  EXPECT_EQ(slot->move.offset, 1ull << 60);
  EXPECT_EQ(slot->move.local, &word);
  EXPECT_EQ(slot->move.size_bytes, 99u);
  EXPECT_EQ(slot->move.on_complete.function, done.function);
  EXPECT_EQ(slot->move.on_complete.data, &word);
  EXPECT_EQ(slot->move.local_region, 5u);
  EXPECT_EQ(slot->move.lane, 3);
  queue.pop();
  slot = queue.front(0);
  ASSERT_EQ(slot->kind(), ShortKind::kAtomic);
  EXPECT_EQ(slot->atomic.process, 2);
  EXPECT_EQ(slot->atomic.offset, 24u);
  EXPECT_EQ(slot->atomic.operand, ~0ull);
  EXPECT_EQ(slot->atomic.expected, 11u);
  EXPECT_EQ(slot->atomic.op, AtomicOp::kFetchAnd);
  EXPECT_EQ(slot->atomic.width_bytes, 4);
  EXPECT_EQ(slot->atomic.lane, 9);
}

// U2.
TEST(SubmissionQueue, StampsHoldBack) {
  SubmissionQueue queue(4);
  ASSERT_TRUE(push(queue, 0, 3));
  ASSERT_TRUE(push(queue, 1, 3));
  ASSERT_TRUE(push(queue, 2, 4));
  EXPECT_EQ(queue.front(2), nullptr);
  EXPECT_EQ(queue.end(2), 0u);
  EXPECT_EQ(queue.end(3), 2u);
  EXPECT_EQ(queue.end(4), 3u);
  EXPECT_FALSE(queue.nothing_visible());  // it is there
  ASSERT_NE(queue.front(3), nullptr);
  queue.pop();
  queue.pop();
  EXPECT_EQ(queue.front(3), nullptr);
  EXPECT_NE(queue.front(kAnyStamp), nullptr);
}

TEST(SleepGate, AsksForExactlyOneWakeUp) {
  for (const bool asymmetric : {false, base::asymmetric_fences()}) {
    SleepGate gate(asymmetric);
    for (int round = 0; round < 10; ++round) {
      EXPECT_FALSE(gate.open_after_push());
      gate.shut();
      gate.shut();  // another thread of the consumer's side: no second wake-up
      EXPECT_TRUE(gate.open_after_push());
      EXPECT_FALSE(gate.open_after_push());
      gate.shut();
      EXPECT_TRUE(gate.open());
      EXPECT_FALSE(gate.open());
    }
  }
}

// Producers with a queue each, consumers that take turns at all of them and sleep whenever they may. Each producer's commands
// arrive in its order, each once.
void storm(bool asymmetric, int consumers) {
  constexpr std::uint64_t kProducers = 3, kEach = 20'000;
  std::vector<std::unique_ptr<SubmissionQueue>> queues;
  for (std::uint64_t p = 0; p < kProducers; ++p) queues.push_back(std::make_unique<SubmissionQueue>(4));
  SleepGate gate(asymmetric);
  std::atomic<std::uint32_t> doorbell{0};
  std::atomic<std::uint64_t> taken{0};
  base::SharedLock lock;
  std::vector<std::uint64_t> expected(kProducers, 0);  // guarded by lock
  const auto ring = [&] {
    doorbell.fetch_add(1);
    base::futex_wake(doorbell, base::kAllWaiters);
  };
  std::vector<std::thread> threads;
  for (std::uint64_t p = 0; p < kProducers; ++p) {
    threads.emplace_back([&, p] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        while (!push(*queues[p], i)) queues[p]->wait_for_room(base::kForever);
        if (gate.open_after_push()) ring();
      }
    });
  }
  for (int c = 0; c < consumers; ++c) {
    threads.emplace_back([&] {
      while (taken.load() < kProducers * kEach) {
        const std::uint32_t rings = doorbell.load();
        std::uint64_t count = 0;
        if (lock.try_lock()) {
          for (std::uint64_t p = 0; p < kProducers; ++p) {
            const std::uint64_t before = count;
            for (; const SubmissionQueue::Slot* slot = queues[p]->front(0); ++count) {
              EXPECT_EQ(slot->move.offset, expected[p]++);
              queues[p]->pop();
            }
            if (count != before) queues[p]->tell_room();
          }
          lock.unlock();
        }
        if (count != 0) {
          if (taken.fetch_add(count) + count == kProducers * kEach) ring();
          continue;
        }
        gate.shut();
        bool visible = false;
        for (const auto& queue : queues) visible = visible || !queue->nothing_visible();
        while (!visible && taken.load() < kProducers * kEach && doorbell.load() == rings)
          base::futex_wait(doorbell, rings);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::uint64_t next : expected) EXPECT_EQ(next, kEach);
}

TEST(SleepGate, NoWakeUpIsLostAndNoRoom) {
  for (const int consumers : {1, 2}) {
    storm(false, consumers);
    if (base::asymmetric_fences()) storm(true, consumers);
  }
}

}  // namespace
}  // namespace ayatori::net::offload
