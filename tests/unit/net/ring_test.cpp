// SPDX-License-Identifier: Apache-2.0
// The MPSC ring of the shm transport by itself (net/shm/ring.hpp R1-R6), with threads as producers.
#include "net/shm/ring.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/futex.hpp"
#include "base/shared_lock.hpp"

namespace ayatori::net::shm {
namespace {

class RingMemory {
 public:
  explicit RingMemory(std::size_t units)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(64, (MpscRing::bytes_needed(units) + 63) / 64 * 64))),
        units_(units) {
    std::memset(memory_, 0, MpscRing::bytes_needed(units));
    MpscRing::format(memory_, units);
  }
  ~RingMemory() { std::free(memory_); }
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;
  MpscRing view() { return {memory_, units_}; }

 private:
  std::byte* memory_;
  std::size_t units_;
};

bool push(MpscRing& ring, int process, std::uint64_t value, std::size_t bytes, bool* wake) {
  const MpscRing::Claim claim = ring.claim(process, bytes, wake);
  if (claim.data == nullptr) return false;
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) std::memcpy(claim.data + i, &value, 8);
  ring.publish(claim, process);
  return true;
}

TEST(MpscRing, HoldsWhatFitsAndSaysWhenFull) {
  RingMemory memory(4);
  MpscRing ring = memory.view();
  bool wake = false;
  for (std::uint64_t lap = 0; lap < 100; ++lap) {
    EXPECT_EQ(ring.front().kind, MpscRing::Peek::kEmpty);
    for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(push(ring, 1, lap * 4 + i, 8, &wake));
    EXPECT_FALSE(push(ring, 1, 0, 8, &wake));
    for (std::uint64_t i = 0; i < 4; ++i) {
      const MpscRing::Front front = ring.front();
      ASSERT_EQ(front.kind, MpscRing::Peek::kMessage);
      std::uint64_t value = 0;
      std::memcpy(&value, front.data, 8);
      EXPECT_EQ(value, lap * 4 + i);
      ring.pop(front);
    }
  }
  EXPECT_FALSE(wake);
}

// R4: every mixture of lengths passes the wrap in one piece.
TEST(MpscRing, MessagesOfSeveralUnitsStayInOnePiece) {
  RingMemory memory(8);
  MpscRing ring = memory.view();
  bool wake = false;
  std::uint64_t number = 0;
  for (std::size_t units = 1; units <= 8; ++units) {
    for (int i = 0; i < 40; ++i, ++number) {
      const std::size_t bytes = units * MpscRing::kUnitBytes - (number % 2) * 8;
      int tries = 0;
      while (!push(ring, 0, number, bytes, &wake)) {  // only a pad can be in the way
        ASSERT_LT(++tries, 3);
        const MpscRing::Front pad = ring.front();
        ASSERT_EQ(pad.kind, MpscRing::Peek::kPad);
        ring.pop(pad);
      }
      MpscRing::Front front = ring.front();
      if (front.kind == MpscRing::Peek::kPad) {
        ring.pop(front);
        front = ring.front();
      }
      ASSERT_EQ(front.kind, MpscRing::Peek::kMessage);
      for (std::size_t at = 0; at < bytes; at += 8) {
        std::uint64_t value = 0;
        std::memcpy(&value, front.data + at, 8);
        ASSERT_EQ(value, number);
      }
      ring.pop(front);
    }
  }
}

// R6: a producer that died between claim and publish does not block those behind it.
TEST(MpscRing, ADeadClaimerIsSkipped) {
  RingMemory memory(8);
  MpscRing ring = memory.view();
  bool wake = false;
  const MpscRing::Claim dead = ring.claim(5, 2 * MpscRing::kUnitBytes, &wake);
  ASSERT_NE(dead.data, nullptr);
  ASSERT_TRUE(push(ring, 1, 77, 8, &wake));
  MpscRing::Front front = ring.front();
  ASSERT_EQ(front.kind, MpscRing::Peek::kBusy);
  EXPECT_EQ(front.process, 5);
  ring.skip(front);
  front = ring.front();
  ASSERT_EQ(front.kind, MpscRing::Peek::kMessage);
  EXPECT_EQ(front.process, 1);
  ring.pop(front);
  EXPECT_EQ(ring.front().kind, MpscRing::Peek::kEmpty);
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(push(ring, 1, i, 8, &wake));  // no unit was lost
}

