// SPDX-License-Identifier: Apache-2.0
#include "dsm/diff_wire.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>

#include "dsm/diff.hpp"

namespace ayatori {
namespace {

namespace diff = dsm::diff;
using Message = std::vector<std::byte>;

constexpr std::size_t kPages = 1000;

struct alignas(64) Page {
  std::byte bytes[gas::kPageBytes];
  bool operator==(const Page& other) const { return std::memcmp(bytes, other.bytes, sizeof bytes) == 0; }
};

Page random_page(std::mt19937& random) {
  Page page;
  for (std::byte& b : page.bytes) b = static_cast<std::byte>(random());
  return page;
}

// Changes about one byte in `one_in`.
Page changed(const Page& page, unsigned one_in, std::mt19937& random) {
  Page result = page;
  for (std::byte& b : result.bytes)
    if (random() % one_in == 0) b = static_cast<std::byte>(random());
  return result;
}

std::uint64_t differing(const Page& a, const Page& b) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < sizeof a.bytes; ++i) bytes += a.bytes[i] != b.bytes[i];
  return bytes;
}

TEST(DiffWire, WhatIsMergedIsWhatChangedAndNothingElse) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    const unsigned one_in = 1u << random() % 13;
    const Page before = random_page(random), elsewhere = random_page(random);
    Page now = changed(before, one_in, random), twin = before, to = elsewhere;
    Message message;
    const std::uint64_t bytes = diff::encode(7, now.bytes, twin.bytes, message);
    EXPECT_EQ(bytes, differing(before, now));
    EXPECT_TRUE(twin == now);
    EXPECT_LE(message.size(), diff::kWireBytesMax);
    ASSERT_EQ(message.empty(), bytes == 0);
    if (bytes == 0) continue;
    std::span<const std::byte> all = message;
    diff::WireDiff d;
    ASSERT_TRUE(diff::next(all, kPages, d));
    EXPECT_EQ(d.page, 7u);
    EXPECT_TRUE(all.empty());
    EXPECT_EQ(diff::merge(d, to.bytes), bytes);
    for (std::size_t i = 0; i < sizeof to.bytes; ++i)
      ASSERT_EQ(to.bytes[i], now.bytes[i] != before.bytes[i] ? now.bytes[i] : elsewhere.bytes[i]) << "byte " << i;
    // Taken back, the twin is what it was.
    Page old = before;
    diff::restore(d, old.bytes, twin.bytes);
    EXPECT_TRUE(twin == before);
  }
}

TEST(DiffWire, ManyDiffsInOneMessageComeOutInTurn) {
  std::mt19937 random(13);
  Message message;
  for (gas::PageIndex page = 0; page < 20; ++page) {
    const Page before = random_page(random);
    Page now = changed(before, 100, random), twin = before;
    diff::encode(page, now.bytes, twin.bytes, message);
  }
  std::span<const std::byte> all = message;
  diff::WireDiff d;
  for (gas::PageIndex page = 0; page < 20; ++page) {
    ASSERT_TRUE(diff::next(all, kPages, d));
    EXPECT_EQ(d.page, page);
  }
  EXPECT_TRUE(all.empty());
}

TEST(DiffWire, WhatIsCutOffOrNamesNoPageIsRefused) {
  std::mt19937 random(14);
  const Page before = random_page(random);
  Page now = changed(before, 50, random), twin = before;
  Message message;
  diff::encode(999, now.bytes, twin.bytes, message);
  diff::WireDiff d;
  for (std::size_t bytes = 0; bytes < message.size(); ++bytes) {
    std::span<const std::byte> cut{message.data(), bytes};
    ASSERT_FALSE(diff::next(cut, kPages, d)) << bytes << " of " << message.size() << " bytes";
  }
  std::span<const std::byte> whole = message;
  EXPECT_FALSE(diff::next(whole, 999, d)) << "page 999 of 999";
  EXPECT_TRUE(diff::next(whole, kPages, d));
}

TEST(DiffWire, JunkIsRefusedOrWithinItsBounds) {
  std::mt19937 random(15);
  for (int round = 0; round < 20000; ++round) {
    Message junk(random() % 300);
    for (std::byte& b : junk) b = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
    std::span<const std::byte> all = junk;
    Page page = {};
    for (diff::WireDiff d; diff::next(all, kPages, d);) {
      EXPECT_LT(d.page, kPages);
      diff::merge(d, page.bytes);
    }
  }
}

}  // namespace
}  // namespace ayatori
