// SPDX-License-Identifier: Apache-2.0
// What the ucx transport adds to the served ones (net/ucx/*.hpp): batches in any order, messages of strangers, devices that are
// not there, control connections that talk nonsense, a peer whose batches stop making sense.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "net/tcp/stream.hpp"
#include "net/ucx/control.hpp"
#include "net/ucx/inbox.hpp"
#include "net/ucx/wire.hpp"
#include "tcp_raw_peer.hpp"
#include "ucx_harness.hpp"

namespace ayatori::net::testing {
namespace {

using served::FrameHeader;
using served::FrameKind;
using ucx::BatchHeader;
using ucx::Inbox;

constexpr served::FrameLimits kLimits{992, 1024, 16};

RawBytes frame(FrameHeader header, const RawBytes& body = {}) {
  header.body_bytes = static_cast<std::uint32_t>(body.size());
  RawBytes bytes(served::frame_bytes(body.size()));
  std::memcpy(bytes.data(), &header, served::kHeaderBytes);
  std::copy(body.begin(), body.end(), bytes.begin() + served::kHeaderBytes);
  return bytes;
}

RawBytes message(std::uint64_t number) {
  FrameHeader header;
  header.kind = FrameKind::kMessage;
  RawBytes body(sizeof number);
  std::memcpy(body.data(), &number, sizeof number);
  return frame(header, body);
}

// Takes down messages in order, and data into a box.
struct Sink final : served::FrameSink {
  bool on_frame(const served::Frame& frame) override {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(frame.body) % 8, 0u);
    std::uint64_t number = 0;
    if (frame.header.body_bytes == sizeof number) std::memcpy(&number, frame.body, sizeof number);
    heard.push_back(number);
    return true;
  }
  bool on_data(const FrameHeader& header, served::DataPlace* place) override {
    box.assign(header.body_bytes, std::byte{0});
    walk = served::Walk(box.data(), box.size());
    *place = {&walk, header.body_bytes <= kWholeWordBytesMax};
    return true;
  }
  bool on_data_end(const FrameHeader&) override { return ++boxes, true; }
  void refuse(const char* why) override { refusal = why; }

  std::vector<std::uint64_t> heard;
  RawBytes box;
  served::Walk walk;
  int boxes = 0;
  const char* refusal = nullptr;
};

// --- batches ---

TEST(UcxInbox, BatchesAreServedInOrderHoweverTheyArrive) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::uint64_t> numbers(Inbox::kEarlyMax);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
    std::shuffle(numbers.begin(), numbers.end(), random);
    Inbox inbox(kLimits);
    Sink sink;
    for (const std::uint64_t number : numbers) ASSERT_TRUE(inbox.take(number, {message(number)}, sink)) << sink.refusal;
    ASSERT_EQ(sink.heard.size(), numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(sink.heard[i], i);
    ASSERT_EQ(inbox.taken(), numbers.size());
  }
}

TEST(UcxInbox, ABatchThatWasCutBetweenFramesIsServedWhole) {
  Inbox inbox(kLimits);
  Sink sink;
  ASSERT_TRUE(inbox.take(1, {message(1), message(2)}, sink)) << sink.refusal;  // early: kept with its cut
  ASSERT_TRUE(inbox.take(0, {{}, message(0)}, sink)) << sink.refusal;
  EXPECT_EQ(sink.heard, (std::vector<std::uint64_t>{0, 1, 2}));
}

TEST(UcxInbox, BatchesTwiceOrTooEarlyAreRefused) {
  Sink sink;
  Inbox again(kLimits);
  ASSERT_TRUE(again.take(0, {message(0)}, sink));
  EXPECT_FALSE(again.take(0, {message(0)}, sink));
  ASSERT_TRUE(again.take(5, {message(5)}, sink));
  EXPECT_FALSE(again.take(5, {message(5)}, sink));
  Inbox many(kLimits);
  for (std::uint64_t i = 1; i <= Inbox::kEarlyMax; ++i) ASSERT_TRUE(many.take(i, {message(i)}, sink));
  EXPECT_FALSE(many.take(Inbox::kEarlyMax + 1, {message(0)}, sink));
  Inbox large(kLimits);
  EXPECT_FALSE(large.take(1, {RawBytes(Inbox::kEarlyBytesMax + 1)}, sink));
  EXPECT_TRUE(large.take(0, {message(0)}, sink));
}

