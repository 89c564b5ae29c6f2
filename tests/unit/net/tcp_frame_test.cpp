// SPDX-License-Identifier: Apache-2.0
// The parser of the tcp transport and the machinery around it that needs no socket (net/served/frame, send_queue, walk,
// net/tcp/receiver): what one side sends the other takes in any cut; what no side sends is refused, whatever it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <ayatori/net/transport.hpp>
#include "net/served/frame.hpp"
#include "net/served/send_queue.hpp"
#include "net/served/walk.hpp"
#include "net/tcp/receiver.hpp"

namespace ayatori::net::served {
namespace {

using tcp::Receiver;

constexpr FrameLimits kLimits{992, 1024, 16};

using Bytes = std::vector<std::byte>;

Bytes frame(FrameHeader header, const Bytes& body = {}) {
  header.body_bytes = static_cast<std::uint32_t>(body.size());
  Bytes bytes(frame_bytes(body.size()));
  std::memcpy(bytes.data(), &header, kHeaderBytes);
  std::copy(body.begin(), body.end(), bytes.begin() + kHeaderBytes);
  return bytes;
}

template <class T>
void append(Bytes& to, const T& object) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&object);
  to.insert(to.end(), bytes, bytes + sizeof object);
}

FrameHeader header_of(FrameKind kind, std::uint8_t code = 0, std::uint16_t handler = 0, std::uint64_t total = 0) {
  FrameHeader header;
  header.kind = kind;
  header.code = code;
  header.handler = handler;
  header.slot = 3;
  header.serial = 77;
  header.total = total;
  return header;
}

// One sound frame of each kind and shape.
std::vector<Bytes> sound_frames() {
  std::vector<Bytes> all;
  const Bytes data(100, std::byte{7});
  all.push_back(frame(header_of(FrameKind::kMessage, 0, 200), data));
  all.push_back(frame(header_of(FrameKind::kRpc, 0, 255), data));
  all.push_back(frame(header_of(FrameKind::kReply), Bytes(992)));
  all.push_back(frame(header_of(FrameKind::kRead, 0, 0, ~std::uint64_t{0})));
  all.push_back(frame(header_of(FrameKind::kWrite, 0, 0, 100), data));
  all.push_back(frame(header_of(FrameKind::kWrite, 0, 0, 5000)));
  Bytes list;
  for (std::uint64_t i = 0; i < 5; ++i) append(list, WirePiece{i * 64, 20});
  all.push_back(frame(header_of(FrameKind::kRead, static_cast<std::uint8_t>(Shape::kList), 5, 100), list));
  list.insert(list.end(), data.begin(), data.end());
  all.push_back(frame(header_of(FrameKind::kWrite, static_cast<std::uint8_t>(Shape::kList), 5, 100), list));
  Bytes strided;
  append(strided, WireStrides{10, 2, {5, 2, 0}, {16, -100, 0}});
  all.push_back(frame(header_of(FrameKind::kRead, static_cast<std::uint8_t>(Shape::kStrided), 0, 100), strided));
  strided.insert(strided.end(), data.begin(), data.end());
  all.push_back(frame(header_of(FrameKind::kWrite, static_cast<std::uint8_t>(Shape::kStrided), 0, 100), strided));
  all.push_back(frame(header_of(FrameKind::kAtomic, 2, 8, 1), Bytes(8)));
  all.push_back(frame(header_of(FrameKind::kAck, static_cast<std::uint8_t>(Outcome::kNoRights))));
  all.push_back(frame(header_of(FrameKind::kGo)));
  all.push_back(frame(header_of(FrameKind::kHeartbeat)));
  all.push_back(frame(header_of(FrameKind::kLeave)));
  return all;
}

Parsed parse(const Bytes& bytes, Frame* parsed) {
  const char* why = nullptr;
  const Parsed result = parse_frame(bytes, kLimits, parsed, &why);
  EXPECT_EQ(result == Parsed::kBad, why != nullptr);
  return result;
}

