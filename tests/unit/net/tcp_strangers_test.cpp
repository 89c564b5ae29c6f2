// SPDX-License-Identifier: Apache-2.0
// Who does not know the job's secret gets nowhere (net/tcp/mesh.hpp), and who knows it but is broken harms only himself
// (net/served/serve.hpp): over real sockets.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <string_view>
#include <thread>

#include "base/log.hpp"
#include "served_harness.hpp"
#include "tcp_raw_peer.hpp"

namespace ayatori::net::testing {
namespace {

using served::FrameHeader;
using served::FrameKind;
using tcp::Handshake;

#ifndef __SANITIZE_THREAD__
// What the members of a forked job count for their parent.
struct Tally {
  std::atomic<int> gate{0};
  std::atomic<int> reports{0};  // log lines about dropped connections
  std::atomic<int> ready{0};    // members past start()
  std::atomic<int> done{0};     // leave for the members to end
};
Tally* tally = nullptr;

void map_tally() {
  void* memory = mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  tally = new (memory) Tally;
}

void count_reports(base::LogLevel, std::string_view line) {
  if (line.find("dropped a connection") != std::string_view::npos) tally->reports.fetch_add(1);
}

void expect_hung_up(const tcp::Socket& socket, const char* who) {
  EXPECT_LE(raw_receive(socket, sizeof(tcp::Hello) + 1).size(), sizeof(tcp::Hello)) << who << " heard a proof";
}

// The connector's bytes of a handshake that succeeded.
RawBytes recorded_call(const tcp::JobTerms& terms, const tcp::Secret& secret, ProcessId from, ProcessId to) {
  Handshake caller(Handshake::Role::kConnector, terms, secret, from, to);
  Handshake called(Handshake::Role::kAcceptor, terms, secret, to, -1);
  const auto carry = [](Handshake& sender, Handshake& receiver) {
    const auto out = sender.to_send();
    const RawBytes bytes(out.begin(), out.end());
    std::memcpy(receiver.to_receive().data(), bytes.data(), bytes.size());
    receiver.received(bytes.size());
    sender.sent(bytes.size());
    return bytes;
  };
  RawBytes record = carry(caller, called);
  carry(called, caller);
  const RawBytes proof = carry(caller, called);
  EXPECT_EQ(called.state(), Handshake::State::kProved);
  record.insert(record.end(), proof.begin(), proof.end());
  return record;
}

// While processes 1 and 2 wait for process 0, strangers of all kinds call them; then process 0 is let go and the job runs as
// if nothing had been. Each process reported one of them. Afterwards no port is open.
TEST(TcpStrangers, KnockingWhileAJobStartsHarmsNobody) {
  map_tally();
  TcpJob job({3, false, 77});
  job.config().handshake_timeout_ns = 300'000'000;
  job.config().start_timeout_ns = 90'000'000'000;
  const tcp::TcpConfig known = job.config();
  std::vector<pid_t> members;
  for (ProcessId p = 0; p < 3; ++p) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      alarm(kLimitSeconds);
      base::set_log_sink(count_reports);
      tcp::TcpConfig mine = job.take(p);
      job.close_listeners();
      while (p == 0 && tally->gate.load() == 0) usleep(1000);
      run_member<TcpWire>(
          std::move(mine), 1, [] {}, [](Context&) {},
          [](Context& c) {
            tally->ready.fetch_add(1);
            for (int i = 0; i < 100; ++i) EXPECT_TRUE(barrier(c.net).ok());
            wait_until(c.net, [] { return tally->done.load() != 0; });
          });
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    members.push_back(pid);
  }
  job.close_listeners();

