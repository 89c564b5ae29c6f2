// SPDX-License-Identifier: Apache-2.0
// What the simulated network adds to the contract (net/sim/world.hpp V1-V5): one seed is one run, the adversary really acts,
// virtual time follows LogGP.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "net/net.hpp"
#include "net/sim/script.hpp"
#include "net/sim/transport.hpp"

namespace ayatori::net::sim {
namespace {

struct Machine {
  explicit Machine(const SimParams& params) : world(params), memory(static_cast<std::size_t>(params.processes)) {
    for (ProcessId p = 0; p < params.processes; ++p) {
      auto& words = memory[static_cast<std::size_t>(p)];
      words.resize(512);
      world.transport(p).register_memory(words.data(), words.size() * 8, kAllRights);
    }
  }
  void start() {
    for (ProcessId p = 0; p < world.params().processes; ++p) world.transport(p).start();
  }
  SimWorld world;
  std::vector<std::vector<std::uint64_t>> memory;
};

SimParams seeded(std::uint64_t seed, int processes = 3) {
  SimParams params;
  params.seed = seed;
  params.processes = processes;
  return params;
}

std::uint64_t storm(std::uint64_t seed) {
  Machine m(seeded(seed));
  m.start();
  run_scripts(m.world, [&](SimTransport& net) {
    for (int i = 0; i < 10; ++i) {
      atomic(net, {(net.self() + i) % 3, 0, 0}, AtomicOp::kFetchAdd, 1);
      barrier(net);
    }
  });
  return m.world.trace_hash();
}

TEST(Sim, OneSeedIsOneRun) {
  std::set<std::uint64_t> runs;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::uint64_t first = storm(seed);
    EXPECT_EQ(first, storm(seed)) << "seed " << seed;
    runs.insert(first);
  }
  EXPECT_EQ(runs.size(), 20u);
}

// Two messages of one pair: some seeds swap them, some do not; without jitter none does.
TEST(Sim, RequestsOvertakeEachOther) {
  const auto swapped = [](std::uint64_t seed, std::int64_t jitter_ns) {
    SimParams params = seeded(seed, 2);
    params.jitter_ns = jitter_ns;
    Machine m(params);
    std::vector<std::byte> order;
    m.world.transport(1).set_handler(
        kUserHandlers,
        [](void* context, const Message& message) {
          static_cast<std::vector<std::byte>*>(context)->push_back(message.payload[0]);
        },
        &order);
    m.start();
    for (const char c : {'a', 'b'}) EXPECT_TRUE(m.world.transport(0).try_message_async({1, kUserHandlers, &c, 1, {}}));
    m.world.run_until_idle();
    EXPECT_EQ(order.size(), 2u);
    return order[0] == std::byte{'b'};
  };
  int with = 0, without = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    with += swapped(seed, 3000);
    without += swapped(seed, 0);
  }
  EXPECT_GT(with, 10);
  EXPECT_LT(with, 90);
  EXPECT_EQ(without, 0);
}

// A read against a write of 64 words: readers see mixtures in some runs, but never a word that is half old, half new.
TEST(Sim, TransfersTearBetweenWordsOnly) {
  int torn = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Machine m(seeded(seed, 3));
    m.start();
    std::vector<std::uint64_t> ones(64, ~std::uint64_t{0}), got(64);
    EXPECT_TRUE(m.world.transport(0).try_write_async({2, {2, 0, 0}, ones.data(), 512, {}}));
    EXPECT_TRUE(m.world.transport(1).try_read_async({2, {2, 0, 0}, got.data(), 512, {}}));
    m.world.run_until_idle();
    bool zero = false, one = false;
    for (const std::uint64_t word : got) {
      EXPECT_TRUE(word == 0 || word == ~std::uint64_t{0});
      (word == 0 ? zero : one) = true;
    }
    torn += zero && one;
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(m.memory[2][i], ~std::uint64_t{0});
  }
  EXPECT_GT(torn, 5);
}

