// SPDX-License-Identifier: Apache-2.0
// The run ring between real threads: in order, and every item is taken exactly once, whoever takes it.
#include "ult/run_ring.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace {

using ayatori::ult::RunRing;

struct Item {
  std::atomic<int> taken{0};
};
using Ring = RunRing<Item>;

TEST(RunRing, GivesTheOldestFirst) {
  const auto ring = std::make_unique<Ring>();
  Item items[3];
  EXPECT_TRUE(ring->looks_empty());
  EXPECT_EQ(ring->pop(), nullptr);
  for (int lap = 0; lap < 1000; ++lap) {
    for (Item& i : items) ASSERT_TRUE(ring->try_push(&i));
    EXPECT_FALSE(ring->looks_empty());
    EXPECT_EQ(ring->look(0), &items[0]);
    EXPECT_EQ(ring->look(2), &items[2]);
    EXPECT_EQ(ring->look(3), nullptr);
    for (Item& i : items) ASSERT_EQ(ring->pop(), &i);
    ASSERT_EQ(ring->pop(), nullptr);
  }
}

TEST(RunRing, RefusesWhatIsTooMuch) {
  const auto ring = std::make_unique<Ring>();
  std::vector<Item> items(Ring::kRoom + 1);
  for (std::size_t i = 0; i < Ring::kRoom; ++i) ASSERT_TRUE(ring->try_push(&items[i]));
  EXPECT_FALSE(ring->try_push(&items[Ring::kRoom]));
  EXPECT_EQ(ring->pop(), items.data());
  EXPECT_TRUE(ring->try_push(&items[Ring::kRoom]));
  EXPECT_FALSE(ring->try_push(items.data()));
  for (std::size_t i = 1; i <= Ring::kRoom; ++i) ASSERT_EQ(ring->pop(), &items[i]);
  EXPECT_EQ(ring->pop(), nullptr);
}

// The owner adds two and takes again; a thief takes what it can get. Goes on until they met often enough, however the machine
// shares out its CPUs.
TEST(RunRing, EveryItemGoesToOwnerOrThief) {
  constexpr int kBatch = 1'000, kMaxBatches = 50'000;
  constexpr long kEnough = 100'000;
  const auto ring = std::make_unique<Ring>();
  std::atomic<bool> over{false};
  std::atomic<long> stolen{0};
  std::thread thief([&] {
    while (!over.load(std::memory_order_relaxed)) {
      if (Item* const i = ring->pop()) {
        i->taken.fetch_add(1, std::memory_order_relaxed);
        stolen.fetch_add(1, std::memory_order_release);  // pairs with the owner's acquire before it looks at items
      }
    }
  });
  long wrong = 0;
  for (int batch = 0; batch < kMaxBatches && stolen.load(std::memory_order_relaxed) < kEnough; ++batch) {
    std::vector<Item> items(2 * kBatch);
    long popped = 0;
    const long before = stolen.load(std::memory_order_relaxed);
    for (std::size_t r = 0; r < kBatch; ++r) {
      ring->try_push(&items[2 * r]);
      ring->try_push(&items[2 * r + 1]);
      while (Item* const i = ring->pop()) {
        i->taken.fetch_add(1, std::memory_order_relaxed);
        ++popped;
      }
    }
    // The ring is empty: what was not popped here was stolen, and is counted soon.
    for (int i = 0; i < 1'000'000 && popped + stolen.load(std::memory_order_acquire) - before < 2 * kBatch; ++i)
      std::this_thread::yield();
    for (const Item& i : items) wrong += i.taken.load() != 1;
    if (wrong != 0) break;
  }
  over.store(true, std::memory_order_relaxed);
  thief.join();
  EXPECT_EQ(wrong, 0) << "items that were taken twice or never";
  EXPECT_GT(stolen.load(), 0);
}

// The owner keeps the ring full to the brim, so that entries are written again as soon as they may be, and takes, too.
TEST(RunRing, EveryItemIsTakenOnceByOwnerAndThieves) {
  constexpr int kItems = 1'000'000, kThieves = 3;
  const auto ring = std::make_unique<Ring>();
  const auto items = std::make_unique<Item[]>(kItems);
  std::atomic<bool> over{false};
  std::atomic<long> stolen{0};
  std::vector<std::thread> thieves;
  for (int t = 0; t < kThieves; ++t)
    thieves.emplace_back([&] {
      while (!over.load(std::memory_order_relaxed)) {
        Item* const i = ring->pop();
        if (!i) {
          std::this_thread::yield();
          continue;
        }
        i->taken.fetch_add(1, std::memory_order_relaxed);
        stolen.fetch_add(1, std::memory_order_relaxed);
      }
    });
  long popped = 0;
  const auto take = [&] {
    Item* const i = ring->pop();
    if (!i) return false;
    i->taken.fetch_add(1, std::memory_order_relaxed);
    ++popped;
    return true;
  };
  for (int next = 0; next < kItems;) {
    while (next < kItems && ring->try_push(&items[next])) ++next;
    if (next % 3 == 0) take();
    std::this_thread::yield();
  }
  while (take()) {
  }
  over.store(true, std::memory_order_relaxed);
  for (std::thread& t : thieves) t.join();
  long wrong = 0;
  for (int i = 0; i < kItems; ++i) wrong += items[i].taken.load() != 1;
  EXPECT_EQ(wrong, 0) << "items that were taken twice or never";
  EXPECT_EQ(popped + stolen.load(), kItems);
  EXPECT_GT(stolen.load(), 0);
}

}  // namespace