// Frames and data of all lengths in one batch, which begins at any address.
TEST(UcxInbox, FramesAndDataOfOneBatchAreTakenFromAnyAddress) {
  for (std::size_t shift = 0; shift < 8; ++shift) {
    for (const std::size_t length : {1, 7, 8, 1000, 5000}) {
      FrameHeader data;
      data.kind = FrameKind::kData;
      RawBytes body(length);
      for (std::size_t i = 0; i < length; ++i) body[i] = static_cast<std::byte>(i * 37 + length);
      RawBytes batch(shift);
      for (const RawBytes& part : {message(1), frame(data, body), message(2)})
        batch.insert(batch.end(), part.begin(), part.end());
      Inbox inbox(kLimits);
      Sink sink;
      ASSERT_TRUE(inbox.take(0, {std::span<const std::byte>(batch).subspan(shift)}, sink)) << sink.refusal;
      ASSERT_EQ(sink.heard, (std::vector<std::uint64_t>{1, 2}));
      ASSERT_EQ(sink.boxes, 1);
      ASSERT_EQ(sink.box, body);
    }
  }
}

TEST(UcxInbox, TheLastDataOfABatchMayComeApartWithoutItsPadding) {
  FrameHeader data;
  data.kind = FrameKind::kData;
  for (const std::size_t length : {1, 7, 8, 1001}) {
    const RawBytes body(length, std::byte{5});
    RawBytes head = message(1);
    const RawBytes begin = frame(data, body);
    head.insert(head.end(), begin.begin(), begin.begin() + served::kHeaderBytes);
    Inbox inbox(kLimits);
    Sink sink;
    ASSERT_TRUE(inbox.take(1, {head, body}, sink)) << sink.refusal;  // early: kept with its cut
    ASSERT_TRUE(inbox.take(0, {head, body}, sink)) << sink.refusal;
    EXPECT_EQ(sink.boxes, 2);
    EXPECT_EQ(sink.box, body);
    EXPECT_FALSE(inbox.take(2, {head, std::span(body).first(length - 1)}, sink));
  }
}

TEST(UcxInbox, CutBatchesAndStrangeHeadersAreRefused) {
  FrameHeader data;
  data.kind = FrameKind::kData;
  for (const RawBytes& whole : {message(1), frame(data, RawBytes(100))}) {
    for (std::size_t cut = 1; cut < whole.size(); ++cut) {
      Inbox inbox(kLimits);
      Sink sink;
      EXPECT_FALSE(inbox.take(0, {std::span(whole).first(cut)}, sink));
      EXPECT_NE(sink.refusal, nullptr);
      EXPECT_TRUE(sink.heard.empty());
    }
  }
  BatchHeader header{1, 2, 3, 0}, parsed;
  const auto bytes = std::as_bytes(std::span(&header, 1));
  EXPECT_TRUE(ucx::parse_batch_header(bytes, 4, &parsed));
  EXPECT_EQ(parsed.number, 2u);
  EXPECT_FALSE(ucx::parse_batch_header(bytes, 3, &parsed));
  EXPECT_FALSE(ucx::parse_batch_header(bytes.first(sizeof header - 1), 4, &parsed));
  EXPECT_FALSE(ucx::parse_batch_header({}, 4, &parsed));
}

// --- UCX itself ---

// Keeps what arrives.
struct Kept final : ucx::Arrivals {
  void on_batch(const ucx::Batch& batch) override {
    RawBytes whole(batch.head.begin(), batch.head.end());
    whole.insert(whole.end(), batch.rest.begin(), batch.rest.end());
    batches.push_back(std::move(whole));
  }
  std::deque<RawBytes> batches;
};