TEST(TcpFrame, EveryTruncationWaitsForMoreAndTheWholeIsTaken) {
  for (const Bytes& whole : sound_frames()) {
    Frame parsed;
    ASSERT_EQ(parse(whole, &parsed), Parsed::kFrame);
    EXPECT_EQ(parsed.bytes, whole.size());
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      // A buffer of exactly that length, so that a sanitizer sees any byte read behind it.
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
      EXPECT_EQ(parse(cut, &parsed), Parsed::kMore);
    }
  }
}

TEST(TcpFrame, WhatBreaksARuleIsRefused) {
  const auto refused = [](const FrameHeader& header, const Bytes& body = {}) {
    Frame parsed;
    return parse(frame(header, body), &parsed) == Parsed::kBad;
  };
  const auto list = static_cast<std::uint8_t>(Shape::kList);
  const auto strided = static_cast<std::uint8_t>(Shape::kStrided);
  EXPECT_TRUE(refused(header_of(FrameKind{0})));
  EXPECT_TRUE(refused(header_of(FrameKind{12})));
  EXPECT_TRUE(refused(header_of(FrameKind{255})));
  EXPECT_TRUE(refused(header_of(FrameKind::kMessage, 0, kHandlersMax)));
  EXPECT_TRUE(refused(header_of(FrameKind::kMessage), Bytes(993)));
  FrameHeader far = header_of(FrameKind::kRpc);
  far.slot = 16;
  EXPECT_TRUE(refused(far));
  EXPECT_TRUE(refused(header_of(FrameKind::kRead, 3)));
  EXPECT_TRUE(refused(header_of(FrameKind::kRead), Bytes(8)));
  EXPECT_TRUE(refused(header_of(FrameKind::kWrite, 0, 0, 100), Bytes(99)));
  EXPECT_TRUE(refused(header_of(FrameKind::kWrite, 0, 0, 1025), Bytes(992)));
  EXPECT_TRUE(refused(header_of(FrameKind::kRead, list, kPiecesMax + 1)));
  EXPECT_TRUE(refused(header_of(FrameKind::kAtomic, 5, 8), Bytes(8)));
  EXPECT_TRUE(refused(header_of(FrameKind::kAtomic, 0, 2), Bytes(8)));
  EXPECT_TRUE(refused(header_of(FrameKind::kAtomic, 0, 8), Bytes(16)));
  EXPECT_TRUE(refused(header_of(FrameKind::kAck, 5)));
  EXPECT_TRUE(refused(header_of(FrameKind::kData, 2)));
  Bytes pieces;
  append(pieces, WirePiece{0, ~std::uint64_t{0}});
  append(pieces, WirePiece{0, 2});
  EXPECT_TRUE(refused(header_of(FrameKind::kRead, list, 2, 1), pieces)) << "a sum that overflows";
  Bytes wide;
  append(wide, WireStrides{std::uint64_t{1} << 32, 2, {std::uint64_t{1} << 31, 2, 0}, {}});
  EXPECT_TRUE(refused(header_of(FrameKind::kRead, strided, 0, 0), wide)) << "a product that overflows";
  Bytes deep;
  append(deep, WireStrides{1, 4, {}, {}});
  EXPECT_TRUE(refused(header_of(FrameKind::kRead, strided, 0, 1), deep)) << "too many levels";
  FrameHeader much = header_of(FrameKind::kData);
  much.body_bytes = kSegmentBytesMax + 1;
  Bytes bytes(kHeaderBytes);
  std::memcpy(bytes.data(), &much, kHeaderBytes);
  Frame parsed;
  EXPECT_EQ(parse(bytes, &parsed), Parsed::kBad);
}

