// SPDX-License-Identifier: Apache-2.0
// What the shm transport promises beyond the common contract (net/shm/*.hpp): memory that peers cannot see is refused, deaths
// at random moments, orderly leaves, wake-ups, no names left behind.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
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

// The short way of words (words.cpp) refuses and counts what the long one does: bounds, rights, unregistered regions, bases and
// offsets that are not aligned, processes that are not there, those that are gone.
TEST(Shm, WordsAreCheckedAsAnyBytesAre) {
  std::unique_ptr<shm::ShmWorld> world;
  shm::ShmConfig config;
  config.processes = 2;
  ASSERT_TRUE(shm::ShmWorld::create(config, &world).ok());
  auto* memory = static_cast<std::byte*>(world->map_shared(4096));
  shm::ShmTransport a(*world, 0, {.progress_thread = false});
  auto b = std::make_unique<shm::ShmTransport>(*world, 1, shm::ShmOptions{.progress_thread = false});
  ASSERT_EQ(b->register_memory(memory, 60, kAllRights), 0u);
  ASSERT_EQ(b->register_memory(memory + 64, 64, kReadable), 1u);
  ASSERT_EQ(b->register_memory(memory + 128, 64, kWritable), 2u);
  ASSERT_EQ(b->register_memory(memory + 196, 64, kAllRights), 3u);  // not aligned
  ASSERT_EQ(b->register_memory(memory + 512, 64, kAllRights), 4u);
  b->unregister_memory(4);
  std::byte local[24] = {};
  const auto reads = [&](ProcessId from, RegionId region, std::uint64_t offset, std::byte* to) {
    return read(a, {from, region, offset}, to, 8).outcome;
  };
  const auto writes = [&](ProcessId to, RegionId region, std::uint64_t offset, std::byte* from) {
    return write(a, {to, region, offset}, from, 8).outcome;
  };
  const std::uint64_t word = 0x0102030405060708;
  for (int round = 0; round < 2; ++round) {  // a thread's first request takes the long way
    std::memcpy(memory + 8, &word, 8);
    EXPECT_EQ(reads(1, 0, 8, local + 3), Outcome::kOk);
    EXPECT_EQ(std::memcmp(local + 3, &word, 8), 0);
    EXPECT_EQ(writes(1, 0, 16, local + 3), Outcome::kOk);
    EXPECT_EQ(std::memcmp(memory + 16, &word, 8), 0);
    EXPECT_EQ(reads(1, 0, 48, local), Outcome::kOk);
    EXPECT_EQ(reads(1, 0, 51, local), Outcome::kOk);
    for (const std::uint64_t offset : {std::uint64_t{56}, std::uint64_t{64}, ~std::uint64_t{7}})
      EXPECT_EQ(reads(1, 0, offset, local), Outcome::kBadAddress);
    EXPECT_EQ(reads(1, 1, 0, local), Outcome::kOk);
    EXPECT_EQ(writes(1, 1, 0, local), Outcome::kNoRights);
    EXPECT_EQ(reads(1, 2, 0, local), Outcome::kNoRights);
    EXPECT_EQ(writes(1, 2, 0, local), Outcome::kOk);
    EXPECT_EQ(reads(1, 3, 0, local), Outcome::kOk);
    EXPECT_EQ(reads(1, 3, 4, local), Outcome::kOk);
    for (const RegionId region : {RegionId{4}, RegionId{5}, RegionId{64}, RegionId{128}, kNoRegion})
      EXPECT_EQ(reads(1, region, 0, local), Outcome::kBadAddress);
    for (const ProcessId process : {-1, 2, 63, 64, 1 << 20})
      EXPECT_EQ(writes(process, 0, 0, local), Outcome::kBadAddress);
  }
  const Counters counters = a.counters();
  EXPECT_EQ(counters.messages_sent, 16u);
  EXPECT_EQ(counters.bytes_received, 12u * 8);
  EXPECT_EQ(counters.bytes_sent, 4u * 8);
  EXPECT_EQ(reads(0, 0, 0, local), Outcome::kBadAddress);  // its own, where nothing is registered
  b.reset();
  EXPECT_EQ(reads(1, 0, 8, local), Outcome::kPeerFailed);
  EXPECT_EQ(writes(1, 0, 8, local), Outcome::kPeerFailed);
}

TEST(Shm, LeavingInOrderIsNoFailure) { leave_in_order<ShmForks>(); }

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
// thread runs.
TEST(Shm, SleepersAreWoken) {
  std::unique_ptr<shm::ShmWorld> world;
  shm::ShmConfig config;
  config.processes = 2;
  ASSERT_TRUE(shm::ShmWorld::create(config, &world).ok());
  shm::ShmTransport a(*world, 0), b(*world, 1);
  std::atomic<int> turns{0};
  for (shm::ShmTransport* net : {&a, &b}) {
    net->set_handler(kUserHandlers, count_turn, &turns);
    net->start();
  }
  std::thread other([&] { take_turns_asleep(b, turns); });
  take_turns_asleep(a, turns);
  other.join();
}

}  // namespace
}  // namespace ayatori::net::testing