  const tcp::JobTerms terms = tcp::terms_of(known);
  for (const ProcessId target : {1, 2}) {
    const tcp::SocketAddress& address = known.addresses[static_cast<std::size_t>(target)];
    const tcp::Socket junk = raw_connect(address);
    ASSERT_TRUE(junk);
    raw_send(junk, RawBytes(100'000, std::byte{0x5A}));
    expect_hung_up(junk, "junk");

    const tcp::Socket silent = raw_connect(address);
    const tcp::Socket half = raw_connect(address);
    raw_send(half, RawBytes(40, std::byte{'a'}));
    expect_hung_up(silent, "the silent one");
    expect_hung_up(half, "half a hello");

    tcp::Secret wrong = known.secret;
    wrong[31] ^= 1;
    const tcp::Socket liar = raw_connect(address);
    Handshake lie(Handshake::Role::kConnector, terms, wrong, 0, target);
    EXPECT_FALSE(raw_handshake(liar, lie));

    tcp::JobTerms other = terms;
    ++other.job;
    const tcp::Socket lost = raw_connect(address);
    Handshake astray(Handshake::Role::kConnector, other, known.secret, 0, target);
    EXPECT_FALSE(raw_handshake(lost, astray));

    // What process 0 once said to this process, word for word.
    const tcp::Socket replay = raw_connect(address);
    raw_send(replay, recorded_call(terms, known.secret, 0, target));
    expect_hung_up(replay, "the replay");
  }
  std::vector<tcp::Socket> flood;
  for (int i = 0; i < 200; ++i) {
    tcp::Socket one = raw_connect(known.addresses[2]);
    if (one) flood.push_back(std::move(one));
  }
  tally->gate.store(1);
  while (tally->ready.load() < 3) usleep(1000);  // the harness ends a hang
  for (const tcp::Socket& one : flood) expect_hung_up(one, "the flood");
  for (const tcp::SocketAddress& address : known.addresses) EXPECT_FALSE(raw_connect(address)) << "a port is open";
  tally->done.store(1);
  check_ends(members);
  EXPECT_EQ(tally->reports.load(), 2);
}
#endif

// --- a peer that knows the secret and is broken ---

// Process 0 is a transport, process 1 is played by hand.
class TcpBroken : public ::testing::Test {
 protected:
  void start(std::int64_t heartbeat_timeout_ns = tcp::TcpConfig{}.heartbeat_timeout_ns, bool progress_thread = true) {
    TcpJob job({2, true, 5});
    job.config().heartbeat_timeout_ns = heartbeat_timeout_ns;
    job.config().heartbeat_interval_ns = std::min(job.config().heartbeat_interval_ns, heartbeat_timeout_ns / 4);
    ASSERT_TRUE(tcp::listen_on(tcp::kLoopback, 0, &listener_, &job.config().addresses[1]).ok());
    tcp::TcpConfig mine = job.take(0);
    mine.progress_thread = progress_thread;
    net_ = std::make_unique<tcp::TcpTransport>(mine);
    memory_.assign(1 << 20, std::byte{1});
    EXPECT_EQ(net_->register_memory(memory_.data(), memory_.size(), kAllRights), 0u);
    EXPECT_EQ(net_->register_memory(memory_.data(), 64, kReadable), 1u);
    std::thread peer([&] {
      ASSERT_TRUE(raw_ready(listener_, POLLIN));
      peer_ = tcp::Socket(accept(listener_.fd(), nullptr, nullptr));
      Handshake handshake(Handshake::Role::kAcceptor, tcp::terms_of(mine), mine.secret, 1, -1);
      EXPECT_TRUE(raw_handshake(peer_, handshake));
    });
    net_->start();
    peer.join();
    ASSERT_FALSE(net_->peer_failed(1));
  }
  void expect_failed(const char* what) {
    EXPECT_TRUE(wait_until(*net_, [&] { return net_->peer_failed(1); }, std::int64_t{kRawLimitMs} * 1'000'000)) << what;
    std::uint64_t word = 0;
    EXPECT_EQ(read(*net_, {1, 0, 0}, &word, 8).outcome, Outcome::kPeerFailed);
  }

  static FrameHeader header(FrameKind kind, std::uint64_t total = 0, std::uint8_t code = 0) {
    FrameHeader made;
    made.kind = kind;
    made.total = total;
    made.code = code;
    made.slot = 1;
    made.serial = 9;
    return made;
  }

  tcp::Socket listener_;
  tcp::Socket peer_;
  std::vector<std::byte> memory_;
  std::unique_ptr<tcp::TcpTransport> net_;
};

TEST_F(TcpBroken, FramesThatMakeNoSenseFailTheirSender) {
  const auto to_origin = static_cast<std::uint8_t>(served::Way::kToOrigin);
  struct Case {
    const char* what;
    std::vector<std::pair<FrameHeader, std::size_t>> frames;  // and the lengths of their bodies
  };
  FrameHeader late = header(FrameKind::kData);
  late.offset = 8;
  FrameHeader strange = header(FrameKind::kMessage);
  strange.handler = 201;
  const auto as_message = static_cast<std::uint8_t>(served::Shape::kMessage);
  FrameHeader nobodys = header(FrameKind::kWrite, 1000, as_message);
  nobodys.handler = 201;
  const FrameHeader large = header(FrameKind::kWrite, 20 << 20, as_message);  // has all the room there is
  FrameHeader waits = large, unasked = header(FrameKind::kData);
  waits.slot = unasked.slot = 2;
  const Case cases[] = {
      {"a long message for a handler that nobody set", {{nobodys, 1000}}},
      {"a long message that is read", {{header(FrameKind::kRead, 2000, as_message), 0}}},
      {"a message longer than any", {{header(FrameKind::kWrite, std::size_t{1} << 31, as_message), 0}}},
      {"two messages in one slot", {{large, 0}, {large, 0}}},
      {"a message without leave", {{large, 0}, {waits, 0}, {unasked, 8}}},
      {"an unknown kind", {{header(FrameKind{77}), 0}}},
      {"a payload too long", {{header(FrameKind::kMessage), 993}}},
      {"a handler that nobody set", {{strange, 8}}},
      {"an answer that nobody waits for", {{header(FrameKind::kReply), 8}}},
      {"an acknowledgement that nobody waits for", {{header(FrameKind::kAck), 0}}},
      {"leave that nobody waits for", {{header(FrameKind::kGo), 0}}},
      {"data that nobody asked for", {{header(FrameKind::kData, 0, to_origin), 8}}},
      {"data of no write", {{header(FrameKind::kData), 8}}},
      {"data out of order", {{header(FrameKind::kWrite, 2000), 0}, {late, 8}}},
      {"data of no length", {{header(FrameKind::kWrite, 2000), 0}, {header(FrameKind::kData), 0}}},
      {"more data than announced", {{header(FrameKind::kWrite, 2000), 0}, {header(FrameKind::kData), 2008}}},
      {"two writes in one slot", {{header(FrameKind::kWrite, 2000), 0}, {header(FrameKind::kWrite, 2000), 0}}},
  };
  for (const Case& each : cases) {
    start();
    for (const auto& [frame, bytes] : each.frames) raw_frame(peer_, frame, RawBytes(bytes));
    expect_failed(each.what);
  }
}

// Process 0 without a progress thread: while the test does not poll, it is as good as stopped.
class TcpRooms : public TcpBroken {
 protected:
  static constexpr std::int64_t kTimeoutNs = 400'000'000;
  static constexpr int kBeats = 8;  // in that time

  void SetUp() override { start(kTimeoutNs, false); }
  void ask_for_room(std::uint32_t slot) {
    FrameHeader ask = header(FrameKind::kWrite, 20 << 20, static_cast<std::uint8_t>(served::Shape::kMessage));
    ask.slot = slot;
    raw_frame(peer_, ask);
  }
  // The peer lives, and sends what `more` does besides; whether it is failed all the same.
  template <class More>
  bool fails_within(int beats, More&& more) {
    const auto failed = [&] { return net_->peer_failed(1); };
    for (int i = 0; i < beats && !failed(); ++i) {
      raw_frame(peer_, header(FrameKind::kHeartbeat));
      more();
      wait_until(*net_, failed, kTimeoutNs / kBeats);
    }
    return failed();
  }
  bool fails_within(int beats) {
    return fails_within(beats, [] {});
  }
};

TEST_F(TcpRooms, WhoeverSendsNothingIntoHisIsFailedOnceOthersWait) {
  ask_for_room(1);
  EXPECT_FALSE(fails_within(3 * kBeats)) << "nobody else wants any";
  ask_for_room(2);
  EXPECT_FALSE(fails_within(kBeats / 2)) << "the second message has only begun to wait";
  EXPECT_TRUE(fails_within(20 * kBeats)) << "it lives, and keeps the second message waiting";
}

TEST_F(TcpRooms, WhoeverSendsOtherDataMeanwhileIsOnlySlow) {
  ask_for_room(1);
  ask_for_room(2);
  FrameHeader write = header(FrameKind::kWrite, 100'000);
  write.slot = 3;
  raw_frame(peer_, write);
  FrameHeader data = header(FrameKind::kData);
  data.slot = 3;
  EXPECT_FALSE(fails_within(3 * kBeats, [&] {
    raw_frame(peer_, data, RawBytes(64));
    data.offset += 64;
  }));
}

TEST_F(TcpRooms, AReceiverThatWasStoppedItselfBlamesNobody) {
  ask_for_room(1);
  ask_for_room(2);
  EXPECT_FALSE(fails_within(2));
  usleep(3 * kTimeoutNs / 1000);  // stopped
  EXPECT_FALSE(fails_within(kBeats / 2));
}

TEST_F(TcpBroken, AskingWithoutListeningIsBounded) {
  start();
  FrameHeader request = header(FrameKind::kRead, 1 << 20);
  for (std::uint32_t i = 0; i < 100; ++i) {
    request.slot = i % 4;
    request.serial = 10 + i;
    raw_frame(peer_, request);
  }
  expect_failed("more long reads than requests_max");
}

// An answer to a write whose data is still being sent would give the caller's memory back too early.
TEST_F(TcpBroken, AnAnswerBeforeTheDataIsNoAnswer) {
  start();
  std::vector<std::byte> large(64 << 20);
  Event event;
  ASSERT_TRUE(net_->try_write_async({1, {1, 0, 0}, large.data(), large.size(), event.callback()}));
  const FrameHeader request = raw_header(peer_);
  ASSERT_EQ(request.kind, FrameKind::kWrite);
  FrameHeader answer = header(FrameKind::kGo);
  answer.slot = request.slot;
  answer.serial = request.serial;
  raw_frame(peer_, answer);
  answer.kind = FrameKind::kAck;
  raw_frame(peer_, answer);
  EXPECT_EQ(event.wait(*net_).outcome, Outcome::kPeerFailed);
  expect_failed("an early answer");
}

// What a target refuses is told, and costs the asker nothing else.
TEST_F(TcpBroken, RefusedRequestsLeaveThePeerInTheJob) {
  start();
  const auto expect_answer = [&](FrameHeader request, std::size_t body, Outcome outcome) {
    raw_frame(peer_, request, RawBytes(body));
    const FrameHeader answer = raw_header(peer_);
    EXPECT_EQ(answer.kind, FrameKind::kAck);
    EXPECT_EQ(static_cast<Outcome>(answer.code), outcome);
  };
  FrameHeader write = header(FrameKind::kWrite, 100);
  write.region = 1;
  expect_answer(write, 100, Outcome::kBadAddress);
  write.total = 10;
  expect_answer(write, 10, Outcome::kNoRights);
  write.total = 2000;  // its data is taken and dropped
  raw_frame(peer_, write);
  FrameHeader data = header(FrameKind::kData);
  expect_answer(data, 2000, Outcome::kBadAddress);
  write.total = served::kSegmentBytesMax + 1;  // is not told to go on
  expect_answer(write, 0, Outcome::kBadAddress);
  FrameHeader atomic = header(FrameKind::kAtomic);
  atomic.handler = 8;
  atomic.offset = 4;
  expect_answer(atomic, 8, Outcome::kBadAddress);
  EXPECT_FALSE(net_->peer_failed(1));
  for (const std::byte b : memory_) ASSERT_EQ(b, std::byte{1});
}

}  // namespace
}  // namespace ayatori::net::testing