// Takes frames as they come and keeps what they were; refuses data now and then as a transport would.
class Recorder final : public FrameSink {
 public:
  bool on_frame(const Frame& frame) override {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(frame.body) % 8, 0u);  // frame.hpp F1
    const auto* bytes = reinterpret_cast<const char*>(frame.body);
    said.push_back(std::string(1, static_cast<char>(frame.header.kind)) + std::string(bytes, frame.header.body_bytes));
    return true;
  }
  bool on_data(const FrameHeader& header, DataPlace* place) override {
    if (header.slot == kDropped) return true;
    arrived.assign(header.body_bytes, std::byte{0});
    walk = Walk(arrived.data(), arrived.size());
    *place = {&walk, header.body_bytes <= kWholeWordBytesMax};
    return true;
  }
  bool on_data_end(const FrameHeader& header) override {
    const auto* bytes = reinterpret_cast<const char*>(arrived.data());
    said.push_back(header.slot == kDropped ? "dropped" : std::string(bytes, arrived.size()));
    return true;
  }
  void refuse(const char*) override { ++refusals; }

  static constexpr std::uint32_t kDropped = 9;
  std::vector<std::string> said;
  Bytes arrived;
  Walk walk;
  int refusals = 0;
};

bool feed(Receiver& receiver, FrameSink& sink, const Bytes& stream, std::mt19937& random, std::size_t step_max) {
  for (std::size_t at = 0; at < stream.size();) {
    std::size_t room = 0;
    if (random() % 4 == 0) receiver.room(&room);  // and nothing was there
    const std::span<iovec> places = receiver.room(&room);
    std::size_t step = std::min({1 + random() % step_max, stream.size() - at, room});
    std::size_t left = step;
    for (const iovec& place : places) {
      const std::size_t here = std::min(left, place.iov_len);
      if (here != 0) std::memcpy(place.iov_base, stream.data() + at, here);
      at += here;
      left -= here;
    }
    if (!receiver.received(step, sink)) return false;
  }
  return true;
}

TEST(TcpReceiver, AnyCutOfTheStreamGivesTheSameFrames) {
  std::mt19937 random(1);
  Bytes stream;
  std::vector<std::string> expected;
  for (int i = 0; i < 60; ++i) {
    const std::size_t size = i % 3 == 0 ? random() % 30'000 : random() % 993;
    Bytes body(size);
    for (std::byte& b : body) b = static_cast<std::byte>(random());
    FrameHeader header = header_of(i % 3 == 0 ? FrameKind::kData : FrameKind::kMessage);
    if (i % 9 == 6) header.slot = Recorder::kDropped;
    const std::string text(reinterpret_cast<const char*>(body.data()), size);
    if (i % 3 != 0)
      expected.push_back(std::string(1, static_cast<char>(header.kind)) + text);
    else
      expected.push_back(i % 9 == 6 ? "dropped" : text);
    const Bytes bytes = frame(header, body);
    stream.insert(stream.end(), bytes.begin(), bytes.end());
  }
  for (const std::size_t step_max : {3u, 50u, 1000u, 20'000u, 200'000u}) {
    Receiver receiver(kLimits);
    Recorder recorder;
    ASSERT_TRUE(feed(receiver, recorder, stream, random, step_max));
    ASSERT_EQ(recorder.said, expected) << "steps of up to " << step_max;
  }
}

// Bits of sound frames flipped, bytes replaced, frames cut out: the receiver takes what it can or refuses, and touches nothing
// else (sanitizers look on).
TEST(TcpReceiver, MutatedStreamsAreTakenOrRefused) {
  const std::vector<Bytes> frames = sound_frames();
  std::mt19937 random(2);
  int refusals = 0;
  for (int round = 0; round < 20'000; ++round) {
    Bytes stream;
    for (int i = 0; i < 4; ++i) {
      const Bytes& next = frames[random() % frames.size()];
      stream.insert(stream.end(), next.begin(), next.end());
    }
    for (std::uint32_t i = 1 + random() % 4; i != 0; --i) {
      std::byte& hit = stream[random() % stream.size()];
      hit = random() % 2 == 0 ? static_cast<std::byte>(random()) : hit ^ static_cast<std::byte>(1u << random() % 8);
    }
    if (random() % 4 == 0) stream.resize(random() % stream.size());
    Receiver receiver(kLimits);
    Recorder recorder;
    if (!feed(receiver, recorder, stream, random, 700)) {
      EXPECT_EQ(recorder.refusals, 1);
      ++refusals;
    }
  }
  EXPECT_GT(refusals, 1000);
}

