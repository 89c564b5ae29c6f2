// SPDX-License-Identifier: Apache-2.0
// Memory of peers that UCX reaches by itself (net/ucx/transport.hpp U4, U6), in memory that UCX has allocated: without the target,
// within the region and its rights, and not behind the back of who unregisters it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "ucx_harness.hpp"

namespace ayatori::net::testing {
namespace {

ucx::UcxTransport& ucx_of(Context& c) { return dynamic_cast<ucx::UcxTransport&>(c.net); }

// The first request asks for the key and is served; the key comes later.
void until_reached(Context& c, const RemoteAddress& word) {
  std::uint64_t value = 0;
  const std::uint64_t before = ucx_of(c).requests_by_ucx();
  until_taken(c.net, [&] { return !read(c.net, word, &value, 8).ok() || ucx_of(c).requests_by_ucx() != before; });
  ASSERT_NE(ucx_of(c).requests_by_ucx(), before);
}

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// What no message tells of.
void poll_until(Context& c, const std::atomic<int>& turn, int value) {
  for (; turn.load() != value; std::this_thread::yield()) c.net.progress();
}

TEST(UcxReach, WhatIsReachedIsWhatATrialHasShown) {
  if (const char* why = UcxReach::missing()) GTEST_SKIP() << why;
  UcxReach::Threads::run(
      {1, false, 2}, [](Context&) {},
      [](Context& c) {
        const ucx::Reaches& reaches = ucx_of(c).reaches();
        EXPECT_TRUE(reaches.allocated.moves);
        EXPECT_NE(reaches.allocated.atomics & ucx::mask_of(AtomicOp::kFetchAdd), 0);
        EXPECT_NE(reaches.allocated.atomics & ucx::mask_of(AtomicOp::kCompareSwap), 0);
        EXPECT_FALSE(reaches.registered.moves);  // UCX's software does it, when the target polls
        EXPECT_EQ(reaches.registered.atomics, 0);
        EXPECT_EQ(ucx_of(c).allocate(0), nullptr);
      });
  UcxTcp::Threads::run(
      {1, false, 2}, [](Context&) {},
      [](Context& c) {
        EXPECT_FALSE(ucx_of(c).reaches().allocated.moves || ucx_of(c).reaches().registered.moves);
        EXPECT_EQ(ucx_of(c).allocate(4096), nullptr);
      });
}

// Nobody makes progress at the target: it has no progress thread and does not call its transport.
TEST(UcxReach, RequestsAreOverThoughTheTargetStandsStill) {
  if (const char* why = UcxReach::missing()) GTEST_SKIP() << why;
  std::atomic<bool> stands{false}, over{false};
  UcxReach::Threads::run(
      {2, false, 3}, [](Context&) {},
      [&](Context& c) {
        if (c.net.self() == 1) {  // served_harness.hpp: without a progress thread
          barrier(c.net);
          stands.store(true);
          while (!over.load()) nap();
          barrier(c.net);
          return;
        }
        until_reached(c, c.at(1, 0));
        barrier(c.net);
        while (!stands.load()) nap();
        const std::uint64_t before = ucx_of(c).requests_by_ucx();
        for (const std::size_t bytes : {1, 8, 104, 1024, 4099, 50'000}) {
          std::vector<std::byte> out(bytes), in(bytes);
          for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 7 + bytes);
          EXPECT_TRUE(write(c.net, c.at(1, 16), out.data(), bytes).ok());
          EXPECT_TRUE(read(c.net, c.at(1, 16), in.data(), bytes).ok());
          EXPECT_EQ(in, out);
        }
        EXPECT_TRUE(atomic(c.net, c.at(1, 0), AtomicOp::kFetchAdd, 5).ok());
        EXPECT_EQ(atomic(c.net, c.at(1, 0), AtomicOp::kFetchAdd, 1).value, 5u);
        EXPECT_TRUE(flush(c.net, 1).ok());
        fence(c.net, 1);
        EXPECT_EQ(ucx_of(c).requests_by_ucx() - before, 14u);
        over.store(true);
        barrier(c.net);
      });
}

TEST(UcxReach, BoundsAndRightsHoldWithoutTheTarget) {
  if (const char* why = UcxReach::missing()) GTEST_SKIP() << why;
  UcxReach::Threads::run(
      {2, false, 4},
      [](Context& c) {
        EXPECT_EQ(c.net.register_memory(c.memory + 64, 64, kReadable), 1u);
        EXPECT_EQ(c.net.register_memory(c.memory + 200, 100, kWritable), 2u);
        EXPECT_EQ(c.net.register_memory(c.memory + 404, 100, kAllRights), 3u);
        EXPECT_EQ(c.net.register_memory(c.memory + 512, 64, kAllRights | kRemapped), 4u);
        static std::uint64_t own[2];
        EXPECT_EQ(c.net.register_memory(own, sizeof own, kAllRights), 5u);
      },
      [](Context& c) {
        const ProcessId peer = 1 - c.net.self();
        std::uint64_t buffer[32] = {};
        until_reached(c, {peer, 1, 0});
        until_reached(c, {peer, 3, 0});
        for (int i = 0; i < 2; ++i) {  // for the last two UCX has no key: they are served
          const std::uint64_t before = ucx_of(c).requests_by_ucx();
          for (const RegionId region : {RegionId{4}, RegionId{5}})
            for (int j = 0; j < 20; ++j) EXPECT_TRUE(read(c.net, {peer, region, 0}, buffer, 8).ok());
          EXPECT_EQ(ucx_of(c).requests_by_ucx(), before);
        }
        const std::uint64_t before = ucx_of(c).requests_by_ucx();
        EXPECT_EQ(read(c.net, {peer, 1, 60}, buffer, 8).outcome, Outcome::kBadAddress);
        EXPECT_EQ(read(c.net, {peer, 1, ~std::uint64_t{0} - 3}, buffer, 8).outcome, Outcome::kBadAddress);
        EXPECT_EQ(read(c.net, {peer, 1, 0}, buffer, ~std::size_t{0}).outcome, Outcome::kBadAddress);
        EXPECT_EQ(write(c.net, {peer, 1, 0}, buffer, 8).outcome, Outcome::kNoRights);
        EXPECT_EQ(write(c.net, {peer, 1, 64}, buffer, 8).outcome, Outcome::kBadAddress);  // before the rights
        EXPECT_EQ(atomic(c.net, {peer, 1, 0}, AtomicOp::kSwap, 1).outcome, Outcome::kNoRights);
        EXPECT_EQ(atomic(c.net, {peer, 3, 0}, AtomicOp::kFetchAdd, 1).outcome, Outcome::kBadAddress);  // at 404
        EXPECT_EQ(ucx_of(c).requests_by_ucx(), before);
        EXPECT_TRUE(atomic(c.net, {peer, 3, 4}, AtomicOp::kFetchAdd, 1).ok());
        EXPECT_EQ(ucx_of(c).requests_by_ucx(), before + 1);
        EXPECT_EQ(read(c.net, {peer, 2, 0}, buffer, 8).outcome, Outcome::kNoRights);
        EXPECT_TRUE(write(c.net, {peer, 2, 92}, buffer, 8).ok());
        barrier(c.net);
      });
}

// Process 0 unregisters and registers elsewhere under the same number, and tells process 1, which tells process 2: nobody goes
// on with the old key.
TEST(UcxReach, AnOldKeyIsForgottenBeforeItsNumberIsUsedAgain) {
  if (const char* why = UcxReach::missing()) GTEST_SKIP() << why;
  constexpr int kRounds = 200;
  std::atomic<int> turn{0};  // 3 a round: 0 registers, 1 and 2 write
  UcxReach::Threads::run(
      {3, false, 5},
      [](Context& c) {
        if (c.net.self() == 0) {
          EXPECT_EQ(c.net.register_memory(c.memory, 64, kAllRights), 1u);
        }
      },
      [&](Context& c) {
        const int self = c.net.self();
        if (self != 0) until_reached(c, {0, 1, 0});
        barrier(c.net);
        for (int round = 1; round <= kRounds; ++round) {
          if (self == 0) {
            c.net.unregister_memory(1);
            std::byte* const now = c.memory + 64 * (round % 2);
            std::memset(c.memory, 0, 128);
            ASSERT_EQ(c.net.register_memory(now, 64, kAllRights), 1u);
            turn.store(3 * round - 2);
            poll_until(c, turn, 3 * round);
            std::uint64_t here[2];
            std::memcpy(here, now, sizeof here);
            EXPECT_EQ(here[0], static_cast<std::uint64_t>(round));
            EXPECT_EQ(here[1], static_cast<std::uint64_t>(round));
          } else {
            const int mine = 3 * round - 3 + self;
            if (self == 1) nap();  // no thread of its makes progress
            poll_until(c, turn, mine);
            const auto value = static_cast<std::uint64_t>(round);
            EXPECT_TRUE(
                write(c.net, {0, 1, 8u * static_cast<std::uint64_t>(self - 1)}, const_cast<std::uint64_t*>(&value), 8)
                    .ok());
            until_reached(c, {0, 1, 0});
            turn.store(mine + 1);
          }
        }
        barrier(c.net);
        if (self == 0) c.net.unregister_memory(1);
        barrier(c.net);
        std::uint64_t word = 0;
        if (self != 0) {
          EXPECT_EQ(read(c.net, {0, 1, 0}, &word, 8).outcome, Outcome::kBadAddress);
        }
        barrier(c.net);
      });
}

// Puts, a fence, a message: its handler sees them. And served writes, a fence, puts.
TEST(UcxReach, FencesOrderWhatUcxDoesAndWhatIsServed) {
  if (const char* why = UcxReach::missing()) GTEST_SKIP() << why;
  struct Side {
    std::byte* memory = nullptr;
    std::atomic<int> heard{0};
    int wrong = 0;
  } sides[2];
  constexpr int kRounds = 300;
  UcxReach::Threads::run(
      {2, false, 6},
      [&](Context& c) {
        sides[c.net.self()].memory = c.memory;
        c.net.set_handler(
            kUserHandlers,
            [](void* side, const Message& message) {
              auto& s = *static_cast<Side*>(side);
              std::uint64_t round = 0, reached = 0, served = 0;
              std::memcpy(&round, message.payload, 8);
              std::memcpy(&reached, s.memory + 8, 8);
              std::memcpy(&served, s.memory + 4096, 8);
              s.wrong += reached != round || served != round;
              s.heard.fetch_add(1);
            },
            &sides[c.net.self()]);
      },
      [&](Context& c) {
        const ProcessId peer = 1 - c.net.self();
        until_reached(c, c.at(peer, 0));
        std::vector<std::uint64_t> many(2048);
        for (int round = 1; round <= kRounds; ++round) {
          std::uint64_t value = static_cast<std::uint64_t>(round);
          std::fill(many.begin(), many.end(), value);
          const Piece pieces[] = {{4096, many.data(), 8}, {8192, many.data() + 1, 8 * 2000}};  // a list is served
          Event served, reached;
          until_taken(c.net, [&] { return c.net.try_write_list_async({peer, 0, pieces, 2, served.callback()}); });
          until_taken(c.net,
                      [&] { return c.net.try_write_async({peer, c.at(peer, 8), &value, 8, reached.callback()}); });
          fence(c.net, peer);
          EXPECT_TRUE(message(c.net, peer, kUserHandlers, &value, 8).ok());
          EXPECT_TRUE(served.wait(c.net).ok());
          EXPECT_TRUE(reached.wait(c.net).ok());
          const Piece others[] = {{32'768, many.data(), 8 * 2000}, {32, many.data(), 8}};
          Event before, behind;
          std::uint64_t later = value + 1'000'000, now = 0;
          until_taken(c.net, [&] { return c.net.try_write_list_async({peer, 0, others, 2, before.callback()}); });
          fence(c.net, peer);
          until_taken(c.net,
                      [&] { return c.net.try_write_async({peer, c.at(peer, 32), &later, 8, behind.callback()}); });
          EXPECT_TRUE(before.wait(c.net).ok());
          EXPECT_TRUE(behind.wait(c.net).ok());
          EXPECT_TRUE(read(c.net, c.at(peer, 32), &now, 8).ok());
          EXPECT_EQ(now, later);
          wait_until(c.net, [&] { return sides[peer].heard.load() == round; });
        }
        barrier(c.net);
        EXPECT_EQ(sides[c.net.self()].wrong, 0);
        EXPECT_GE(ucx_of(c).requests_by_ucx(), static_cast<std::uint64_t>(kRounds));
      });
}

// A peer that says nonsense about regions is failed; asking for what is not there is no nonsense.
TEST(UcxReach, NonsenseAboutRegionsFailsItsSender) {
  if (const char* why = UcxReach::missing()) GTEST_SKIP() << why;
  for (const int kind : {0, 1, 2, 3, 4}) {
    UcxReach::Threads::run(
        {2, false, 7}, [](Context&) {},
        [kind](Context& c) {
          barrier(c.net);
          if (c.net.self() == 0) {
            EXPECT_TRUE(wait_until(c.net, [&] { return c.net.peer_failed(1); }, 20'000'000'000));
            return;
          }
          const std::uint32_t far[4] = {served::kRegionsMax, 0, 0, 0};
          std::byte answer[1024];
          const HandlerId ask = kNetHandlers + 6, forget = kNetHandlers + 7, forgotten = kNetHandlers + 8;
          if (kind == 0) message(c.net, 0, ask, far + 1, 8);  // nobody wants the answer
          if (kind == 1) message(c.net, 0, forget, far, 8);
          if (kind == 2) message(c.net, 0, forgotten, far + 1, 7);
          if (kind == 3) rpc(c.net, 0, ask, far + 1, 12, answer, sizeof answer);
          if (kind == 4) rpc(c.net, 0, ask, nullptr, 0, answer, sizeof answer);
          wait_until(c.net, [&] { return c.net.peer_failed(0); }, 20'000'000'000);
        });
  }
}

// Requests under way by many threads when their target is cut off: each is over once, and the others go on.
TEST(UcxReach, ADeathInAStormEndsEveryRequestOnce) {
  if (const char* why = UcxReach::missing()) GTEST_SKIP() << why;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    UcxReach::Forks::run(
        {3, seed % 2 == 1, 20 + seed}, [](Context&) {},
        [seed](Context& c) {
          if (c.net.self() == 2) {
            const std::uint64_t own = 1;
            write(c.net, c.at(0, 0), const_cast<std::uint64_t*>(&own), 8);
            std::this_thread::sleep_for(std::chrono::milliseconds(20 + 7 * seed));
            c.die();
          }
          on_threads(c, [&](int t) {
            std::vector<std::uint64_t> words(64, 7);
            bool gone = false;
            for (int i = 0; !gone; ++i) {
              const Outcome outcome =
                  i % 3 == 0 ? write(c.net, c.at(2, 512u * (1u + static_cast<unsigned>(t))), words.data(), 512).outcome
                  : i % 3 == 1 ? read(c.net, c.at(2, 0), words.data(), 512).outcome
                               : atomic(c.net, c.at(2, 8), AtomicOp::kFetchAdd, 1).outcome;
              ASSERT_TRUE(outcome == Outcome::kOk || outcome == Outcome::kPeerFailed);
              gone = outcome == Outcome::kPeerFailed;
            }
          });
          EXPECT_GT(ucx_of(c).requests_by_ucx(), 0u);
          std::uint64_t word = 0;
          EXPECT_TRUE(read(c.net, c.at(1 - c.net.self(), 0), &word, 8).ok());
          part(c, 4096, 2);
        });
  }
}

}  // namespace
}  // namespace ayatori::net::testing
