// SPDX-License-Identifier: Apache-2.0
// What collectives promise on every transport (net/transport.hpp N8, net/collectives.hpp).
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <numeric>
#include <vector>

#include "conformance.hpp"

namespace ayatori::net::testing {
namespace {

class ConformanceCollectives : public Conformance {};
INSTANTIATE_TEST_SUITE_P(, ConformanceCollectives, ::testing::ValuesIn(networks()), name_of);

TEST_P(ConformanceCollectives, NobodyLeavesABarrierBeforeAllEntered) {
  run({4, true, 9}, [](Context& c) {
    for (std::uint64_t round = 1; round <= 60; ++round) {
      atomic(c.net, c.at(0, 0), AtomicOp::kFetchAdd, 1);
      ASSERT_TRUE(barrier(c.net).ok());
      std::uint64_t entered = 0;
      read(c.net, c.at(0, 0), &entered, 8);
      ASSERT_EQ(entered, round * static_cast<std::uint64_t>(c.net.processes()));
      ASSERT_TRUE(barrier(c.net).ok());
    }
  });
}

// Broadcasts from every root and reductions, several under way at once, trees deeper than one level.
TEST_P(ConformanceCollectives, BroadcastsAndReductionsGiveEverybodyTheResult) {
  run({7, true, 11}, [](Context& c) {
    const int n = c.net.processes();
    for (int round = 0; round < 12; ++round) {
      std::vector<std::vector<std::uint64_t>> data(static_cast<std::size_t>(n), std::vector<std::uint64_t>(100));
      std::deque<Event> events(static_cast<std::size_t>(n));
      for (ProcessId root = 0; root < n; ++root) {
        auto& values = data[static_cast<std::size_t>(root)];
        if (root == c.net.self())
          std::iota(values.begin(), values.end(), static_cast<std::uint64_t>(root * 1000 + round));
        until_taken(c.net, [&] {
          return c.net.try_broadcast_async(
              {root, values.data(), 800, events[static_cast<std::size_t>(root)].callback()});
        });
      }
      for (ProcessId root = 0; root < n; ++root) {
        ASSERT_TRUE(events[static_cast<std::size_t>(root)].wait(c.net).ok());
        for (std::size_t i = 0; i < 100; ++i)
          ASSERT_EQ(data[static_cast<std::size_t>(root)][i], static_cast<std::uint64_t>(root * 1000 + round) + i);
      }
      const std::int64_t mine[3] = {c.net.self() + 1, -c.net.self(), round};
      std::int64_t sum[3], low[3], high[3];
      ASSERT_TRUE(reduce(c.net, mine, sum, 3, Element::kI64, ReduceOp::kSum).ok());
      ASSERT_TRUE(reduce(c.net, mine, low, 3, Element::kI64, ReduceOp::kMin).ok());
      ASSERT_TRUE(reduce(c.net, mine, high, 3, Element::kI64, ReduceOp::kMax).ok());
      EXPECT_EQ(sum[0], n * (n + 1) / 2);
      EXPECT_EQ(low[1], -(n - 1));
      EXPECT_EQ(high[0], n);
      EXPECT_EQ(sum[2], n * round);
      std::uint64_t bits = std::uint64_t{1} << c.net.self();
      ASSERT_TRUE(reduce(c.net, &bits, &bits, 1, Element::kU64, ReduceOp::kOr).ok());
      EXPECT_EQ(bits, (std::uint64_t{1} << n) - 1);
      const double part = 1.0 / (3.0 + c.net.self());
      double first = 0, again = 0;
      ASSERT_TRUE(reduce(c.net, &part, &first, 1, Element::kF64, ReduceOp::kSum).ok());
      ASSERT_TRUE(reduce(c.net, &part, &again, 1, Element::kF64, ReduceOp::kSum).ok());
      EXPECT_EQ(first, again);  // to the last bit
    }
    ASSERT_TRUE(barrier(c.net).ok());
  });
}

using Words = std::vector<std::uint64_t>;

std::uint64_t word_of(int process, int part, std::size_t i) {
  return static_cast<std::uint64_t>(process) << 48 | static_cast<std::uint64_t>(part) << 40 | i;
}

// Group sizes on both sides of powers of two and of the trees' arity; data from nothing to many parts.
TEST_P(ConformanceCollectives, GathersAndExchangesPutEveryPartInItsPlace) {
  for (const int processes : {1, 2, 3, 4, 5, 7}) {
    run({processes, true, static_cast<std::uint64_t>(processes)}, [](Context& c) {
      const int n = c.net.processes();
      const auto parts = static_cast<std::size_t>(n);
      for (const std::size_t words : {0, 1, 3, 60, 700}) {
        Words input(words), output(words * parts, 1), everything(words * parts, 1), given(words * parts),
            taken(words * parts, 1);
        for (std::size_t i = 0; i < words; ++i) input[i] = word_of(c.net.self(), 0, i);
        for (int p = 0; p < n; ++p)
          for (std::size_t i = 0; i < words; ++i)
            given[static_cast<std::size_t>(p) * words + i] = word_of(c.net.self(), p, i);
        const ProcessId root = static_cast<ProcessId>(words) % n;
        ASSERT_TRUE(gather(c.net, input.data(), output.data(), words * 8, root).ok());
        ASSERT_TRUE(gather(c.net, input.data(), everything.data(), words * 8).ok());
        ASSERT_TRUE(alltoall(c.net, given.data(), taken.data(), words * 8).ok());
        for (int p = 0; p < n; ++p) {
          for (std::size_t i = 0; i < words; ++i) {
            const std::size_t at = static_cast<std::size_t>(p) * words + i;
            ASSERT_EQ(output[at], c.net.self() == root ? word_of(p, 0, i) : 1) << "gather";
            ASSERT_EQ(everything[at], word_of(p, 0, i)) << "allgather";
            ASSERT_EQ(taken[at], word_of(p, c.net.self(), i)) << "alltoall";
          }
        }
      }
      ASSERT_TRUE(barrier(c.net).ok());
    });
  }
}

// Odd sizes, and parts that are not multiples of words.
TEST_P(ConformanceCollectives, PartsOfAnyNumberOfBytes) {
  run({3, false, 8}, [](Context& c) {
    const auto n = static_cast<std::size_t>(c.net.processes());
    for (const std::size_t bytes : {1, 13, 4063, 4064, 4065, 10'001}) {
      std::vector<std::byte> input(bytes), all(bytes * n), given(bytes * n), taken(bytes * n);
      for (std::size_t i = 0; i < bytes; ++i) input[i] = pattern(i, c.net.self());
      for (std::size_t i = 0; i < bytes * n; ++i) given[i] = pattern(i, c.net.self() + 10);
      ASSERT_TRUE(gather(c.net, input.data(), all.data(), bytes).ok());
      ASSERT_TRUE(alltoall(c.net, given.data(), taken.data(), bytes).ok());
      const std::size_t mine = static_cast<std::size_t>(c.net.self()) * bytes;
      for (std::size_t p = 0; p < n; ++p) {
        for (std::size_t i = 0; i < bytes; ++i) {
          ASSERT_EQ(all[p * bytes + i], pattern(i, static_cast<int>(p)));
          ASSERT_EQ(taken[p * bytes + i], pattern(mine + i, static_cast<int>(p) + 10));
        }
      }
    }
    barrier(c.net);
  });
}

// Larger than any message; the input is the output's memory, too; only the root gets what is its alone.
TEST_P(ConformanceCollectives, LongBroadcastsAndReductions) {
  run({6, false, 3}, [](Context& c) {
    const auto n = static_cast<std::uint64_t>(c.net.processes());
    constexpr std::size_t kWords = 3000;
    Words data(kWords), sum(kWords), at_root(kWords, 5);
    for (std::size_t i = 0; i < kWords; ++i) data[i] = word_of(c.net.self(), 0, i);
    ASSERT_TRUE(broadcast(c.net, 4, data.data(), kWords * 8).ok());
    for (std::size_t i = 0; i < kWords; ++i) ASSERT_EQ(data[i], word_of(4, 0, i));
    for (std::size_t i = 0; i < kWords; ++i) sum[i] = i + static_cast<std::uint64_t>(c.net.self());
    ASSERT_TRUE(reduce(c.net, sum.data(), at_root.data(), kWords, Element::kU64, ReduceOp::kSum, 3).ok());
    ASSERT_TRUE(reduce(c.net, sum.data(), sum.data(), kWords, Element::kU64, ReduceOp::kSum).ok());
    for (std::size_t i = 0; i < kWords; ++i) {
      ASSERT_EQ(sum[i], n * i + n * (n - 1) / 2);
      ASSERT_EQ(at_root[i], c.net.self() == 3 ? sum[i] : 5);
    }
    barrier(c.net);
  });
}

// Calls of all kinds at once, long ones before short ones: they keep their order in every process and all complete.
TEST_P(ConformanceCollectives, CallsUnderWayTogetherDoNotMix) {
  run({5, true, 17}, [](Context& c) {
    const auto n = static_cast<std::size_t>(c.net.processes());
    for (std::uint64_t round = 0; round < 8; ++round) {
      Words far(500), all(500 * n), small(n), swapped(n), total(1, 1 + round);
      std::deque<Event> events(5);
      for (std::size_t i = 0; i < 500; ++i) far[i] = word_of(c.net.self(), 3, i + round);
      for (std::size_t p = 0; p < n; ++p) small[p] = word_of(c.net.self(), static_cast<int>(p), round);
      until_taken(c.net, [&] {
        return c.net.try_gather_async({kAllProcesses, far.data(), all.data(), 4000, events[0].callback()});
      });
      until_taken(c.net,
                  [&] { return c.net.try_alltoall_async({small.data(), swapped.data(), 8, events[1].callback()}); });
      until_taken(c.net, [&] { return c.net.try_barrier_async(events[2].callback()); });
      until_taken(c.net, [&] {
        return c.net.try_reduce_async(
            {total.data(), total.data(), 1, Element::kU64, ReduceOp::kSum, events[3].callback()});
      });
      until_taken(c.net, [&] { return c.net.try_barrier_async(events[4].callback()); });
      for (std::size_t k = 5; k-- > 0;) ASSERT_TRUE(events[k].wait(c.net).ok());
      EXPECT_EQ(total[0], n * (1 + round));
      for (std::size_t p = 0; p < n; ++p) {
        ASSERT_EQ(swapped[p], word_of(static_cast<int>(p), c.net.self(), round));
        for (std::size_t i = 0; i < 500; ++i) ASSERT_EQ(all[p * 500 + i], word_of(static_cast<int>(p), 3, i + round));
      }
    }
    barrier(c.net);
  });
}

// A call of many operations, of which some are not begun when a process dies, completes once, with the error.
TEST_P(ConformanceCollectives, LongCallsEndWithADeadPeer) {
  run({4, false, 12}, [](Context& c) {
    const ProcessId dead = c.net.processes() - 1;
    if (c.net.self() == dead) c.die();
    std::vector<std::byte> input(300'000), output(300'000 * 4);
    Event all, sum;
    until_taken(c.net, [&] {
      return c.net.try_gather_async({kAllProcesses, input.data(), output.data(), input.size(), all.callback()});
    });
    until_taken(c.net, [&] {
      return c.net.try_reduce_async({input.data(), output.data(), 1000, Element::kU64, ReduceOp::kMax, sum.callback()});
    });
    EXPECT_EQ(all.wait(c.net).outcome, Outcome::kPeerFailed);
    EXPECT_EQ(sum.wait(c.net).outcome, Outcome::kPeerFailed);
    EXPECT_EQ(barrier(c.net).outcome, Outcome::kPeerFailed);
    part(c, 0, dead);
  });
}

}  // namespace
}  // namespace ayatori::net::testing
