// SPDX-License-Identifier: Apache-2.0
// What processes that share memory do by it below a wire (net/served/transport.hpp D9), beyond the conformance suite.
// Of four processes 0 and 1 are one machine, 2 and 3 the other; those of the second register private memory.
#include <sys/uio.h>

#include <array>
#include <cstring>

#include "mixed_harness.hpp"

namespace ayatori::net::testing {
namespace {

ProcessId neighbour_of(ProcessId process) { return process ^ 1; }
Counters by_memory(Transport& net) { return static_cast<tcp::TcpTransport&>(net).neighbour_counters(); }

using Mixed = MixedForks<TcpWire>;

TEST(Mixed, ProcessesKnowTheirMachine) {
  MixedThreads<TcpWire>::run(
      {.processes = 4}, [](Context&) {},
      [](Context& c) {
        for (ProcessId p = 0; p < 4; ++p) EXPECT_EQ(c.net.on_this_machine(p), p / 2 == c.net.self() / 2);
        barrier(c.net);
      });
}

TEST(Mixed, SharedRegionsAreReachedInTheCall) {
  MixedThreads<TcpWire>::run(
      {.processes = 4}, [](Context&) {},
      [](Context& c) {
        const ProcessId peer = neighbour_of(c.net.self());
        const bool shared = c.net.self() < 2;
        EXPECT_EQ(c.net.direct_pointer(c.at(peer, 64), 8) != nullptr, shared);
        EXPECT_EQ(c.net.direct_pointer(c.at((c.net.self() + 2) % 4, 64), 8), nullptr);
        const std::uint64_t before = by_memory(c.net).bytes_sent;
        std::uint64_t mine = 7;
        std::atomic<bool> done{false};
        const Callback callback{[](void* flag, Completion) { static_cast<std::atomic<bool>*>(flag)->store(true); },
                                &done};
        ASSERT_TRUE(c.net.try_write_async({peer, c.at(peer, 64), &mine, 8, callback}));
        EXPECT_TRUE(!shared || done.load());
        wait_until(c.net, [&] { return done.load(); });
        EXPECT_EQ(by_memory(c.net).bytes_sent - before, shared ? 8u : 0u);
        barrier(c.net);
        std::uint64_t got = 0;
        std::memcpy(&got, c.memory + 64, 8);
        EXPECT_EQ(got, 7u);
      });
}

TEST(Mixed, ShortMessagesToNeighboursGoByMemoryAndNothingElseDoes) {
  MixedThreads<TcpWire>::run(
      {.processes = 4},
      [](Context& c) {
        c.net.set_handler(
            kUserHandlers,
            [](void* net, const Message& m) { static_cast<Transport*>(net)->reply(m.token, m.payload, m.size_bytes); },
            &c.net);
      },
      [](Context& c) {
        barrier(c.net);
        for (const ProcessId peer : {neighbour_of(c.net.self()), (c.net.self() + 2) % 4}) {
          const Counters before = by_memory(c.net);
          for (int i = 0; i < 100; ++i) {
            std::uint64_t answer = 0;
            const std::uint64_t asked = static_cast<std::uint64_t>(i);
            ASSERT_TRUE(rpc(c.net, peer, kUserHandlers, &asked, 8, &answer, 8).ok());
            ASSERT_EQ(answer, asked);
          }
          const Counters after = by_memory(c.net);
          if (c.net.on_this_machine(peer)) {
            EXPECT_GE(after.messages_sent - before.messages_sent, 100u);  // and answers to the other's
            EXPECT_GE(after.bytes_received - before.bytes_received, 800u);
          }
          barrier(c.net);
        }
        // As long as a message may be: its answer does not fit where shorter ones lie.
        std::vector<std::byte> asked(c.net.limits().payload_bytes_max, std::byte{5});
        std::vector<std::byte> answer(asked.size());
        ASSERT_TRUE(rpc(c.net, neighbour_of(c.net.self()), kUserHandlers, asked.data(), asked.size(), answer.data(),
                        answer.size())
                        .ok());
        EXPECT_EQ(asked, answer);
        barrier(c.net);
      });
}

// Writes to private memory of a neighbour go by the wire, messages by memory: a fence holds the messages back.
TEST(Mixed, AMessageBehindAFenceFindsWhatTheWireMoved) {
  static constexpr int kRounds = 50;
  static constexpr std::size_t kBytes = 2 << 20;  // more than is read in one turn
  struct Seen {
    std::vector<std::uint64_t> memory = std::vector<std::uint64_t>(kBytes / 8);
    std::atomic<int> count{0};
    std::atomic<int> wrong{0};
  };
  std::array<Seen, 4> seen;
  MixedThreads<TcpWire>::run(
      {.processes = 4},
      [&](Context& c) {
        Seen& mine = seen[static_cast<std::size_t>(c.net.self())];
        EXPECT_EQ(c.net.register_memory(mine.memory.data(), kBytes), 1u);
        c.net.set_handler(
            kUserHandlers,
            [](void* data, const Message& m) {
              auto& s = *static_cast<Seen*>(data);
              std::uint64_t expected = 0;
              std::memcpy(&expected, m.payload, 8);
              if (s.memory.back() < expected) s.wrong.fetch_add(1);
              s.count.fetch_add(1);
            },
            &mine);
      },
      [&](Context& c) {
        const ProcessId peer = neighbour_of(c.net.self());
        std::vector<std::uint64_t> data(kBytes / 8);
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
          std::fill(data.begin(), data.end(), round);
          std::atomic<bool> done{false};
          const Callback callback{[](void* flag, Completion) { static_cast<std::atomic<bool>*>(flag)->store(true); },
                                  &done};
          until_taken(c.net,
                      [&] { return c.net.try_write_async({peer, {peer, 1, 0}, data.data(), kBytes, callback}); });
          until_taken(c.net, [&] { return c.net.try_fence(peer); });
          EXPECT_TRUE(message(c.net, peer, kUserHandlers, &round, 8).ok());
          wait_until(c.net, [&] { return done.load(); });
        }
        const Seen& mine = seen[static_cast<std::size_t>(c.net.self())];
        wait_until(c.net, [&] { return mine.count.load() == kRounds; });
        EXPECT_EQ(mine.wrong.load(), 0);
        barrier(c.net);
      });
}

TEST(Mixed, NeighboursThatSleepWakeEachOther) {
  std::atomic<int> turns[2];
  for (auto& t : turns) t.store(0);
  MixedThreads<TcpWire>::run(
      {.processes = 3},  // 0 and 1 are one machine
      [&](Context& c) {
        if (c.net.self() < 2) c.net.set_handler(kUserHandlers, count_turn, &turns[0]);
      },
      [&](Context& c) {
        if (c.net.self() < 2) take_turns_asleep(c.net, turns[0]);
        barrier(c.net);
      });
}

// Longer reads of memory that is not shared are copied by the kernel, in the call, where it lets us; else they go by the wire.
TEST(Mixed, LongReadsOfANeighboursOwnMemoryAreCopied) {
  MixedThreads<TcpWire>::run(
      {.processes = 4}, [](Context&) {},
      [](Context& c) {
        std::memset(c.memory, 10 + c.net.self(), kMemoryBytes);
        barrier(c.net);
        const ProcessId peer = neighbour_of(c.net.self());
        std::vector<std::byte> got(20'000);
        const std::uint64_t before = by_memory(c.net).bytes_received;
        ASSERT_TRUE(read(c.net, c.at(peer, 1000), got.data(), got.size()).ok());
        for (const std::byte b : got) ASSERT_EQ(b, std::byte(10 + peer));
        char byte = 1;
        const iovec here{&byte, 1}, there{c.memory, 1};
        const bool lets_us = process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
        EXPECT_EQ(by_memory(c.net).bytes_received - before, lets_us || c.net.self() < 2 ? got.size() : 0);
        // Out of its bounds it is what it is elsewhere.
        EXPECT_EQ(read(c.net, c.at(peer, kMemoryBytes - 1000), got.data(), got.size()).outcome, Outcome::kBadAddress);
        EXPECT_EQ(read(c.net, {peer, 9, 0}, got.data(), got.size()).outcome, Outcome::kBadAddress);
        barrier(c.net);
      });
}

TEST(Mixed, MembersLeaveInOrder) { leave_in_order<MixedThreads<TcpWire>>(); }

#ifndef __SANITIZE_THREAD__
TEST(Mixed, ForkedMembersLeaveInOrder) { leave_in_order<Mixed>(); }

// Process 1 dies with all the RPCs that process 0 may have under way: its neighbour can ask others all the same.
TEST(Mixed, RpcsToADeadNeighbourLeaveRoomForOthers) {
  MixedJob job({.processes = 5});
  check_ends(Mixed::start(
      job,
      [&](Context& c) {
        c.net.set_handler(
            kUserHandlers,
            [](void* data, const Message& m) {
              auto& net = *static_cast<Transport*>(data);
              if (net.self() != 1) net.reply(m.token, nullptr, 0);
            },
            &c.net);
        c.net.set_handler(kUserHandlers + 1, [](void*, const Message&) { raise(SIGKILL); }, nullptr);
      },
      [&](Context& c) {
        const auto under_way = static_cast<int>(job.world_of(0).config().rpcs_max);
        if (c.net.self() == 0) {
          std::atomic<int> failed{0};
          const Callback callback{[](void* count, Completion completion) {
                                    if (completion.outcome == Outcome::kPeerFailed)
                                      static_cast<std::atomic<int>*>(count)->fetch_add(1);
                                  },
                                  &failed};
          for (int i = 0; i < under_way; ++i)
            until_taken(c.net,
                        [&] { return c.net.try_rpc_async({1, kUserHandlers, nullptr, 0, nullptr, 0, callback}); });
          EXPECT_TRUE(message(c.net, 1, kUserHandlers + 1, nullptr, 0).ok());
          EXPECT_TRUE(wait_until(c.net, [&] { return failed.load() == under_way; }, 20'000'000'000));
          for (int i = 0; i < 2 * under_way; ++i)
            EXPECT_TRUE(rpc(c.net, 2, kUserHandlers, nullptr, 0, nullptr, 0).ok());
        }
        if (c.net.self() == 1) wait_until(c.net, [] { return false; });  // until the message ends it
        part(c, 0, 4);
      }));
}

// Process 1 dies between claiming room in process 0's ring and filling it: what process 2, on the same machine, sends behind
// that comes through all the same.
TEST(Mixed, ANeighbourThatDiesInTheMidstOfAMessageBlocksNobody) {
  MixedJob job({.processes = 5});
  auto* const count = static_cast<std::atomic<int>*>(job.world_of(0).map_shared(64));
  ASSERT_NE(count, nullptr);
  check_ends(Mixed::start(
      job, [&](Context& c) { c.net.set_handler(kUserHandlers, count_turn, count); },
      [&](Context& c) {
        if (c.net.self() == 1) {
          bool wake = false;
          ASSERT_NE(job.world_of(0).ring(0).claim(1, 100, &wake).data, nullptr);
          c.die();
        }
        wait_until(c.net, [&] { return c.net.peer_failed(1); });
        if (c.net.self() == 2) {
          EXPECT_TRUE(message(c.net, 0, kUserHandlers, nullptr, 0).ok());
        }
        if (c.net.self() == 0) {
          EXPECT_EQ(rpc(c.net, 1, kUserHandlers, nullptr, 0, nullptr, 0).outcome, Outcome::kPeerFailed);
          std::uint64_t word = 0;
          EXPECT_EQ(read(c.net, c.at(1, 0), &word, 8).outcome, Outcome::kPeerFailed);
          EXPECT_TRUE(wait_until(c.net, [&] { return count->load() == 1; }, 20'000'000'000));
        }
        part(c, 0, 4);
      }));
}
#endif

}  // namespace
}  // namespace ayatori::net::testing
