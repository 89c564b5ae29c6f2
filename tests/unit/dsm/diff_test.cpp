// SPDX-License-Identifier: Apache-2.0
// Merges by byte-masked stores of whole lines (diff::forward_wide): against the definition, and beside running writers
// and readers of the same page.
#include "dsm/diff.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

namespace ayatori {
namespace {

namespace diff = dsm::diff;

struct alignas(4096) Page {
  std::byte bytes[gas::kPageBytes];
};

class WideMerge : public testing::Test {
 protected:
  void SetUp() override {
    if (!diff::has_wide()) GTEST_SKIP() << "this CPU has no AVX-512BW, or this build does not use it";
  }
};

TEST_F(WideMerge, StoresTheDifferingBytesAndNoOthers) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    Page from, twin, to, before_twin, before_to;
    for (std::byte& b : from.bytes) b = static_cast<std::byte>(random());
    twin = from;
    for (std::byte& b : to.bytes) b = static_cast<std::byte>(random());
    const unsigned one_in = 1u << random() % 13;
    for (std::byte& b : from.bytes)
      if (random() % one_in == 0) b = static_cast<std::byte>(random());
    before_twin = twin;
    before_to = to;
    const bool keep = round % 2 == 0;
    std::uint64_t expected = 0;
    const std::uint64_t bytes = diff::forward_wide(from.bytes, twin.bytes, to.bytes, keep);
    for (std::size_t i = 0; i < gas::kPageBytes; ++i) {
      const bool differs = from.bytes[i] != before_twin.bytes[i];
      expected += differs;
      ASSERT_EQ(to.bytes[i], differs ? from.bytes[i] : before_to.bytes[i]) << i;
      ASSERT_EQ(twin.bytes[i], keep ? from.bytes[i] : before_twin.bytes[i]) << i;
    }
    ASSERT_EQ(bytes, expected);
  }
}

// W1: the owner runs on that very page. Odd bytes are merged, even ones are its own.
TEST_F(WideMerge, LosesNoByteThatTheOwnerWritesMeanwhile) {
  static Page from, twin, to;
  std::memset(&to, 0, sizeof to);
  std::atomic<bool> over{false};
  std::thread merger([&] {
    for (unsigned round = 1; round < 20'000; ++round) {
      for (std::size_t i = 1; i < gas::kPageBytes; i += 2) from.bytes[i] = static_cast<std::byte>(round);
      diff::forward_wide(from.bytes, twin.bytes, to.bytes, true);
    }
    over.store(true);
  });
  unsigned char value = 0;
  long lost = 0;
  while (!over.load(std::memory_order_relaxed)) {
    ++value;
    for (std::size_t i = 0; i < gas::kPageBytes; i += 2)
      *reinterpret_cast<volatile unsigned char*>(to.bytes + i) = value;
    for (std::size_t i = 0; i < gas::kPageBytes; i += 2)
      lost += *reinterpret_cast<volatile unsigned char*>(to.bytes + i) != value;
  }
  merger.join();
  EXPECT_EQ(lost, 0);
  for (std::size_t i = 1; i < gas::kPageBytes; i += 2) ASSERT_EQ(to.bytes[i], static_cast<std::byte>(19'999 & 0xff));
}

// W2: who reads an aligned word sees one that was written, never a mixture.
TEST_F(WideMerge, ShowsAlignedWordsWhole) {
  static Page from, twin, to;
  std::memset(&from, 0, sizeof from);
  std::memset(&twin, 0, sizeof twin);
  std::memset(&to, 0, sizeof to);
  std::atomic<bool> over{false};
  std::thread merger([&] {
    for (unsigned round = 1; round < 20'000; ++round) {
      std::memset(from.bytes, static_cast<int>(round), sizeof from.bytes);
      diff::forward_wide(from.bytes, twin.bytes, to.bytes, round % 3 != 0);
      if (round % 3 == 0) std::memcpy(&twin, &from, sizeof twin);
    }
    over.store(true);
  });
  long torn = 0, reads = 0;
  while (!over.load(std::memory_order_relaxed)) {
    for (std::size_t w = 0; w < diff::kWords; ++w, ++reads) {
      const diff::Word word = diff::load(diff::words(to.bytes) + w);
      torn += word != (word & 0xff) * 0x0101010101010101ULL;
    }
  }
  merger.join();
  EXPECT_EQ(torn, 0) << "of " << reads;
}

}  // namespace
}  // namespace ayatori
