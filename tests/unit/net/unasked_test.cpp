// SPDX-License-Identifier: Apache-2.0
// Messages longer than a frame that ask for no room (served/transport.hpp D8): over when the wire has them, once.
#include <gtest/gtest.h>

#include <vector>

#include "hand_fed.hpp"

namespace ayatori::net::testing {
namespace {

using served::DataPlace;
using served::Frame;
using served::FrameHeader;
using served::FrameKind;
using served::Shape;
using served::Way;

constexpr std::size_t kInlineBytes = 10'000;   // more than a payload, within inline_bytes_max
constexpr std::size_t kSegmentBytes = 30'000;  // one segment
constexpr std::size_t kAskingBytes = 100'000;

struct Sender {
  HandFed net;
  served::PeerSink sink{net, net.other()};
  std::vector<std::byte> payload = std::vector<std::byte>(kAskingBytes);
  int completions = 0;
  Outcome outcome{};

  void send(std::size_t bytes) {
    ASSERT_TRUE(net.try_message_async({1,
                                       kUserHandlers,
                                       payload.data(),
                                       bytes,
                                       {[](void* self, Completion done) {
                                          ++static_cast<Sender*>(self)->completions;
                                          static_cast<Sender*>(self)->outcome = done.outcome;
                                        },
                                        this}}));
  }
  bool answer(FrameKind kind, const FrameHeader& request) {
    Frame frame;
    frame.header.kind = kind;
    frame.header.slot = request.slot;
    frame.header.serial = request.serial;
    return sink.on_frame(frame);
  }
};

TEST(Unasked, AMessageInAFrameIsOverAtOnce) {
  Sender from;
  from.send(kInlineBytes);
  EXPECT_EQ(from.completions, 1);
  EXPECT_EQ(from.net.send().total, kInlineBytes);
  from.net.progress();
  EXPECT_EQ(from.completions, 1);
  EXPECT_TRUE(from.net.has_nothing_to_send());
}

TEST(Unasked, AMessageOfASegmentIsOverWhenTheWireHasAllOfIt) {
  Sender from;
  from.send(kSegmentBytes);
  from.net.send(20'000);
  from.net.progress();
  EXPECT_EQ(from.completions, 0);
  from.net.send();
  EXPECT_EQ(from.completions,
            0);  // by who makes progress: the caller of another try_* may hold what the callback takes
  from.net.progress();
  EXPECT_EQ(from.completions, 1);
  EXPECT_EQ(from.outcome, Outcome::kOk);
}

TEST(Unasked, WhereTheWireHasRoomItsCallerCompletesIt) {
  Sender from;
  from.net.sends_at_once = true;
  for (int i = 1; i <= 1000; ++i) {  // slots come back, too
    from.send(i % 2 == 0 ? kInlineBytes : kSegmentBytes);
    ASSERT_EQ(from.completions, i);
  }
  from.net.progress();
  EXPECT_EQ(from.completions, 1000);
}

TEST(Unasked, OneThatWaitedIsNotCompletedByTheNextOnesCaller) {
  Sender from;
  from.send(kSegmentBytes);
  int others = 0;
  from.net.sends_at_once = true;
  ASSERT_TRUE(from.net.try_message_async({1,
                                          kUserHandlers,
                                          from.payload.data(),
                                          8,
                                          {[](void* count, Completion) { ++*static_cast<int*>(count); }, &others}}));
  EXPECT_EQ(others, 1);
  EXPECT_TRUE(from.net.has_nothing_to_send());
  EXPECT_EQ(from.completions, 0);
  from.net.progress();
  EXPECT_EQ(from.completions, 1);
}

TEST(Unasked, AWaitEndsWithIt) {
  Sender from;
  from.send(kSegmentBytes);
  from.net.send();
  EXPECT_TRUE(
      from.net.wait([](void* self) { return static_cast<Sender*>(self)->completions == 1; }, &from, 5'000'000'000));
}

TEST(Unasked, ADeathCompletesItOnce) {
  for (const bool was_sent : {false, true}) {
    Sender from;
    from.send(kSegmentBytes);
    if (was_sent) from.net.send();
    from.net.lose();
    from.net.progress();
    from.net.progress();
    EXPECT_EQ(from.completions, 1);
    EXPECT_EQ(from.outcome, was_sent ? Outcome::kOk : Outcome::kPeerFailed);
  }
}

TEST(Unasked, AnAcknowledgementOfItIsRefused) {
  for (const std::size_t bytes : {kInlineBytes, kSegmentBytes}) {
    Sender from;
    from.send(bytes);
    const FrameHeader request = from.net.send(20'000);
    EXPECT_FALSE(from.answer(FrameKind::kAck, request));
    EXPECT_TRUE(from.net.accused());
    EXPECT_EQ(from.completions, bytes == kInlineBytes);
  }
}

TEST(Unasked, OneThatAsksIsOverWhenItIsAcknowledged) {
  Sender from;
  from.send(kAskingBytes);
  const FrameHeader request = from.net.send();
  ASSERT_TRUE(from.answer(FrameKind::kGo, request));
  while (!from.net.has_nothing_to_send()) from.net.send();
  from.net.progress();
  EXPECT_EQ(from.completions, 0);
  ASSERT_TRUE(from.answer(FrameKind::kAck, request));
  EXPECT_EQ(from.completions, 1);
}

TEST(Unasked, TheReceiverAnswersNothing) {
  HandFed net;
  served::PeerSink sink(net, net.other());
  const std::vector<std::byte> data(kSegmentBytes, std::byte{3});
  for (int i = 1; i <= 3; ++i) {
    Frame message;
    message.header.kind = FrameKind::kWrite;
    message.header.code = static_cast<std::uint8_t>(Shape::kMessage);
    message.header.handler = kUserHandlers;
    message.header.slot = 3;
    message.header.serial = static_cast<std::uint64_t>(i);
    message.header.total = i == 3 ? kInlineBytes : kSegmentBytes;
    message.body = data.data();
    ASSERT_TRUE(sink.on_frame(message));
    if (i != 3) {
      FrameHeader all;
      all.kind = FrameKind::kData;
      all.code = static_cast<std::uint8_t>(Way::kToTarget);
      all.slot = 3;
      all.serial = message.header.serial;
      all.body_bytes = kSegmentBytes;
      DataPlace place;
      ASSERT_TRUE(sink.on_data(all, &place));
      ASSERT_NE(place.walk, nullptr);
      scatter(*place.walk, data.data(), data.size(), false);
      ASSERT_TRUE(sink.on_data_end(all));
    }
    EXPECT_EQ(net.delivered(), i);
    EXPECT_TRUE(net.has_nothing_to_send());
  }
}

}  // namespace
}  // namespace ayatori::net::testing