// A receiver that does not look for a while, so that the socket takes batches in part; parts of all lengths.
TEST(UcxWire, BatchesArriveWholeHoweverTheyWent) {
  if (const char* why = UcxTcp::missing()) GTEST_SKIP() << why;
  std::array<std::unique_ptr<ucx::Wire>, 2> wires;
  std::array<Kept, 2> kept;
  for (std::unique_ptr<ucx::Wire>& wire : wires) ASSERT_TRUE(ucx::Wire::open({2, "lo", "tcp"}, &wire).ok());
  const auto progress = [&] {
    for (std::size_t i = 0; i < 2; ++i) wires[i]->progress(kept[i]);
  };
  const RawBytes hello(24);
  for (std::size_t i = 0; i < 2; ++i) {  // wire.hpp L7
    ASSERT_EQ(wires[i]->connect(static_cast<ProcessId>(1 - i), wires[1 - i]->address()), nullptr);
    while (wires[i]->greet(static_cast<ProcessId>(1 - i), hello) == ucx::Wire::Sent::kNoRoom) progress();
  }
  while (kept[0].batches.empty() || kept[1].batches.empty()) progress();
  kept[1].batches.clear();

  std::mt19937 random(11);
  std::deque<RawBytes> sent;
  for (int round = 0; round < 50; ++round) {
    ucx::Wire::Sent result = ucx::Wire::Sent::kDone;
    while (result == ucx::Wire::Sent::kDone) {
      std::vector<RawBytes> pieces(1 + random() % 4);
      for (RawBytes& piece : pieces) piece.resize(8 * (1 + random() % (random() % 4 == 0 ? 8192 : 64)));
      if (random() % 2 != 0) pieces.back().resize(8 + random() % (256 << 10));
      std::vector<iovec> parts;
      RawBytes whole;
      for (RawBytes& piece : pieces) {
        for (std::byte& byte : piece) byte = static_cast<std::byte>(1 + random() % 255);
        parts.push_back({piece.data(), piece.size()});
        whole.insert(whole.end(), piece.begin(), piece.end());
      }
      result = wires[0]->send(1, parts);
      ASSERT_NE(result, ucx::Wire::Sent::kFailed) << wires[0]->trouble(1);
      sent.push_back(std::move(whole));
    }
    while (kept[1].batches.size() < sent.size()) progress();
    wires[0]->take_sent();
    for (std::size_t i = 0; i < sent.size(); ++i)
      ASSERT_TRUE(std::equal(sent[i].begin(), sent[i].end(), kept[1].batches[i].begin(), kept[1].batches[i].end()))
          << "round " << round << ", batch " << i << " of " << sent[i].size() << " bytes";
    sent.clear();
    kept[1].batches.clear();
  }
}

// --- control connections ---

struct Pair {
  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    here = tcp::Socket(ends[0]);
    there = tcp::Socket(ends[1]);
  }
  tcp::Socket here, there;
};

TEST(UcxControl, CardsAreExchangedAndOtherThingsAreNot) {
  constexpr std::int64_t kLimitNs = 300'000'000;
  const RawBytes address(3000, std::byte{7});
  Pair good, silent, closed, junk;
  std::vector<tcp::Socket> sockets(5);  // the first is this process
  sockets[1] = std::move(good.here);
  sockets[2] = std::move(silent.here);
  sockets[3] = std::move(closed.here);
  sockets[4] = std::move(junk.here);
  closed.there.close();
  raw_send(junk.there, RawBytes(64, std::byte{0xff}));
  std::vector<ucx::Card> mine;
  for (std::uint64_t p = 0; p < 5; ++p) mine.push_back({p, address});
  std::thread peer([&good, &address] {
    std::vector<tcp::Socket> back(2);
    back[0] = std::move(good.there);
    const auto cards = ucx::exchange_cards(back, {{77, address}, {78, address}}, 10 * kLimitNs);
    EXPECT_EQ(cards[0].token, 1u);
    EXPECT_EQ(cards[0].address, address);
  });
  const std::vector<ucx::Card> theirs = ucx::exchange_cards(sockets, mine, kLimitNs);
  peer.join();
  EXPECT_TRUE(sockets[1]);
  EXPECT_EQ(theirs[1].token, 77u);
  EXPECT_EQ(theirs[1].address, address);
  for (std::size_t p = 2; p < 5; ++p) {
    EXPECT_FALSE(sockets[p]) << p;
    EXPECT_TRUE(theirs[p].address.empty()) << p;
  }
}

