// SPDX-License-Identifier: Apache-2.0
// What the shm transport promises beyond the common contract (net/shm/*.hpp): memory that peers cannot see is refused, deaths
// at random moments, orderly leaves, wake-ups, no names left behind.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "harness.hpp"

namespace ayatori::net::testing {
namespace {

TEST(Shm, PrivateMemoryIsRefused) {
  std::unique_ptr<shm::ShmWorld> world;
  shm::ShmConfig config;
  config.processes = 2;
  ASSERT_TRUE(shm::ShmWorld::create(config, &world).ok());
  auto* shared = static_cast<std::byte*>(world->map_shared(8192));
  shm::ShmTransport net(*world, 0, {.progress_thread = false});
  std::uint64_t on_stack[4];
  EXPECT_EQ(net.register_memory(on_stack, sizeof on_stack, kAllRights), kNoRegion);
  EXPECT_EQ(net.register_memory(shared + 4096, 4097, kAllRights), kNoRegion);
  EXPECT_EQ(net.register_memory(shared + 4096, 4096, kAllRights), 0u);
  for (RegionId id = 1; id < shm::kRegionsMax; ++id) EXPECT_EQ(net.register_memory(shared, 8, kReadable), id);
  EXPECT_EQ(net.register_memory(shared, 8, kReadable), kNoRegion);
  net.unregister_memory(5);
  EXPECT_EQ(net.register_memory(shared, 8, kReadable), 5u);
}

TEST(Shm, ImpossibleNumbersOfProcessesAreAStatus) {
  std::unique_ptr<shm::ShmWorld> world;
  for (const int processes : {0, -1, kMaxProcesses + 1}) {
    shm::ShmConfig config;
    config.processes = processes;
    EXPECT_FALSE(shm::ShmWorld::create(config, &world).ok());
  }
  shm::ShmConfig most;
  most.processes = kMaxProcesses;
  EXPECT_TRUE(shm::ShmWorld::create(most, &world).ok());
}

// Members that end one after the other, the others still busy: nobody hears of a failure.
TEST(Shm, LeavingInOrderIsNoFailure) {
  std::atomic<int> failures{0};
  ShmForks::run(
      {4, true, 1},
      [&](Context& c) {
        c.net.set_peer_failure_handler(
            [](void* count, ProcessId) { static_cast<std::atomic<int>*>(count)->fetch_add(1); }, &failures);
      },
      [&](Context& c) {
        for (int i = 0; i < 20; ++i) ASSERT_TRUE(barrier(c.net).ok());
        if (c.net.self() != 0) return;
        std::uint64_t word = 0;  // its peers go away under it
        for (int i = 0; i < 2000; ++i) {
          const Outcome outcome = read(c.net, c.at(1 + i % 3, 0), &word, 8).outcome;
          EXPECT_TRUE(outcome == Outcome::kOk || outcome == Outcome::kPeerFailed);
        }
        wait_until(c.net, [&] { return read(c.net, c.at(1, 0), &word, 8).outcome == Outcome::kPeerFailed; });
        EXPECT_EQ(barrier(c.net).outcome, Outcome::kPeerFailed);  // nobody will come
        EXPECT_EQ(failures.load(), 0);
      });
}

// kill -9 in the midst of a storm through tiny rings, 12 times: claims half made, rings full, RPCs open. Every survivor sees
// each of its requests end, and the storm among survivors goes on to its end.
TEST(Shm, DeathInAStormBlocksNobody) {
  for (std::uint64_t round = 0; round < 12; ++round) {
    ShmForks::run(
        {4, true, round},
        [](Context& c) {
          c.net.set_handler(
              kUserHandlers,
              [](void* net, const Message& message) {
                static_cast<Transport*>(net)->reply(message.token, message.payload, message.size_bytes);
              },
              &c.net);
        },
        [&](Context& c) {
          const ProcessId victim = 3;
          on_threads(c, [&](int thread) {
            std::byte out[700] = {}, in[700];
            int to_victim_failed = 0;
            for (int i = 0; i < 400 || to_victim_failed == 0; ++i) {
              const ProcessId to = (c.net.self() + 1 + i) % 4;
              if (c.net.self() == victim && thread == 0 && i == static_cast<int>(3 + round * 7)) c.die();
              const Completion done =
                  rpc(c.net, to, kUserHandlers, out, static_cast<std::size_t>(i * 13 % 700), in, sizeof in);
              if (to != victim) {
                ASSERT_TRUE(done.ok()) << outcome_name(done.outcome);
              } else if (!done.ok()) {
                ASSERT_EQ(done.outcome, Outcome::kPeerFailed);
                ++to_victim_failed;
              }
            }
          });
          part(c, 0, victim);
        });
  }
}

// A thread asleep in wait() is woken by a message of a peer, by wake() of a sibling, and by a completion that the progress
// thread runs. Each step waits for the one before, so a lost wake-up would take the 20 s of its limit.
TEST(Shm, SleepersAreWoken) {
  std::unique_ptr<shm::ShmWorld> world;
  shm::ShmConfig config;
  config.processes = 2;
  ASSERT_TRUE(shm::ShmWorld::create(config, &world).ok());
  shm::ShmTransport a(*world, 0), b(*world, 1);
  std::atomic<int> turns{0};
  const HandlerFunction count = [](void* counter, const Message&) {
    static_cast<std::atomic<int>*>(counter)->fetch_add(1);
  };
  a.set_handler(kUserHandlers, count, &turns);
  b.set_handler(kUserHandlers, count, &turns);
  a.start();
  b.start();
  constexpr int kTurns = 2000;
  constexpr std::int64_t kLimitNs = 20'000'000'000;
  const auto play = [&](Transport& net, int parity, ProcessId to) {
    for (int i = parity; i < kTurns; i += 2) {
      EXPECT_TRUE(wait_until(net, [&] { return turns.load() == i; }, kLimitNs)) << "turn " << i;
      EXPECT_TRUE(message(net, to, kUserHandlers, nullptr, 0).ok());
    }
  };
  std::thread other([&] { play(b, 1, 0); });
  play(a, 0, 1);
  other.join();
  EXPECT_TRUE(wait_until(a, [&] { return turns.load() == kTurns; }, kLimitNs));
  std::atomic<bool> flag{false};
  std::thread waker([&] {
    flag.store(true);
    a.wake();
  });
  EXPECT_TRUE(wait_until(a, [&] { return flag.load(); }, kLimitNs));
  waker.join();
}

}  // namespace
}  // namespace ayatori::net::testing
