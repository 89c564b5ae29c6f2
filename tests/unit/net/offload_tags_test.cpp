// SPDX-License-Identifier: Apache-2.0
// The tags' pools by themselves (net/offload/tags.hpp A1-A4).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "net/offload/tags.hpp"

namespace ayatori::net::offload {
namespace {

std::vector<Request*> take_all(TagPools& pools) {
  std::vector<Request*> all;
  while (Request* request = pools.take()) all.push_back(request);
  return all;
}

void give_all(TagPools& pools, const std::vector<Request*>& all) {
  for (Request* request : all) pools.give_back(*request);
}

TEST(TagPools, EveryTagOnceThenNoneThenAllAgain) {
  for (const std::uint32_t tags : {1u, 3u, 31u, 32u, 64u, 1000u}) {
    const auto pools = TagPools::create(tags, 100);
    for (int round = 0; round < 3; ++round) {
      const std::vector<Request*> all = take_all(*pools);
      EXPECT_EQ(all.size(), tags);
      EXPECT_EQ(std::set<Request*>(all.begin(), all.end()).size(), tags);
      if (round % 2 == 0)
        give_all(*pools, all);
      else
        std::thread([&] { give_all(*pools, all); }).join();  // completed by another thread
    }
    EXPECT_TRUE(pools->collect_all());
  }
}

// A3: what a pool keeps for its thread is bounded; the rest is there for others.
TEST(TagPools, AThreadThatOnceHadThemAllKeepsItsShareOnly) {
  constexpr std::uint32_t kTags = 320;
  constexpr std::size_t kShare = kTags / (2 * TagPools::kPools);
  const auto pools = TagPools::create(kTags, 100);
  give_all(*pools, take_all(*pools));
  std::thread([&] { EXPECT_EQ(take_all(*pools).size(), kTags - kShare); }).join();
}

// A4: the pool of a thread that ended, with tags still under way, serves the next thread.
TEST(TagPools, PoolsOfEndedThreadsAreUsedAgain) {
  constexpr std::uint32_t kTags = 320;
  const auto pools = TagPools::create(kTags, 100);
  std::vector<Request*> late;
  for (int thread = 0; thread < 200; ++thread) {
    std::thread([&] {
      const std::vector<Request*> mine = take_all(*pools);
      // Each thread in turn gets the first pool: nothing lies in pools that nobody holds.
      ASSERT_EQ(mine.size() + late.size(), kTags) << "thread " << thread;
      late.insert(late.end(), mine.begin(), mine.end());
    }).join();
    give_all(*pools, late);  // after it ended
    late.clear();
  }
  EXPECT_TRUE(pools->collect_all());
}

TEST(TagPools, PoolsMayEndBeforeTheThreadsThatUsedThem) {
  for (int round = 0; round < 100; ++round) {  // one thread, many transports: its seats do not pile up
    const auto pools = TagPools::create(64, 100);
    give_all(*pools, take_all(*pools));
    EXPECT_TRUE(pools->collect_all());
  }
}

// More threads than pools, fewer tags than they want: each tag has one holder at a time, whoever gives it back, and none is
// lost. Threads end and new ones come meanwhile.
TEST(TagPools, NoTagHasTwoHoldersAndNoneIsLost) {
  constexpr std::uint32_t kTags = 96;
  constexpr int kThreads = static_cast<int>(TagPools::kPools) + 4;
  constexpr int kRounds = 400;
  const auto pools = TagPools::create(kTags, 100);
  std::mutex mutex;
  std::vector<Request*> passed_on;  // to be given back by whoever comes
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto work = [&, t] {
        for (int round = 0; round < kRounds; ++round) {
          std::vector<Request*> mine;
          for (int i = 0; i <= (t + round) % 11; ++i) {
            Request* request = pools->take();
            if (request == nullptr) break;
            ASSERT_EQ(request->parts.exchange(1), 0u) << "two holders";
            mine.push_back(request);
          }
          {
            std::lock_guard lock(mutex);
            mine.swap(passed_on);
          }
          for (Request* request : mine) {
            ASSERT_EQ(request->parts.exchange(0), 1u);
            pools->give_back(*request);
          }
        }
      };
      work();
      std::thread(work).join();
    });
  }
  for (std::thread& thread : threads) thread.join();
  give_all(*pools, passed_on);
  EXPECT_TRUE(pools->collect_all());
}

TEST(TagPools, KeptPayloadsAreCopiesInPlacesOfTheirOwn) {
  constexpr std::size_t kMax = 1001;
  const auto pools = TagPools::create(8, kMax);
  std::vector<std::byte> text(kMax + 1);
  const std::vector<Request*> all = take_all(*pools);
  for (const std::size_t size : {std::size_t{1}, Request::kSmallBytes, Request::kSmallBytes + 1, kMax}) {
    std::vector<const void*> kept;
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::fill(text.begin(), text.end(), static_cast<std::byte>(i + 1));
      kept.push_back(pools->keep(*all[i], text.data(), size));
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(kept[i]) % 8, 0u);
      std::fill(text.begin(), text.end(), static_cast<std::byte>(i + 1));
      EXPECT_EQ(std::memcmp(kept[i], text.data(), size), 0);
    }
  }
  EXPECT_EQ(pools->keep(*all[0], text.data(), kMax + 1), text.data());  // refused below, unread
  EXPECT_EQ(pools->keep(*all[0], nullptr, 0), nullptr);
}

}  // namespace
}  // namespace ayatori::net::offload