TEST(UcxControl, LinesCarryHeartbeatsLeavesAndDataAndNothingElse) {
  Pair pair;
  tcp::Receiver receiver(kLimits);
  Sink sink;
  ucx::LineSink line(sink);
  const auto receive = [&] { return tcp::receive_some(pair.there.fd(), receiver, line); };
  EXPECT_EQ(receive().bytes, 0u);
  FrameHeader header;
  header.kind = FrameKind::kHeartbeat;
  raw_send(pair.here, frame(header));
  FrameHeader data;
  data.kind = FrameKind::kData;
  raw_send(pair.here, frame(data, RawBytes(5000, std::byte{3})));
  EXPECT_EQ(receive().bytes, 2 * served::kHeaderBytes + 5000);
  EXPECT_EQ(sink.boxes, 1);
  EXPECT_EQ(sink.box, RawBytes(5000, std::byte{3}));
  EXPECT_EQ(line.leave(), nullptr);
  header.kind = FrameKind::kLeave;
  header.serial = 12;
  raw_send(pair.here, frame(header));
  EXPECT_EQ(receive().broken, nullptr);
  ASSERT_NE(line.leave(), nullptr);
  EXPECT_EQ(line.leave()->serial, 12u);
  EXPECT_EQ(sink.refusal, nullptr);
  raw_send(pair.here, frame(data, RawBytes(8)));
  receive();
  EXPECT_STREQ(sink.refusal, "data behind a leave");
  EXPECT_EQ(sink.boxes, 1);
  EXPECT_TRUE(sink.heard.empty());
  pair.here.close();
  EXPECT_NE(receive().broken, nullptr);
}

TEST(UcxControl, LinesCarryNoRequests) {
  for (const FrameKind kind : {FrameKind::kMessage, FrameKind::kGo, FrameKind::kAck}) {
    Pair pair;
    tcp::Receiver receiver(kLimits);
    Sink sink;
    ucx::LineSink line(sink);
    FrameHeader header;
    header.kind = kind;
    raw_send(pair.here, frame(header));
    tcp::receive_some(pair.there.fd(), receiver, line);
    EXPECT_STREQ(sink.refusal, "a frame that does not belong on a control connection");
    EXPECT_TRUE(sink.heard.empty());
  }
}

// --- connections ---

// Everybody has something for everybody as soon as the job stands, and one is killed in the midst of it: at every stage of
// some connection (net/ucx/transport.hpp U5).
TEST(Ucx, ADeathWhileConnectionsAreMadeEndsRequestsAndNothingElse) {
  if (const char* why = UcxTcp::missing()) GTEST_SKIP() << why;
  for (std::uint64_t round = 0; round < 12; ++round) {
    UcxTcp::Forks::run(
        {5, false, 40 + round}, [](Context&) {},
        [round](Context& c) {
          const ProcessId n = c.net.processes();
          const ProcessId dead = static_cast<ProcessId>(round) % n;
          std::deque<Event> events(static_cast<std::size_t>(n));
          for (ProcessId k = 1; k < n; ++k) {
            const ProcessId to = (c.net.self() + k) % n;
            const Callback done = events[static_cast<std::size_t>(to)].callback();
            until_taken(c.net,
                        [&] { return c.net.try_atomic_async({to, c.at(to, 0), AtomicOp::kFetchAdd, 1, 0, done}); });
            if (c.net.self() == dead && static_cast<std::uint64_t>(k) == 1 + round % 4) c.die();
          }
          for (ProcessId to = 0; to < n; ++to) {
            if (to == c.net.self()) continue;
            const Outcome outcome = events[static_cast<std::size_t>(to)].wait(c.net).outcome;
            EXPECT_TRUE(outcome == Outcome::kOk || outcome == Outcome::kPeerFailed);  // it may have left
          }
          EXPECT_EQ(barrier(c.net).outcome, Outcome::kPeerFailed);
        });
  }
}

