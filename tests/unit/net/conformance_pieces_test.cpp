// SPDX-License-Identifier: Apache-2.0
// Lists, strides, words of 4 bytes, flushes and fences on every transport (net/transport.hpp N5, N9, N10).
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

#include "conformance.hpp"

namespace ayatori::net::testing {
namespace {

class ConformancePieces : public Conformance {};
INSTANTIATE_TEST_SUITE_P(, ConformancePieces, ::testing::ValuesIn(networks()), name_of);

void expect(Completion done, Outcome outcome) {
  EXPECT_EQ(done.outcome, outcome) << outcome_name(done.outcome) << ", not " << outcome_name(outcome);
}

// Pieces of many sizes and alignments go to scattered places and come back; what lies between stays as it was.
TEST_P(ConformancePieces, ListsMoveExactlyTheirPieces) {
  run({3, false, 2}, [](Context& c) {
    const ProcessId peer = (c.net.self() + 1) % c.net.processes();
    const std::size_t sizes[] = {0, 1, 7, 8, 64, 100, 1024, 1025, 3000};
    std::vector<std::byte> out(16'000), in(16'000, std::byte{0xDD}), all(kMemoryBytes);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = pattern(i, c.net.self());
    std::vector<Piece> pieces, back;
    std::uint64_t remote = 5;
    std::size_t local = 3;
    for (const std::size_t size : sizes) {
      pieces.push_back({remote, out.data() + local, size});
      back.push_back({remote, in.data() + local, size});
      remote += size + 11;
      local += size + 6;
    }
    ASSERT_TRUE(write_list(c.net, peer, 0, pieces.data(), pieces.size()).ok());
    ASSERT_TRUE(read(c.net, c.at(peer, 0), all.data(), all.size()).ok());
    std::vector<std::byte> expected(kMemoryBytes);
    for (const Piece& piece : pieces)
      if (piece.size_bytes != 0) std::memcpy(expected.data() + piece.offset, piece.local, piece.size_bytes);
    ASSERT_EQ(all, expected);
    ASSERT_TRUE(read_list(c.net, peer, 0, back.data(), back.size()).ok());
    std::vector<std::byte> expected_in(in.size(), std::byte{0xDD});
    for (const Piece& piece : pieces) {
      const std::size_t at = static_cast<std::size_t>(static_cast<std::byte*>(piece.local) - out.data());
      if (piece.size_bytes != 0) std::memcpy(expected_in.data() + at, piece.local, piece.size_bytes);
    }
    ASSERT_EQ(in, expected_in);
    ASSERT_TRUE(write_list(c.net, peer, 0, nullptr, 0).ok());
    barrier(c.net);
  });
}

TEST_P(ConformancePieces, TheLongestList) {
  run({2, false, 3}, [](Context& c) {
    const ProcessId peer = 1 - c.net.self();
    static_assert(kPiecesMax * 8 <= kMemoryBytes * 4);
    const std::size_t count = std::min(kPiecesMax, kMemoryBytes / 4);
    std::vector<std::uint32_t> values(count), seen(count);
    std::iota(values.begin(), values.end(), 1000u);
    std::vector<Piece> pieces(kPiecesMax + 1);
    for (std::size_t i = 0; i < count; ++i) pieces[i] = {4 * (count - 1 - i), &values[i], 4};
    ASSERT_TRUE(write_list(c.net, peer, 0, pieces.data(), count).ok());
    ASSERT_TRUE(read(c.net, c.at(peer, 0), seen.data(), count * 4).ok());
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(seen[count - 1 - i], values[i]);
    expect(read_list(c.net, peer, 0, pieces.data(), kPiecesMax + 1), Outcome::kTooLarge);
    barrier(c.net);
  });
}

// A box of a three-dimensional array, with rows turned round on the way.
TEST_P(ConformancePieces, StridesMoveBoxes) {
  run({3, false, 4}, [](Context& c) {
    const ProcessId peer = (c.net.self() + 1) % c.net.processes();
    std::vector<std::byte> out(2'000), in(2'000, std::byte{0xDD}), all(kMemoryBytes), expected(kMemoryBytes),
        expected_in(in);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = pattern(i, 40 + c.net.self());
    StridedParams box;
    box.remote = c.at(peer, 1'000);
    box.block_bytes = 5;
    box.levels = 3;
    box.counts = {4, 3, 2};
    box.remote_strides = {-16, 100, 1'000};
    box.local_strides = {7, 40, 500};
    for (std::int64_t k = 0; k < 2; ++k)
      for (std::int64_t j = 0; j < 3; ++j)
        for (std::int64_t i = 0; i < 4; ++i) {
          const auto local = static_cast<std::size_t>(10 + 7 * i + 40 * j + 500 * k);
          std::memcpy(&expected[static_cast<std::size_t>(1'000 - 16 * i + 100 * j + 1'000 * k)], &out[local], 5);
          std::memcpy(&expected_in[local], &out[local], 5);
        }
    box.local = out.data() + 10;
    ASSERT_TRUE(write_strided(c.net, box).ok());
    ASSERT_TRUE(read(c.net, c.at(peer, 0), all.data(), all.size()).ok());
    ASSERT_EQ(all, expected);
    box.local = in.data() + 10;
    ASSERT_TRUE(read_strided(c.net, box).ok());
    ASSERT_EQ(in, expected_in);
    StridedParams one;  // no level: one block
    one.remote = c.at(peer, 0);
    one.local = out.data();
    one.block_bytes = 900;
    ASSERT_TRUE(write_strided(c.net, one).ok());
    ASSERT_TRUE(read(c.net, c.at(peer, 0), in.data(), 900).ok());
    ASSERT_EQ(std::memcmp(in.data(), out.data(), 900), 0);
    box.counts[1] = 0;  // nothing
    ASSERT_TRUE(read_strided(c.net, box).ok());
    barrier(c.net);
  });
}

// One bad piece among good ones: nothing moves.
TEST_P(ConformancePieces, BadPiecesMoveNothing) {
  GetParam().run(
      {2, false, 5},
      [](Context& c) {
        EXPECT_EQ(c.net.register_memory(c.memory, 256, kReadable), 1u);
        EXPECT_EQ(c.net.register_memory(c.memory, 256, kWritable), 2u);
      },
      [](Context& c) {
        const ProcessId peer = 1 - c.net.self();
        std::vector<std::byte> data(256, std::byte{0xAA});
        const auto both = [&](RegionId region, std::uint64_t offset, std::size_t size, Outcome reads, Outcome writes) {
          const Piece pieces[] = {{0, data.data(), 8}, {offset, data.data() + 8, size}, {16, data.data() + 16, 8}};
          expect(write_list(c.net, peer, region, pieces, 3), writes);
          expect(read_list(c.net, peer, region, pieces, 3), reads);
          for (const std::byte b : data) ASSERT_EQ(b, std::byte{0xAA});
        };
        both(0, kMemoryBytes - 4, 8, Outcome::kBadAddress, Outcome::kBadAddress);
        both(0, ~std::uint64_t{0} - 3, 8, Outcome::kBadAddress, Outcome::kBadAddress);
        both(9, 0, 8, Outcome::kBadAddress, Outcome::kBadAddress);
        const Piece good{0, data.data(), 8};
        expect(write_list(c.net, peer, 1, &good, 1), Outcome::kNoRights);
        expect(read_list(c.net, peer, 2, &good, 1), Outcome::kNoRights);
        expect(read_list(c.net, 7, 0, &good, 1), Outcome::kBadAddress);
        StridedParams box;
        box.remote = c.at(peer, 64);
        box.local = data.data();
        box.block_bytes = 8;
        box.levels = 2;
        const auto strided = [&](std::array<std::size_t, 3> counts, std::array<std::int64_t, 3> strides,
                                 Outcome outcome) {
          box.counts = counts;
          box.remote_strides = strides;
          expect(write_strided(c.net, box), outcome);
          expect(read_strided(c.net, box), outcome);
        };
        strided({2, 2, 0}, {-72, 0, 0}, Outcome::kBadAddress);
        strided({2, 2, 0}, {static_cast<std::int64_t>(kMemoryBytes) - 70, 8, 0}, Outcome::kBadAddress);
        strided({3, 2, 0}, {std::int64_t{1} << 62, 0, 0}, Outcome::kBadAddress);
        strided({std::size_t{1} << 40, std::size_t{1} << 40, 0}, {0, 0, 0}, Outcome::kTooLarge);
        box.levels = 4;
        expect(read_strided(c.net, box), Outcome::kBadAddress);
        box.levels = 0;
        box.remote.region = 1;
        expect(write_strided(c.net, box), Outcome::kNoRights);
        barrier(c.net);
        for (std::size_t i = 0; i < kMemoryBytes; ++i) ASSERT_EQ(c.memory[i], std::byte{0});
        barrier(c.net);
      });
}

// Two words of 4 bytes in one of 8: neither touches the other, carries are cut off.
TEST_P(ConformancePieces, AtomicsOfFourBytesKeepToTheirWord) {
  run({3, false, 6}, [](Context& c) {
    constexpr int kRounds = 200;
    on_threads(c, [&](int) {
      for (int i = 0; i < kRounds; ++i) {
        EXPECT_LT(atomic(c.net, c.at(0, 8), AtomicOp::kFetchAdd, 0x1000'0000'1ull, 0, 4).value, 1u << 31);
        EXPECT_TRUE(atomic(c.net, c.at(0, 12), AtomicOp::kFetchAdd, 0xffff'ffff, 0, 4).ok());
      }
    });
    barrier(c.net);
    const auto total = static_cast<std::uint32_t>(kRounds * c.threads * c.net.processes());
    if (c.net.self() == 0) {
      std::uint32_t words[2];
      std::memcpy(words, c.memory + 8, 8);
      EXPECT_EQ(words[0], total * 0x10000'0001ull % (1ull << 32));
      EXPECT_EQ(words[1], 0u - total);
      const Completion swapped = atomic(c.net, c.at(0, 12), AtomicOp::kCompareSwap, 5, 0u - total, 4);
      EXPECT_EQ(swapped.value, 0u - total);
      EXPECT_EQ(atomic(c.net, c.at(0, 12), AtomicOp::kCompareSwap, 6, 4, 4).value, 5u);
      EXPECT_EQ(atomic(c.net, c.at(0, 12), AtomicOp::kFetchOr, 0x1'0000'0002, 0, 4).value, 5u);
      EXPECT_EQ(atomic(c.net, c.at(0, 12), AtomicOp::kFetchAnd, 3, 0, 4).value, 7u);
      EXPECT_EQ(atomic(c.net, c.at(0, 12), AtomicOp::kSwap, 9, 0, 4).value, 3u);
      std::memcpy(words, c.memory + 8, 8);
      EXPECT_EQ(words[0], total * 0x10000'0001ull % (1ull << 32));
      EXPECT_EQ(words[1], 9u);
      expect(atomic(c.net, c.at(0, 14), AtomicOp::kFetchAdd, 1, 0, 4), Outcome::kBadAddress);
      expect(atomic(c.net, c.at(0, kMemoryBytes), AtomicOp::kFetchAdd, 1, 0, 4), Outcome::kBadAddress);
    }
    barrier(c.net);
  });
}

TEST_P(ConformancePieces, AFlushOfOnePeerEndsAfterItsWrites) {
  run({3, false, 7}, [](Context& c) {
    const ProcessId next = (c.net.self() + 1) % c.net.processes();
    std::vector<std::uint64_t> values(60), seen(60);
    std::iota(values.begin(), values.end(), 9u);
    const std::uint64_t shift = static_cast<std::uint64_t>(c.net.self()) * 480;
    for (ProcessId to = 0; to < c.net.processes(); ++to)
      for (std::size_t i = 0; i < values.size(); ++i)
        until_taken(c.net, [&] { return c.net.try_write_async({to, c.at(to, shift + i * 8), &values[i], 8, {}}); });
    ASSERT_TRUE(flush(c.net, next).ok());
    ASSERT_TRUE(read(c.net, c.at(next, shift), seen.data(), 480).ok());
    EXPECT_EQ(seen, values);
    ASSERT_TRUE(flush(c.net).ok());
    expect(flush(c.net, c.net.processes()), Outcome::kBadAddress);
    barrier(c.net);
  });
}

// Data, fence, flag: who sees the flag sees the data. By writes (MP) and by a message's handler.
TEST_P(ConformancePieces, AFenceOrdersWhatFollowsIt) {
  constexpr std::uint64_t kRounds = 40;
  constexpr std::size_t kWords = 100;
  struct Heard {
    std::byte* memory = nullptr;
    std::atomic<std::uint64_t> rounds{0};
    std::atomic<int> stale{0};
  } heard_of[2];
  GetParam().run(
      {2, false, 31},
      [&](Context& c) {
        Heard& heard = heard_of[c.net.self()];
        heard.memory = c.memory;
        c.net.set_handler(
            kUserHandlers,
            [](void* context, const Message& message) {
              auto& h = *static_cast<Heard*>(context);
              std::uint64_t round = 0;
              std::memcpy(&round, message.payload, 8);
              for (std::size_t i = 0; i < kWords; ++i) {
                std::uint64_t word = 0;
                std::memcpy(&word, h.memory + 4096 + i * 8, 8);
                h.stale += word != round;
              }
              h.rounds.store(round);
            },
            &heard);
      },
      [&](Context& c) {
        Heard& heard = heard_of[c.net.self()];
        std::vector<std::uint64_t> data(kWords);
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
          if (c.net.self() == 0) {
            std::fill(data.begin(), data.end(), round);
            for (std::size_t i = 0; i < kWords; i += 10)
              until_taken(c.net, [&] { return c.net.try_write_async({1, c.at(1, 64 + i * 8), &data[i], 80, {}}); });
            until_taken(c.net, [&] { return c.net.try_write_async({1, c.at(1, 4096), data.data(), kWords * 8, {}}); });
            fence(c.net, round % 2 == 0 ? 1 : kAllProcesses);
            until_taken(c.net, [&] { return c.net.try_write_async({1, c.at(1, 0), data.data(), 8, {}}); });
            until_taken(c.net, [&] { return c.net.try_message_async({1, kUserHandlers, data.data(), 8, {}}); });
            ASSERT_TRUE(flush(c.net).ok());
          } else {
            std::atomic_ref<std::uint64_t> flag(*reinterpret_cast<std::uint64_t*>(c.memory));
            wait_until(c.net, [&] {
              c.net.progress();
              return flag.load(std::memory_order_acquire) == round;
            });
            for (std::size_t i = 0; i < kWords; ++i) {
              std::uint64_t word = 0;
              std::memcpy(&word, c.memory + 64 + i * 8, 8);
              ASSERT_EQ(word, round);
            }
            wait_until(c.net, [&] { return heard.rounds.load() == round; });
            EXPECT_EQ(heard.stale.load(), 0);
          }
          barrier(c.net);
        }
      });
}

// A list or strided request counts as one request, with its bytes.
TEST_P(ConformancePieces, CountersCountPiecesOnce) {
  std::atomic<bool> measured{false};  // that of process 1
  GetParam().run(
      {2, false, 1},
      [&](Context& c) {
        c.net.set_handler(
            kUserHandlers, [](void* flag, const Message&) { static_cast<std::atomic<bool>*>(flag)->store(true); },
            &measured);
      },
      [&](Context& c) {
        if (c.net.self() == 1) {
          wait_until(c.net, [&] { return measured.load(); });
          barrier(c.net);
          return;
        }
        std::byte buffer[64] = {};
        const Piece pieces[] = {{0, buffer, 8}, {100, buffer + 8, 20}};
        StridedParams rows;
        rows.remote = c.at(1, 0);
        rows.local = buffer;
        rows.block_bytes = 4;
        rows.levels = 1;
        rows.counts = {5};
        rows.remote_strides = {64};
        rows.local_strides = {4};
        const Counters before = c.net.counters();
        read_list(c.net, 1, 0, pieces, 2);
        write_list(c.net, 1, 0, pieces, 2);
        read_strided(c.net, rows);
        const Counters after = c.net.counters();
        EXPECT_EQ(after.messages_sent - before.messages_sent, 3u);
        EXPECT_EQ(after.bytes_sent - before.bytes_sent, 28u);
        EXPECT_EQ(after.bytes_received - before.bytes_received, 28u + 20u);
        message(c.net, 1, kUserHandlers, nullptr, 0);
        barrier(c.net);
      });
}

}  // namespace
}  // namespace ayatori::net::testing