// --- walks ---

TEST(TcpWalk, PiecesInAnyPartsAreTheirBytesInOrder) {
  std::vector<std::byte> memory(4096);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 37 + i / 256);
  StridedParams shape;
  shape.block_bytes = 13;
  shape.levels = 3;
  shape.counts = {4, 3, 2};
  shape.remote_strides = {20, -200, 1000};
  Bytes expected;
  for (std::int64_t k = 0; k < 2; ++k)
    for (std::int64_t j = 0; j < 3; ++j)
      for (std::int64_t i = 0; i < 4; ++i)
        for (std::int64_t b = 0; b < 13; ++b)
          expected.push_back(memory[static_cast<std::size_t>(800 + i * 20 - j * 200 + k * 1000 + b)]);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < 30; ++i) pieces.push_back({0, memory.data() + i * 100 % 700, i % 4 == 1 ? 0 : i});
  Bytes listed;
  for (const Piece& piece : pieces) {
    const auto* from = static_cast<const std::byte*>(piece.local);
    listed.insert(listed.end(), from, from + piece.size_bytes);
  }
  std::mt19937 random(3);
  for (const bool whole_words : {false, true}) {
    for (int round = 0; round < 200; ++round) {
      Walk strided(memory.data() + 800, shape, shape.remote_strides, expected.size());
      Walk list(std::vector<Piece>(pieces), listed.size());
      for (auto* each : {&strided, &list}) {
        const Bytes& wanted = each == &strided ? expected : listed;
        Bytes got(wanted.size() + 8);
        const std::size_t shift = random() % 8;
        for (std::size_t at = 0; at < wanted.size();) {
          const std::size_t step = std::min<std::size_t>(1 + random() % 50, wanted.size() - at);
          gather(*each, got.data() + shift + at, step, whole_words);
          at += step;
        }
        ASSERT_EQ(each->left(), 0u);
        ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), got.begin() + static_cast<std::ptrdiff_t>(shift)));
      }
    }
  }
}

// --- send queues ---

// What the queue gives out, in order: kinds and slots, data joined.
struct Sent {
  std::vector<std::pair<FrameKind, std::uint32_t>> frames;
  std::size_t batches = 0;
};
// A connection that takes `step` bytes at a time, and whether it is full then.
Sent drain(SendQueue& queue, std::size_t step, bool is_full_then = false) {
  Sent sent;
  Bytes stream;
  while (queue.compose()) {
    const std::span<iovec> batch = queue.batch();
    std::size_t bytes = 0;
    for (const iovec& part : batch) {
      const std::size_t here = std::min(part.iov_len, step - bytes);
      const auto* from = static_cast<const std::byte*>(part.iov_base);
      stream.insert(stream.end(), from, from + here);
      bytes += here;
    }
    queue.advance(bytes);
    if (is_full_then) queue.cut();
    ++sent.batches;
  }
  for (std::size_t at = 0; at < stream.size();) {
    FrameHeader header;
    std::memcpy(&header, stream.data() + at, kHeaderBytes);
    sent.frames.emplace_back(header.kind, header.slot);
    at += frame_bytes(header.body_bytes);
  }
  return sent;
}

FrameHeader request(FrameKind kind, std::uint32_t slot) {
  FrameHeader header;
  header.kind = kind;
  header.slot = slot;
  return header;
}