// Where UCX has nothing but TCP, long data goes by the lines; and not where it has something better, or is told otherwise.
template <class Wire>
std::uint64_t bytes_by_lines() {
  std::atomic<std::uint64_t> by_lines{0};
  std::vector<std::byte> memory_of[2];
  for (auto& memory : memory_of) memory.assign(1'000'000, std::byte{1});
  Wire::Threads::run(
      {2, false, 5}, [&](Context& c) { c.net.register_memory(memory_of[c.net.self()].data(), 1'000'000, kAllRights); },
      [&](Context& c) {
        std::vector<std::byte> local(1'000'000, std::byte{2});
        const RemoteAddress there{1 - c.net.self(), 1, 0};
        ASSERT_TRUE(write(c.net, there, local.data(), local.size()).ok());
        ASSERT_TRUE(read(c.net, there, local.data(), local.size()).ok());
        barrier(c.net);
        by_lines += dynamic_cast<ucx::UcxTransport&>(c.net).bytes_by_lines();
      });
  return by_lines;
}
TEST(Ucx, LongDataGoesByTheLinesWhereUcxHasOnlyTcp) {
  if (const char* why = UcxTcp::missing()) GTEST_SKIP() << why;
  EXPECT_GE(bytes_by_lines<UcxTcp>(), 3'000'000u);
  EXPECT_LT(bytes_by_lines<UcxTcpOnly>(), 10'000u);
  EXPECT_LT(UcxShm::missing() == nullptr ? bytes_by_lines<UcxShm>() : 0, 10'000u);
}

// --- what is not there ---

base::Status create(const std::string& devices, const std::string& transports) {
  ucx::UcxConfig config;
  config.addresses.resize(1);
  config.devices = devices;
  config.transports = transports;
  std::unique_ptr<ucx::UcxTransport> transport;
  return ucx::UcxTransport::create(std::move(config), &transport);
}

TEST(Ucx, DevicesThatAreNotThereAreAnErrorThatNamesThem) {
  for (const std::string& devices : {std::string("nosuch0"), std::string("lo,nosuch0:1"), std::string("lo,"),
                                     std::string("../lo"), std::string("all")}) {
    const base::Status status = create(devices, "");
    EXPECT_FALSE(status.ok()) << devices;
    EXPECT_NE(status.message().find("UCX_NET_DEVICES"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("lo"), std::string::npos) << status.message();
  }
  EXPECT_NE(create("nosuch0", "").message().find("'nosuch0'"), std::string::npos);
  setenv("UCX_NET_DEVICES", "nosuch1", 1);
  EXPECT_NE(create("", "").message().find("'nosuch1'"), std::string::npos);
  unsetenv("UCX_NET_DEVICES");
}

TEST(Ucx, TransportsThatAreNotThereAreAnError) {
  if (const char* why = UcxTcp::missing()) GTEST_SKIP() << why;
  const base::Status status = create("lo", "nosuchtransport");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("nosuchtransport"), std::string::npos) << status.message();
}

TEST(Ucx, WithoutUcxTheErrorNamesThePackage) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "UCX may be here, and ThreadSanitizer does not run with it";
#endif
  const base::Status status = create("lo", "");
  if (status.ok()) GTEST_SKIP() << "UCX is here";
  EXPECT_NE(status.message().find("libucx"), std::string::npos) << status.message();
}

// UCX, once loaded, has left this process' signals as they were: the library's page faults come by them.
TEST(Ucx, SignalsAreLeftAlone) {
  if (const char* why = UcxTcp::missing()) GTEST_SKIP() << why;
  struct sigaction before[4], after[4];
  const int signals[4] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  for (int i = 0; i < 4; ++i) sigaction(signals[i], nullptr, &before[i]);
  ASSERT_TRUE(create("lo", "tcp").ok());
  for (int i = 0; i < 4; ++i) {
    sigaction(signals[i], nullptr, &after[i]);
    EXPECT_EQ(before[i].sa_handler, after[i].sa_handler) << signals[i];
  }
  EXPECT_EQ(getenv("UCX_ERROR_SIGNALS"), nullptr);
}

// Nor has it patched what manages memory in the C library: it would see every mapping of the space change hands, and its own
// use of brk() beside malloc's has cut the heap under other threads (once in 300 starts of UCX 1.13).
TEST(Ucx, TheCLibraryIsLeftAlone) {
  if (const char* why = UcxTcp::missing()) GTEST_SKIP() << why;
  const auto code = [] {
    std::vector<std::byte> all;
    for (const char* name : {"mmap", "munmap", "mremap", "madvise", "brk", "sbrk", "shmat", "shmdt"}) {
      const auto* at = static_cast<const std::byte*>(dlsym(RTLD_NEXT, name));
      EXPECT_NE(at, nullptr) << name;
      all.insert(all.end(), at, at + 16);
    }
    return all;
  };
  const std::vector<std::byte> before = code();
  ASSERT_TRUE(create("lo", "tcp").ok());
  EXPECT_EQ(before, code());
  EXPECT_EQ(getenv("UCX_MEM_EVENTS"), nullptr);
}

}  // namespace
}  // namespace ayatori::net::testing