// V4, without jitter: a read of one word costs o + L each way; requests leave g + bytes * G apart.
TEST(Sim, TimesFollowLogGP) {
  SimParams params = seeded(1, 2);
  params.jitter_ns = 0;
  params.tear_transfers = false;
  params.overhead_ns = 200;
  params.latency_ns = 1000;
  params.gap_ns = 300;
  params.gap_per_kib_ns = 1024;  // 1 ns a byte
  Machine m(params);
  m.start();
  struct Done {
    SimWorld* world;
    std::vector<std::int64_t> times;
  } done{&m.world, {}};
  const Callback record{[](void* data, Completion) {
                          auto& d = *static_cast<Done*>(data);
                          d.times.push_back(d.world->now_ns());
                        },
                        &done};
  std::uint64_t words[512] = {};
  m.world.transport(0).try_read_async({1, {1, 0, 0}, words, 8, record});
  m.world.run_until_idle();
  EXPECT_EQ(done.times.at(0), 2 * (200 + 1000) + 8);  // the answer carries the bytes
  const std::int64_t start_ns = m.world.now_ns();
  m.world.transport(0).try_write_async({1, {1, 0, 0}, words, 1000, record});
  m.world.transport(0).try_write_async({1, {1, 0, 0}, words, 1000, record});
  m.world.run_until_idle();
  EXPECT_EQ(done.times.at(1) - start_ns, 200 + 1000 + 1000 + 1200);
  EXPECT_EQ(done.times.at(2) - done.times.at(1), 1300);  // g + bytes * G
}

// A filter plants losses: the request never completes, and the run says so by going idle.
TEST(Sim, AFilterLosesAndDelaysWhatItIsToldTo) {
  Machine m(seeded(3, 2));
  m.start();
  int asked = 0;
  m.world.set_filter([&](const Packet& packet) {
    ++asked;
    return Verdict{packet.kind == PacketKind::kWrite, packet.kind == PacketKind::kAtomic ? 1'000'000 : 0};
  });
  int done = 0;
  const Callback count{[](void* data, Completion) { ++*static_cast<int*>(data); }, &done};
  std::uint64_t word = 5;
  m.world.transport(0).try_write_async({1, {1, 0, 0}, &word, 8, count});
  m.world.run_until_idle();
  EXPECT_EQ(done, 0);
  EXPECT_EQ(m.memory[1][0], 0u);
  m.world.transport(0).try_atomic_async({1, {1, 0, 0}, AtomicOp::kFetchAdd, 1, 0, count});
  m.world.run_until_idle();
  EXPECT_EQ(done, 1);
  EXPECT_GT(m.world.now_ns(), 1'000'000);
  EXPECT_EQ(asked, 3);  // write, atomic, its answer
}

// V5 over many seeds and moments: whatever was under way to the dead or needed it ends once, and the rest lives on.
TEST(Sim, AProcessMayDieAtAnyMoment) {
  int ok = 0, failed = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Machine m(seeded(seed, 4));
    m.start();
    m.world.at(static_cast<std::int64_t>(seed * 97 % 20'000), 3, [&] { m.world.kill(3); });
    run_scripts(m.world, [&](SimTransport& net) {
      std::uint64_t word = 1;
      for (int i = 0; i < 4; ++i) {
        const Completion read_done = read(net, {3, 0, 0}, &word, 8);
        const Completion barrier_done = barrier(net);
        for (const Completion& done : {read_done, barrier_done}) {
          EXPECT_TRUE(done.ok() || done.outcome == Outcome::kPeerFailed);
          ++(done.ok() ? ok : failed);
        }
      }
      if (net.self() != 3) {
        EXPECT_TRUE(atomic(net, {0, 0, 8}, AtomicOp::kFetchAdd, 1).ok());
      }
    });
    EXPECT_EQ(m.memory[0][1], 3u);
  }
  EXPECT_GT(ok, 100);
  EXPECT_GT(failed, 100);
}

TEST(SimDeath, WaitingForeverNamesTheSeed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Machine m(seeded(77, 2));
        m.start();
        run_scripts(m.world, [](SimTransport& net) { wait_until(net, [] { return false; }); });
      },
      "seed 77");
}

TEST(SimDeath, CollectivesThatDoNotMeetAreNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Machine m(seeded(1, 2));
        m.start();
        run_scripts(m.world, [](SimTransport& net) {
          std::uint64_t word = 0;
          if (net.self() == 0)
            barrier(net);
          else
            broadcast(net, 0, &word, 8);
        });
      },
      "different operations");
}

TEST(SimDeath, HandlersMayNotWait) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Machine m(seeded(1, 2));
        m.world.transport(1).set_handler(
            kUserHandlers, [](void* net, const Message&) { barrier(*static_cast<Transport*>(net)); },
            &m.world.transport(1));
        m.start();
        m.world.transport(0).try_message_async({1, kUserHandlers, nullptr, 0, {}});
        m.world.run_until_idle();
      },
      "must not wait");
}

}  // namespace
}  // namespace ayatori::net::sim