TEST(TcpSendQueue, LongTransfersTakeTurnsAndShortFramesOvertakeThem) {
  SendQueue queue(64 * 1024, 64 * 1024);
  Bytes large(3 * kSegmentBytesMax);
  for (const std::uint32_t slot : {1u, 2u}) {
    ASSERT_NE(queue.push_request(request(FrameKind::kWrite, slot), true), nullptr);
    queue.push_bulk({Way::kToTarget, slot, slot, 0, Walk(large.data(), large.size())});
  }
  ASSERT_TRUE(queue.compose());
  ASSERT_NE(queue.push_request(request(FrameKind::kMessage, 9), false), nullptr);
  const Sent sent = drain(queue, 100'000, true);
  const std::vector<std::pair<FrameKind, std::uint32_t>> expected = {
      {FrameKind::kWrite, 1},   {FrameKind::kWrite, 2}, {FrameKind::kData, 1},
      {FrameKind::kMessage, 9}, {FrameKind::kData, 2},  {FrameKind::kData, 1},
      {FrameKind::kData, 2},    {FrameKind::kData, 1},  {FrameKind::kData, 2}};
  EXPECT_EQ(sent.frames, expected);
  EXPECT_FALSE(queue.waits_bulk(1) || queue.batch_holds(1));
  EXPECT_TRUE(queue.idle());
}

TEST(TcpSendQueue, ABatchHasManySegmentsAndEndsBehindATransfer) {
  SendQueue queue(64 * 1024, 64 * 1024);
  Bytes large(3 * kSegmentBytesMax);
  for (const std::uint32_t slot : {1u, 2u})
    queue.push_bulk({Way::kToOrigin, slot, slot, 0, Walk(large.data(), large.size() / slot)});
  EXPECT_EQ(queue.bulk_to_origin(), 2u);
  const auto batch_bytes = [&] {
    EXPECT_TRUE(queue.compose());
    std::size_t bytes = 0;
    for (const iovec& part : queue.batch()) bytes += part.iov_len;
    return bytes;
  };
  EXPECT_EQ(batch_bytes(), 3 * (kSegmentBytesMax + kHeaderBytes) + kSegmentBytesMax / 2 + kHeaderBytes);  // 1, 2, 1, 2
  EXPECT_EQ(queue.bulk_to_origin(), 1u);
  queue.cut();  // of which none has begun
  EXPECT_EQ(queue.bulk_to_origin(), 2u);
  EXPECT_TRUE(queue.batch().empty() && !queue.idle());
  queue.advance(batch_bytes());
  EXPECT_EQ(batch_bytes(), kSegmentBytesMax + kHeaderBytes);
  EXPECT_EQ(queue.bulk_to_origin(), 0u);
  EXPECT_FALSE(queue.idle());
  queue.advance(kSegmentBytesMax + kHeaderBytes);
  EXPECT_TRUE(queue.idle());
}

// The connection takes exactly what one segment needs, and is full: nothing is forgotten, and a gathered transfer has its turn.
TEST(TcpSendQueue, ACutAtTheEndOfASegmentEndsTheBatch) {
  SendQueue queue(64 * 1024, 64 * 1024);
  Bytes large(3 * kSegmentBytesMax);
  queue.push_bulk({Way::kToOrigin, 1, 1, 0, Walk(large.data(), large.size())});
  ASSERT_TRUE(queue.compose());
  std::vector<Piece> pieces{{0, large.data(), 30'000}, {0, large.data() + 50'000, 30'000}};
  queue.push_bulk({Way::kToOrigin, 2, 2, 0, Walk(std::move(pieces), 60'000)});
  queue.advance(kHeaderBytes + kSegmentBytesMax);
  queue.cut();
  EXPECT_FALSE(queue.idle());
  using Frames = std::vector<std::pair<FrameKind, std::uint32_t>>;
  const auto data = [](std::uint32_t slot) { return std::pair{FrameKind::kData, slot}; };
  EXPECT_EQ(drain(queue, kHeaderBytes + kSegmentBytesMax, true).frames, (Frames{data(2), data(1), data(1)}));
  EXPECT_TRUE(queue.idle());
  EXPECT_EQ(queue.bulk_to_origin(), 0u);
}

TEST(TcpSendQueue, MessagesAreHandedOverWithTheirLastByte) {
  SendQueue queue(64 * 1024, 64 * 1024);
  Bytes large(kSegmentBytesMax);
  for (const std::uint64_t serial : {7u, 8u})
    queue.push_bulk({Way::kToTarget, 3, serial, 0, Walk(large.data(), large.size()), false, true});
  queue.push_bulk({Way::kToTarget, 4, 9, 0, Walk(large.data(), large.size())});  // a write
  for (const std::uint64_t serial : {7u, 8u}) {
    ASSERT_TRUE(queue.compose());
    queue.advance(kHeaderBytes + kSegmentBytesMax - 1);
    EXPECT_TRUE(queue.handed_over().empty());
    EXPECT_FALSE(queue.take_handed_over(serial));
    queue.advance(1);
    ASSERT_EQ(queue.handed_over().size(), 1u);
    EXPECT_EQ(queue.handed_over()[0].slot, 3u);
    EXPECT_TRUE(queue.take_handed_over(serial));
    EXPECT_FALSE(queue.take_handed_over(serial));
  }
  drain(queue, 1'000'000);
  EXPECT_TRUE(queue.handed_over().empty());
}

// Whatever the connection takes, and whenever it is full: each transfer's bytes arrive in order and all of them, and requests
// behind fences after the data before those.
TEST(TcpSendQueue, AnyPaceCarriesEveryByteInOrder) {
  struct Transfer {
    Bytes data;
    std::uint64_t arrived = 0;
    std::uint64_t epoch = ~std::uint64_t{0};  // of a write
  };
  constexpr std::uint32_t kSegmentBytes = 4096;
  std::mt19937_64 random(5);
  std::uint64_t cuts = 0, in_one = 0;
  for (int round = 0; round < 200; ++round) {
    SendQueue queue(1 << 20, 1 << 20, kSegmentBytes, 1 + random() % SendQueue::kSegmentsMax);
    std::vector<std::unique_ptr<Transfer>> transfers;
    std::uint64_t epochs = 0;
    Bytes stream;
    const auto push = [&] {
      const auto slot = static_cast<std::uint32_t>(transfers.size());
      Transfer& made = *transfers.emplace_back(std::make_unique<Transfer>());
      made.data.resize(1 + random() % (6 * kSegmentBytes));
      for (std::byte& each : made.data) each = static_cast<std::byte>(random());
      if (random() % 4 == 0) {
        queue.push_bulk({Way::kToOrigin, slot, slot + 1, 0, Walk(made.data.data(), made.data.size())});
        return;
      }
      if (random() % 4 == 0) {
        queue.fence();
        ++epochs;
      }
      made.epoch = epochs;
      ASSERT_NE(queue.push_request(request(FrameKind::kWrite, slot), true), nullptr);
      if (random() % 4 == 0) {
        std::vector<Piece> pieces;
        for (std::size_t at = 0; at < made.data.size();) {
          const std::size_t bytes = std::min<std::size_t>(1 + random() % 3000, made.data.size() - at);
          pieces.push_back({0, made.data.data() + at, bytes});
          at += bytes;
        }
        const std::uint64_t bytes = made.data.size();
        queue.push_bulk({Way::kToTarget, slot, slot + 1, 0, Walk(std::move(pieces), bytes)});
      } else {
        queue.push_bulk({Way::kToTarget, slot, slot + 1, 0, Walk(made.data.data(), made.data.size())});
      }
    };
    while (transfers.size() < 12 || !queue.idle()) {
      if (transfers.size() < 12 && random() % 3 == 0) push();
      if (!queue.compose()) continue;
      // Often to the end of a segment, too.
      std::size_t here = 1 + random() % (2 * kSegmentBytes), bytes = 0;
      if (random() % 3 == 0 && !queue.batch().empty()) here = queue.batch()[0].iov_len;
      in_one += queue.batch().size() > SendQueue::kPartsOfOneSegmentMax;
      for (const iovec& part : queue.batch()) {
        const std::size_t taken = std::min(part.iov_len, here);
        const auto* from = static_cast<const std::byte*>(part.iov_base);
        stream.insert(stream.end(), from, from + taken);
        here -= taken;
        bytes += taken;
      }
      queue.advance(bytes);
      if (random() % 2 == 0) {
        const std::size_t parts = queue.batch().size();
        queue.cut();
        cuts += queue.batch().size() != parts;
      }
    }
    EXPECT_EQ(queue.bulk_to_origin(), 0u);
    std::vector<std::uint64_t> announced;
    for (std::size_t at = 0; at < stream.size();) {
      FrameHeader header;
      std::memcpy(&header, stream.data() + at, kHeaderBytes);
      ASSERT_LT(header.slot, transfers.size());
      Transfer& of = *transfers[header.slot];
      if (header.kind == FrameKind::kWrite) {
        for (const auto& each : transfers) {
          if (each->epoch < of.epoch) {
            ASSERT_EQ(each->arrived, each->data.size());
          }
        }
      } else {
        ASSERT_EQ(header.kind, FrameKind::kData);
        ASSERT_EQ(header.serial, header.slot + 1);
        ASSERT_EQ(header.offset, of.arrived);
        ASSERT_LE(header.offset + header.body_bytes, of.data.size());
        ASSERT_EQ(std::memcmp(stream.data() + at + kHeaderBytes, of.data.data() + of.arrived, header.body_bytes), 0);
        of.arrived += header.body_bytes;
      }
      at += frame_bytes(header.body_bytes);
    }
    for (const auto& each : transfers) ASSERT_EQ(each->arrived, each->data.size());
  }
  EXPECT_GT(cuts, 100u);
  EXPECT_GT(in_one, 100u);
}

TEST(TcpSendQueue, AFenceHoldsWhatFollowsUntilLongTransfersAreOver) {
  SendQueue queue(64 * 1024, 64 * 1024);
  Bytes large(2 * kSegmentBytesMax);
  queue.fence();  // nothing to wait for
  ASSERT_NE(queue.push_request(request(FrameKind::kRead, 1), true), nullptr);
  ASSERT_NE(queue.push_request(request(FrameKind::kWrite, 2), true), nullptr);
  queue.push_bulk({Way::kToTarget, 2, 2, 0, Walk(large.data(), large.size())});
  queue.fence();
  ASSERT_NE(queue.push_request(request(FrameKind::kMessage, 3), false), nullptr);
  ASSERT_NE(queue.push_request(request(FrameKind::kWrite, 4), true), nullptr);
  queue.push_bulk({Way::kToTarget, 4, 4, 0, Walk(large.data(), 2000)});
  EXPECT_TRUE(queue.waits_bulk(4));
  queue.fence();
  ASSERT_NE(queue.push_request(request(FrameKind::kMessage, 5), false), nullptr);
  ASSERT_NE(queue.push_reply(request(FrameKind::kAck, 6)), nullptr);  // replies never wait
  using Frames = std::vector<std::pair<FrameKind, std::uint32_t>>;
  EXPECT_EQ(drain(queue, 1'000'000).frames, (Frames{{FrameKind::kAck, 6},
                                                    {FrameKind::kRead, 1},
                                                    {FrameKind::kWrite, 2},
                                                    {FrameKind::kData, 2},
                                                    {FrameKind::kData, 2}}));
  queue.end_bulk();  // the read has completed
  EXPECT_EQ(
      drain(queue, 1'000'000).frames,
      (Frames{{FrameKind::kMessage, 3}, {FrameKind::kWrite, 4}, {FrameKind::kData, 4}, {FrameKind::kMessage, 5}}));
  EXPECT_TRUE(queue.idle());
}

TEST(TcpSendQueue, RequestsAreBoundedAndOneAlwaysFits) {
  SendQueue queue(1000, 1000);
  FrameHeader longest = request(FrameKind::kMessage, 0);
  longest.body_bytes = 5000;
  EXPECT_NE(queue.push_request(longest, false), nullptr);
  EXPECT_EQ(queue.push_request(request(FrameKind::kMessage, 1), false), nullptr);
  EXPECT_EQ(queue.push_reply(longest), nullptr);
  EXPECT_NE(queue.push_reply(request(FrameKind::kAck, 1)), nullptr);
  EXPECT_EQ(drain(queue, 77).frames.size(), 2u);
  EXPECT_NE(queue.push_request(request(FrameKind::kMessage, 1), false), nullptr);
}

}  // namespace
}  // namespace ayatori::net::served
