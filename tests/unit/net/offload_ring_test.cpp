// SPDX-License-Identifier: Apache-2.0
// The command ring by itself (net/offload/command_ring.hpp G1-G3), with rings of 4 slots.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "base/futex.hpp"
#include "net/offload/command_ring.hpp"

namespace ayatori::net::offload {
namespace {

struct Value {
  std::uint32_t producer = 0;
  std::uint32_t number = 0;
};

TEST(CommandRing, HoldsWhatFitsInOrderAndSaysWhenFull) {
  CommandRing<Value> ring(4);
  std::array<Value, 8> values{};
  std::array<Value*, 8> got{};
  bool wake = false;
  for (int lap = 0; lap < 100; ++lap) {
    for (std::size_t fill = 0; fill <= 4; ++fill) {  // 0 to 4 at every position of the wrap
      EXPECT_TRUE(ring.nothing_visible());
      for (std::size_t i = 0; i < fill; ++i) ASSERT_TRUE(ring.try_push(&values[i], &wake));
      EXPECT_EQ(ring.nothing_visible(), fill == 0);
      if (fill == 4) {
        ASSERT_FALSE(ring.try_push(&values[7], &wake));
      }
      const std::size_t first = ring.pop(got.data(), fill / 2);  // in two parts
      ASSERT_EQ(first, fill / 2);
      ASSERT_EQ(ring.pop(got.data() + first, 8), fill - first);
      for (std::size_t i = 0; i < fill; ++i) ASSERT_EQ(got[i], &values[i]);
    }
  }
  EXPECT_FALSE(wake);
}

TEST(CommandRing, TheSleepBitAsksForExactlyOneWakeUp) {
  CommandRing<Value> ring(4);
  Value value;
  Value* got[4];
  for (int round = 0; round < 10; ++round) {
    bool wake = false;
    ASSERT_TRUE(ring.prepare_sleep());
    ASSERT_TRUE(ring.prepare_sleep());  // another thread of the consumer's side: no second wake-up
    ASSERT_TRUE(ring.try_push(&value, &wake));
    EXPECT_TRUE(wake);
    wake = false;
    ASSERT_TRUE(ring.try_push(&value, &wake));
    EXPECT_FALSE(wake);
    EXPECT_FALSE(ring.prepare_sleep());  // not empty
    EXPECT_EQ(ring.pop(got, 4), 2u);
    ASSERT_TRUE(ring.prepare_sleep());
    ring.cancel_sleep();
    ASSERT_TRUE(ring.try_push(&value, &wake));
    EXPECT_FALSE(wake);
    EXPECT_EQ(ring.pop(got, 4), 1u);
  }
}

// A consumer that sleeps whenever it may, with no time limit, and producers that go through a ring of 4: a lost wake-up is a
// hang, a needless one is counted. Each producer's values arrive in its order, each once.
TEST(CommandRing, NoWakeUpIsLostAndNoneIsNeedless) {
  constexpr std::uint32_t kProducers = 4;
  constexpr std::uint32_t kEach = 20'000;
  CommandRing<Value> ring(4);
  std::atomic<std::uint32_t> doorbell{0};
  std::atomic<std::uint32_t> wakes{0};
  std::vector<std::vector<Value>> values(kProducers, std::vector<Value>(kEach));
  std::vector<std::thread> producers;
  for (std::uint32_t p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (std::uint32_t i = 0; i < kEach; ++i) {
        values[p][i] = {p, i};
        bool wake = false;
        while (!ring.try_push(&values[p][i], &wake)) sched_yield();
        if (!wake) continue;
        wakes.fetch_add(1);
        doorbell.fetch_add(1);
        base::futex_wake(doorbell, 1);
      }
    });
  }
  std::vector<std::uint32_t> expected(kProducers, 0);
  std::uint32_t taken = 0;
  std::uint32_t sleeps = 0;
  while (taken < kProducers * kEach) {
    Value* got[3];
    const std::size_t count = ring.pop(got, 3);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(got[i]->number, expected[got[i]->producer]++);
    taken += static_cast<std::uint32_t>(count);
    if (count != 0) continue;
    const std::uint32_t rings = doorbell.load();
    if (!ring.prepare_sleep()) continue;
    ++sleeps;
    while (doorbell.load() == rings) base::futex_wait(doorbell, rings);
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_EQ(wakes.load(), sleeps);
}

}  // namespace
}  // namespace ayatori::net::offload
