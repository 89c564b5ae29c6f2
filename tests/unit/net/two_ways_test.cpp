// SPDX-License-Identifier: Apache-2.0
// A broken peer of a wire with two ways (net/ucx/control.hpp C4): frames of one come while data of the other is half here. All of
// it is refused: no memory is written behind its request's back.
#include <gtest/gtest.h>

#include <vector>

#include "hand_fed.hpp"

namespace ayatori::net::testing {
namespace {

using served::DataPlace;
using served::Frame;
using served::FrameHeader;
using served::FrameKind;
using served::Way;

constexpr std::size_t kBytes = HandFed::kBytes;
constexpr std::uint32_t kHalf = 300'000;

FrameHeader data_of(const FrameHeader& request, Way way, std::uint64_t offset, std::uint32_t bytes) {
  FrameHeader data;
  data.kind = FrameKind::kData;
  data.code = static_cast<std::uint8_t>(way);
  data.slot = request.slot;
  data.serial = request.serial;
  data.offset = offset;
  data.body_bytes = bytes;
  return data;
}

// A read whose data is half here.
struct HalfRead {
  HandFed net;
  served::PeerSink sink{net, net.other()};
  std::vector<std::byte> local = std::vector<std::byte>(kBytes);
  int completions = 0;
  FrameHeader request;
  DataPlace place;

  HalfRead() {
    EXPECT_TRUE(net.try_read_async({1,
                                    {1, 0, 0},
                                    local.data(),
                                    kBytes,
                                    {[](void* count, Completion) { ++*static_cast<int*>(count); }, &completions}}));
    request = net.send();
    EXPECT_EQ(request.kind, FrameKind::kRead);
    EXPECT_TRUE(sink.on_data(data_of(request, Way::kToOrigin, 0, kHalf), &place));
    EXPECT_NE(place.walk, nullptr);
  }
};

TEST(TwoWays, ARefusalWithinTheDataOfItsReadIsRefused) {
  HalfRead half;
  Frame ack;
  ack.header.kind = FrameKind::kAck;
  ack.header.slot = half.request.slot;
  ack.header.serial = half.request.serial;
  ack.header.code = static_cast<std::uint8_t>(Outcome::kBadAddress);
  EXPECT_FALSE(half.sink.on_frame(ack));
  EXPECT_EQ(half.completions, 0);  // the rest may still come
  EXPECT_TRUE(half.net.accused());
}

TEST(TwoWays, DataWithinDataOfTheSameReadIsRefused) {
  HalfRead half;
  DataPlace again;
  EXPECT_FALSE(half.sink.on_data(data_of(half.request, Way::kToOrigin, 0, kHalf), &again));
  EXPECT_TRUE(half.net.accused());
}

TEST(TwoWays, AReadInHalvesIsDone) {
  HalfRead half;
  const auto take = [&](const FrameHeader& header) {
    const std::vector<std::byte> bytes(header.body_bytes, std::byte{5});
    scatter(*half.place.walk, bytes.data(), bytes.size(), false);
    return half.sink.on_data_end(header);
  };
  ASSERT_TRUE(take(data_of(half.request, Way::kToOrigin, 0, kHalf)));
  EXPECT_EQ(half.completions, 0);
  const FrameHeader rest = data_of(half.request, Way::kToOrigin, kHalf, kBytes - kHalf);
  ASSERT_TRUE(half.sink.on_data(rest, &half.place));
  ASSERT_TRUE(take(rest));
  EXPECT_EQ(half.completions, 1);
  EXPECT_EQ(half.local, std::vector<std::byte>(kBytes, std::byte{5}));
  EXPECT_FALSE(half.net.accused());
}

TEST(TwoWays, DataWithinDataOfTheSameWriteIsRefused) {
  HandFed net;
  served::PeerSink sink(net, net.other());
  Frame write;
  write.header.kind = FrameKind::kWrite;
  write.header.slot = 3;
  write.header.serial = 7;
  write.header.total = kBytes;
  ASSERT_TRUE(sink.on_frame(write));
  EXPECT_EQ(net.send().kind, FrameKind::kGo);
  DataPlace place;
  ASSERT_TRUE(sink.on_data(data_of(write.header, Way::kToTarget, 0, kHalf), &place));
  EXPECT_FALSE(sink.on_data(data_of(write.header, Way::kToTarget, 0, kHalf), &place));
  EXPECT_TRUE(net.accused());
}

}  // namespace
}  // namespace ayatori::net::testing
