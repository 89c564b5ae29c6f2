// SPDX-License-Identifier: Apache-2.0
// The work-stealing deque between real threads: every pushed item is taken exactly once, whoever takes it, and the fence of
// pop() is there (without it owner and thief both take the last item: no soak of whole programs saw that).
#include "ult/deque.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace {

using ayatori::ult::Deque;

struct Item {
  std::atomic<int> taken{0};
};

struct Shared {
  explicit Shared(std::uint64_t capacity) : ring(capacity) { deque.init(ring.data(), capacity); }
  std::vector<std::atomic<Item*>> ring;
  Deque<Item> deque;
};

TEST(Deque, OwnerTakesTheNewestThiefTheOldest) {
  Shared s(8);
  Item a, b, c;
  EXPECT_TRUE(s.deque.looks_empty());
  EXPECT_EQ(s.deque.pop(), nullptr);
  s.deque.push(&a);
  s.deque.push(&b);
  const auto index = s.deque.push(&c);
  EXPECT_EQ(s.deque.steal(), &a);
  EXPECT_EQ(s.deque.pop_newest(index - 1), nullptr);
  EXPECT_EQ(s.deque.pop_newest(index), &c);
  EXPECT_EQ(s.deque.pop_newest(index), nullptr);
  EXPECT_EQ(s.deque.pop(), &b);
  EXPECT_EQ(s.deque.pop(), nullptr);
  EXPECT_EQ(s.deque.steal(), nullptr);
}

// Store buffering on the last item: the owner stores bottom_ and loads top_, a thief stores top_ and has loaded bottom_.
// Goes on until owner and thief met often enough, however the machine shares out its CPUs.
TEST(Deque, TheLastItemGoesToOwnerOrThief) {
  constexpr int kBatch = 1'000, kMaxBatches = 50'000;
  constexpr long kEnough = 100'000;
  Shared s(16);
  std::atomic<bool> over{false};
  std::atomic<long> stolen{0};
  std::thread thief([&] {
    while (!over.load(std::memory_order_relaxed)) {
      if (Item* i = s.deque.steal()) {
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
    for (int r = 0; r < kBatch; ++r) {
      s.deque.push(&items[static_cast<std::size_t>(2 * r)]);
      s.deque.push(&items[static_cast<std::size_t>(2 * r + 1)]);
      while (Item* i = s.deque.pop()) {
        i->taken.fetch_add(1, std::memory_order_relaxed);
        ++popped;
      }
    }
    // The deque is empty: what was not popped here was stolen, and is counted soon.
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

TEST(Deque, EveryItemIsTakenOnceByManyThieves) {
  constexpr int kItems = 400'000, kThieves = 3;
  for (const unsigned seed : {1u, 2u, 3u}) {
    Shared s(64);  // wraps round often
    auto items = std::make_unique<Item[]>(kItems);
    std::atomic<bool> over{false};
    std::atomic<long> stolen{0};
    std::atomic<int> running{0};
    std::vector<std::thread> thieves;
    for (int t = 0; t < kThieves; ++t)
      thieves.emplace_back([&] {
        running.fetch_add(1, std::memory_order_relaxed);
        while (!over.load(std::memory_order_relaxed)) {
          Item* i = s.deque.steal();
          if (!i) continue;
          i->taken.fetch_add(1, std::memory_order_relaxed);
          stolen.fetch_add(1, std::memory_order_relaxed);
        }
      });
    while (running.load(std::memory_order_relaxed) < kThieves) std::this_thread::yield();
    std::mt19937 random(seed);
    int next = 0, inside = 0;
    while (next < kItems) {
      if (next % 1000 == 0) std::this_thread::yield();
      const int burst = static_cast<int>(random() % 5);
      for (int i = 0; i < burst && next < kItems && inside < 40; ++i, ++inside) s.deque.push(&items[next++]);
      const int pops = static_cast<int>(random() % 5);
      for (int i = 0; i < pops; ++i) {
        Item* x = s.deque.pop();
        if (!x) {
          inside = 0;
          break;
        }
        x->taken.fetch_add(1, std::memory_order_relaxed);
        --inside;
      }
      if (inside >= 40) {  // thieves may have taken some: only the owner's own look says
        while (Item* x = s.deque.pop()) x->taken.fetch_add(1, std::memory_order_relaxed);
        inside = 0;
      }
    }
    while (Item* x = s.deque.pop()) x->taken.fetch_add(1, std::memory_order_relaxed);
    over.store(true, std::memory_order_relaxed);
    for (auto& t : thieves) t.join();
    int wrong = 0;
    for (int i = 0; i < kItems; ++i) wrong += items[i].taken.load() != 1;
    EXPECT_EQ(wrong, 0) << "seed " << seed << ", " << stolen.load() << " stolen";
    EXPECT_GT(stolen.load(), 0);
  }
}

}  // namespace