// R7: who does not look for claims sees what is published and nothing else, small or not.
TEST(MpscRing, PollingSeesWhatIsPublished) {
  RingMemory memory(8);
  MpscRing ring = memory.view();
  bool wake = false;
  for (int lap = 0; lap < 20; ++lap) {
    for (const std::size_t bytes : {std::size_t{8}, MpscRing::kSmallBytes, MpscRing::kSmallBytes + 8}) {
      EXPECT_TRUE(ring.looks_empty());
      const MpscRing::Claim claim = ring.claim(3, bytes, &wake);
      ASSERT_NE(claim.data, nullptr);
      EXPECT_EQ(claim.small, bytes <= MpscRing::kSmallBytes);
      EXPECT_TRUE(ring.looks_empty());
      EXPECT_EQ(ring.front(false).kind, MpscRing::Peek::kEmpty);
      EXPECT_EQ(ring.front().kind, MpscRing::Peek::kBusy);
      std::memset(claim.data, lap, bytes);
      ring.publish(claim, 3);
      EXPECT_FALSE(ring.looks_empty());
      const MpscRing::Front front = ring.front(false);
      ASSERT_EQ(front.kind, MpscRing::Peek::kMessage);
      EXPECT_TRUE(ring.is_last(front));
      EXPECT_EQ(front.process, 3);
      for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(front.data[i], static_cast<std::byte>(lap));
      ring.pop(front);
    }
  }
}

TEST(MpscRing, TheSleepBitAsksForExactlyOneWakeUp) {
  RingMemory memory(4);
  MpscRing ring = memory.view();
  bool wake = false;
  EXPECT_TRUE(ring.prepare_sleep());
  ASSERT_TRUE(push(ring, 0, 1, 8, &wake));
  EXPECT_TRUE(wake);
  wake = false;
  ASSERT_TRUE(push(ring, 0, 2, 8, &wake));
  EXPECT_FALSE(wake);
  EXPECT_FALSE(ring.prepare_sleep());  // not empty
  ring.pop(ring.front());
  ring.pop(ring.front());
  EXPECT_TRUE(ring.prepare_sleep());
  EXPECT_TRUE(ring.rouse());
  EXPECT_FALSE(ring.rouse());
}

// Many producers, rings from tiny to ample, mixed sizes: each message once, intact, in its producer's order, and a consumer
// that sleeps whenever it finds nothing is always woken (a lost wake-up shows as a time-out of its sleep).
TEST(MpscRing, StressOfProducersAgainstASleepyConsumer) {
  constexpr int kProducers = 4;
  constexpr std::uint64_t kEach = 20'000;
  for (const std::size_t units : {4, 8, 64}) {
    RingMemory memory(units);
    std::atomic<std::uint32_t> doorbell{0};
    std::vector<std::thread> producers;
    for (int p = 0; p < kProducers; ++p) {
      producers.emplace_back([&, p] {
        MpscRing ring = memory.view();
        base::Backoff backoff;
        for (std::uint64_t i = 0; i < kEach;) {
          bool wake = false;
          const std::size_t bytes = i % 7 == 0 ? 3 * MpscRing::kUnitBytes : 8 + (i % 30) * 8;
          const bool pushed = push(ring, p, i, bytes, &wake);
          if (wake) {
            doorbell.fetch_add(1);
            base::futex_wake(doorbell, base::kAllWaiters);
          }
          if (pushed) {
            ++i;
            backoff = base::Backoff();
          } else {
            backoff.wait();
          }
        }
      });
    }
    MpscRing ring = memory.view();
    std::uint64_t next[kProducers] = {};
    int timeouts = 0;
    for (std::uint64_t got = 0; got < kProducers * kEach;) {
      const std::uint32_t rings = doorbell.load();
      const MpscRing::Front front = ring.front();
      if (front.kind == MpscRing::Peek::kMessage) {
        std::uint64_t value = 0;
        std::memcpy(&value, front.data, 8);
        ASSERT_EQ(value, next[front.process]);
        if (value % 7 == 0) {
          std::uint64_t last = 0;
          std::memcpy(&last, front.data + 3 * MpscRing::kUnitBytes - 8, 8);
          ASSERT_EQ(last, value);
        }
        ++next[front.process];
        ++got;
        ring.pop(front);
      } else if (front.kind == MpscRing::Peek::kPad) {
        ring.pop(front);
      } else if (front.kind == MpscRing::Peek::kEmpty && ring.prepare_sleep()) {
        timeouts += base::futex_wait(doorbell, rings, 20'000'000'000) == base::FutexResult::kTimeout;
      } else {
        std::this_thread::yield();
      }
    }
    for (std::thread& producer : producers) producer.join();
    EXPECT_EQ(timeouts, 0);
    EXPECT_EQ(ring.front().kind, MpscRing::Peek::kEmpty);
  }
}

}  // namespace
}  // namespace ayatori::net::shm
