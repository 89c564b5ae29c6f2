// SPDX-License-Identifier: Apache-2.0
// What the served transports promise beyond the common contract (net/served/*.hpp), over each of their wires: deaths at
// random moments, stopped and busy peers, orderly leaves, wake-ups, order behind long transfers.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <thread>

#include "base/clock.hpp"
#include "ucx_harness.hpp"

namespace ayatori::net::testing {
namespace {

template <class Wire>
class Served : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = Wire::missing()) GTEST_SKIP() << why;
  }
};
using Wires = ::testing::Types<TcpWire, UcxTcp, UcxTcpOnly, UcxShm, UcxReach>;
class WireNames {
 public:
  template <class Wire>
  static std::string GetName(int) {
    return Wire::kName;
  }
};
TYPED_TEST_SUITE(Served, Wires, WireNames);

// --- ends ---

void echo(void* net, const Message& message) {
  static_cast<Transport*>(net)->reply(message.token, message.payload, message.size_bytes);
}

TYPED_TEST(Served, LeavingInOrderIsNoFailure) { leave_in_order<typename TypeParam::Forks>(); }
TYPED_TEST(Served, LeavingInOrderIsNoFailureOnThreads) { leave_in_order<typename TypeParam::Threads>(); }

// What a process sent before it left arrives, however late the receiver looks.
TYPED_TEST(Served, WhatWasSentBeforeLeavingArrives) {
  std::atomic<int> count_of[2] = {};
  TypeParam::Threads::run(
      {2, false, 3},
      [&](Context& c) {
        c.net.set_handler(
            kUserHandlers, [](void* count, const Message&) { static_cast<std::atomic<int>*>(count)->fetch_add(1); },
            &count_of[c.net.self()]);
      },
      [&](Context& c) {
        std::byte payload[4000] = {};
        if (c.net.self() == 0) {
          for (int i = 0; i < 500; ++i) ASSERT_TRUE(message(c.net, 1, kUserHandlers, payload, sizeof payload).ok());
          return;
        }
        wait_until(c.net, [&] { return count_of[1].load() == 500; });
      });
}

// kill -9 in the midst of a storm of requests of all kinds and lengths, 8 times. Every survivor sees each of its requests
// end, and the storm among survivors goes on to its end.
template <class Network>
void die_in_a_storm(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    Network::run(
        {4, round % 2 == 0, static_cast<std::uint64_t>(round)},
        [](Context& c) { c.net.set_handler(kUserHandlers, echo, &c.net); },
        [&](Context& c) {
          const ProcessId victim = 3;
          on_threads(c, [&](int thread) {
            std::vector<std::byte> buffers(6 * 20'000);
            int to_victim_failed = 0;
            for (int i = 0; i < 100 || to_victim_failed == 0; ++i) {
              const ProcessId to = (c.net.self() + 1 + i) % 4;
              if (c.net.self() == victim && thread == 0 && i == 3 + round * 7) c.die();
              std::deque<Event> events(6);
              for (std::size_t k = 0; k < events.size(); ++k) {
                std::byte* const buffer = buffers.data() + k * 20'000;
                const std::size_t bytes = k % 2 == 0 ? 100 : 20'000;
                const Callback done = events[k].callback();
                until_taken(c.net, [&] {
                  if (k == 5) return c.net.try_rpc_async({to, kUserHandlers, buffer, 700, buffer, 700, done});
                  if (k == 4) return c.net.try_atomic_async({to, c.at(to, 0), AtomicOp::kFetchAdd, 1, 0, done});
                  if (k < 2) return c.net.try_read_async({to, c.at(to, 64), buffer, bytes, done});
                  return c.net.try_write_async({to, c.at(to, 64), buffer, bytes, done});
                });
              }
              for (Event& event : events) {
                const Completion done = event.wait(c.net);
                if (to != victim) {
                  ASSERT_TRUE(done.ok()) << outcome_name(done.outcome);
                } else if (!done.ok()) {
                  ASSERT_EQ(done.outcome, Outcome::kPeerFailed);
                  ++to_victim_failed;
                }
              }
            }
          });
          part(c, 0x8000, victim);
        });
  }
}
TYPED_TEST(Served, DeathInAStormBlocksNobody) { die_in_a_storm<typename TypeParam::Forks>(8); }

// The same in the midst of transfers of megabytes, both ways: all but the dead one's end well, and none stands still.
template <class Network>
void die_in_long_transfers(int rounds) {
  constexpr std::size_t kBytes = 3'000'000;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::byte> memory(kBytes, std::byte{1});
    std::atomic<int> arrived{0};
    Network::run(
        {3, false, static_cast<std::uint64_t>(60 + round)},
        [&](Context& c) {
          EXPECT_EQ(c.net.register_memory(memory.data(), kBytes, kAllRights), 1u);
          c.net.set_handler(
              kUserHandlers, [](void* count, const Message&) { static_cast<std::atomic<int>*>(count)->fetch_add(1); },
              &arrived);
        },
        [&](Context& c) {
          const ProcessId victim = 2;
          std::vector<std::byte> local(6 * kBytes, std::byte{1});
          int failed = 0;
          for (int i = 0; i < 4 || failed == 0; ++i) {
            std::deque<Event> events(6);
            for (std::size_t k = 0; k < events.size(); ++k) {
              const ProcessId to = (c.net.self() + 1 + static_cast<int>(k) % 2) % 3;
              std::byte* const at = local.data() + k * kBytes;
              const Callback done = events[k].callback();
              until_taken(c.net, [&] {
                if (k < 2) return c.net.try_read_async({to, {to, 1, 0}, at, kBytes, done});
                if (k < 4) return c.net.try_write_async({to, {to, 1, 0}, at, kBytes, done});
                return c.net.try_message_async({to, kUserHandlers, at, kBytes, done});
              });
            }
            if (c.net.self() == victim && i == 1) {  // some of it is out
              for (int looks = 0; looks < round * 40; ++looks) c.net.progress();
              c.die();
            }
            for (std::size_t k = 0; k < events.size(); ++k) {
              const ProcessId to = (c.net.self() + 1 + static_cast<int>(k) % 2) % 3;
              const Outcome outcome = events[k].wait(c.net).outcome;
              if (outcome == Outcome::kOk) continue;
              ASSERT_EQ(outcome, Outcome::kPeerFailed);
              ASSERT_EQ(to, victim);
              ++failed;
            }
          }
          part(c, 0x8000, victim);
        });
  }
}
TYPED_TEST(Served, ADeathInLongTransfersEndsThemAndNothingElse) { die_in_long_transfers<typename TypeParam::Forks>(8); }

#ifndef __SANITIZE_THREAD__
// What the members of a forked job share.
struct Shared {
  std::atomic<pid_t> victim{0};
  std::atomic<int> stops{0};  // 1: it is to, 2: it has begun to
  std::atomic<int> seen{0};
};
Shared* map_shared() {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return new (memory) Shared;
}

// Stops the victim where it stands, or (Wire::kStopsItself) soon, where it holds nobody else up.
template <class Wire>
void stop_victim(Shared& shared) {
  if constexpr (Wire::kStopsItself) {
    if (shared.stops.load() == 0) shared.stops.store(1);  // only one process asks
  } else {
    kill(shared.victim.load(), SIGSTOP);
  }
}
// What the victim calls again and again.
template <class Wire>
void stop_if_asked(Shared& shared, Context& c) {
  if constexpr (Wire::kStopsItself) {
    if (int asked = 1; shared.stops.compare_exchange_strong(asked, 2)) Wire::stop(c.net);
  }
}

// A peer that is stopped says nothing and breaks nothing off: the heartbeat finds it.
TYPED_TEST(Served, AStoppedPeerIsFailedAfterItsSilence) {
  Shared* const shared = map_shared();
  TcpJob job({3, false, 8});
  job.config().heartbeat_interval_ns = 200'000'000;
  job.config().heartbeat_timeout_ns = 3'000'000'000;
  check_ends(TypeParam::Forks::start(
      job, [](Context&) {},
      [shared](Context& c) {
        std::uint64_t word = 0;
        if (c.net.self() == 2) {
          shared->victim.store(getpid());
          while (true) {  // until the end
            stop_if_asked<TypeParam>(*shared, c);
            usleep(1000);
          }
        }
        wait_until(c.net, [&] { return shared->victim.load() != 0; });
        const pid_t victim = shared->victim.load();
        ASSERT_GT(victim, 1);
        if (c.net.self() == 0) stop_victim<TypeParam>(*shared);
        wait_until(c.net, [&] { return c.net.peer_failed(2); });
        EXPECT_EQ(read(c.net, c.at(2, 0), &word, 8).outcome, Outcome::kPeerFailed);
        EXPECT_EQ(barrier(c.net).outcome, Outcome::kPeerFailed);
        EXPECT_FALSE(c.net.peer_failed(1 - c.net.self()));
        shared->seen.fetch_add(1);
        wait_until(c.net, [&] { return shared->seen.load() == 2; });
        if (c.net.self() == 0) kill(victim, SIGKILL);
      }));
}

// A peer that is stopped while long writes to it and reads from it are under way, and goes on when it has been failed: all of
// them end, their memory is given back at once, and neither side is harmed by what the other still sends.
TYPED_TEST(Served, AStoppedPeerThatGoesOnHarmsNobody) {
  Shared* const shared = map_shared();
  TcpJob job({3, false, 13});
  job.config().heartbeat_interval_ns = 100'000'000;
  job.config().heartbeat_timeout_ns = 1'500'000'000;
  check_ends(TypeParam::Forks::start(
      job, [](Context&) {},
      [shared](Context& c) {
        constexpr std::size_t kBytes = 60'000;
        if (c.net.self() == 2) {
          shared->victim.store(getpid());
          wait_until(c.net, [&] {
            stop_if_asked<TypeParam>(*shared, c);
            return c.net.peer_failed(0) && c.net.peer_failed(1);
          });
          std::uint64_t word = 0;
          EXPECT_EQ(read(c.net, c.at(0, 0), &word, 8).outcome, Outcome::kPeerFailed);
          return;
        }
        wait_until(c.net, [&] { return shared->victim.load() != 0; });
        const pid_t victim = shared->victim.load();
        ASSERT_GT(victim, 1);
        if (c.net.self() == 0) {
          stop_victim<TypeParam>(*shared);
          shared->seen.fetch_add(1);
        }
        wait_until(c.net, [&] { return shared->seen.load() != 0; });
        {
          std::vector<std::byte> buffers(40 * kBytes);
          std::deque<Event> events(40);
          for (std::size_t i = 0; i < events.size(); ++i) {
            std::byte* const buffer = buffers.data() + i * kBytes;
            const Callback done = events[i].callback();
            until_taken(c.net, [&] {
              if (i % 2 == 0) return c.net.try_write_async({2, c.at(2, 0), buffer, kBytes, done});
              return c.net.try_read_async({2, c.at(2, 0), buffer, kBytes, done});
            });
          }
          for (Event& event : events) {
            const Completion done = event.wait(c.net);
            EXPECT_TRUE(done.ok() || done.outcome == Outcome::kPeerFailed);  // what the stop came too late for
          }
        }
        wait_until(c.net, [&] { return c.net.peer_failed(2); });
        shared->seen.fetch_add(1);
        wait_until(c.net, [&] { return shared->seen.load() == 3; });
        if (c.net.self() == 0) kill(victim, SIGCONT);
        part(c, 0x8000, 2);
      }));
}

// The same in the midst of megabytes both ways: what waits for room to it, and what it sends when it goes on, harm nobody.
TYPED_TEST(Served, APeerStoppedInLongTransfersHarmsNobodyWhenItGoesOn) {
  constexpr std::size_t kBytes = 3'000'000;
  Shared* const shared = map_shared();
  TcpJob job({3, false, 14});
  job.config().heartbeat_interval_ns = 100'000'000;
  job.config().heartbeat_timeout_ns = 1'500'000'000;
  std::vector<std::byte> memory(kBytes, std::byte{1});
  check_ends(TypeParam::Forks::start(
      job, [&](Context& c) { EXPECT_EQ(c.net.register_memory(memory.data(), kBytes, kAllRights), 1u); },
      [shared](Context& c) {
        if (c.net.self() == 2) {
          shared->victim.store(getpid());
          wait_until(c.net, [&] {
            stop_if_asked<TypeParam>(*shared, c);
            return c.net.peer_failed(0) && c.net.peer_failed(1);
          });
          return;
        }
        wait_until(c.net, [&] { return shared->victim.load() != 0; });
        const pid_t victim = shared->victim.load();
        ASSERT_GT(victim, 1);
        int failed = 0;
        while (failed == 0) {
          std::vector<std::byte> buffers(8 * kBytes);
          std::deque<Event> events(8);
          for (std::size_t i = 0; i < events.size(); ++i) {
            std::byte* const buffer = buffers.data() + i * kBytes;
            const ProcessId to = i < 6 ? 2 : 1 - c.net.self();
            const Callback done = events[i].callback();
            until_taken(c.net, [&] {
              if (i % 2 == 0) return c.net.try_write_async({to, {to, 1, 0}, buffer, kBytes, done});
              return c.net.try_read_async({to, {to, 1, 0}, buffer, kBytes, done});
            });
          }
          if (c.net.self() == 0) {
            for (int looks = 0; looks < 200; ++looks) c.net.progress();  // some of it is on its way
            if (shared->seen.load() == 0) stop_victim<TypeParam>(*shared);
          }
          for (std::size_t i = 0; i < events.size(); ++i) {
            const Completion done = events[i].wait(c.net);
            EXPECT_TRUE(done.ok() || (i < 6 && done.outcome == Outcome::kPeerFailed));
            failed += !done.ok();
          }
        }
        wait_until(c.net, [&] { return c.net.peer_failed(2); });
        shared->seen.fetch_add(1);
        wait_until(c.net, [&] { return shared->seen.load() == 2; });
        if (c.net.self() == 0) kill(victim, SIGCONT);
        part(c, 0x8000, 2);
      }));
}

std::uint16_t port_of(const sockaddr_storage& address) {
  return address.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(address).sin_port : std::uint16_t{0};
}

// Nothing more arrives at this process' connections of the job, which stay: as when the network loses one way of several.
int deafen_connections(const std::vector<tcp::SocketAddress>& listeners) {
  int count = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_storage ends[2] = {};
    socklen_t bytes = sizeof ends[0];
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&ends[0]), &bytes) != 0) continue;
    bytes = sizeof ends[1];
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&ends[1]), &bytes) != 0) continue;
    const bool is_ours = std::any_of(listeners.begin(), listeners.end(), [&](const tcp::SocketAddress& listener) {
      const std::uint16_t port = port_of(listener.storage);
      return port != 0 && (port == port_of(ends[0]) || port == port_of(ends[1]));
    });
    if (!is_ours) continue;
    sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog program{1, &drop_all};
    EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0) << strerror(errno);
    ++count;
  }
  return count;
}

// Whatever else of the wire still works.
TYPED_TEST(Served, AConnectionThatStandsStillFailsItsPeer) {
  TcpJob job({2, false, 15});
  job.config().heartbeat_interval_ns = 100'000'000;
  job.config().heartbeat_timeout_ns = 1'500'000'000;
  const std::vector<tcp::SocketAddress> listeners = job.config().addresses;
  check_ends(TypeParam::Forks::start(
      job, [](Context&) {},
      [&listeners](Context& c) {
        const ProcessId other = 1 - c.net.self();
        if (c.net.self() == 0) {
          EXPECT_EQ(deafen_connections(listeners), 1);
        }
        const std::int64_t end_ns = base::real_now_ns() + 15'000'000'000;
        Outcome outcome = Outcome::kOk;
        while (outcome == Outcome::kOk && base::real_now_ns() < end_ns)
          outcome = atomic(c.net, c.at(other, 0), AtomicOp::kFetchAdd, 1).outcome;
        EXPECT_EQ(outcome, Outcome::kPeerFailed);
        EXPECT_TRUE(c.net.peer_failed(other));
      }));
}

// All threads of a process compute for longer than a silence may last, on a machine with more threads than CPUs: its
// progress thread speaks for it, and serves.
TYPED_TEST(Served, ABusyPeerIsNotFailed) {
  TcpJob job({3, false, 9});
  job.config().heartbeat_interval_ns = 100'000'000;
  job.config().heartbeat_timeout_ns = 4'000'000'000;
  check_ends(TypeParam::Forks::start(
      job, [](Context&) {},
      [&](Context& c) {
        if (c.net.self() != 0) {
          on_threads(c, [](int) {
            const std::int64_t end_ns = base::real_now_ns() + 5'000'000'000;
            while (base::real_now_ns() < end_ns) {
            }
          });
        } else {
          std::uint64_t word = 0;
          for (ProcessId p = 1; p < 3; ++p) EXPECT_TRUE(read(c.net, c.at(p, 0), &word, 8).ok());
        }
        EXPECT_TRUE(barrier(c.net).ok());
        for (ProcessId p = 0; p < 3; ++p) EXPECT_FALSE(c.net.peer_failed(p));
      }));
}

// A process whose peers never come knows them failed when the time for starting is over; one that is gone already, at once.
TYPED_TEST(Served, PeersThatNeverStartAreFailed) {
  TcpJob job({3, false, 10});
  job.config().start_timeout_ns = 300'000'000;
  tcp::TcpConfig mine = job.take(1);  // process 0 does not call, process 2 does not answer
  const auto made = TypeParam::make(mine);
  Transport& net = *made;
  net.start();
  std::uint64_t word = 0;
  EXPECT_EQ(read(net, {0, 0, 0}, &word, 8).outcome, Outcome::kPeerFailed);
  EXPECT_EQ(message(net, 2, kUserHandlers, &word, 8).outcome, Outcome::kPeerFailed);
  EXPECT_EQ(barrier(net).outcome, Outcome::kPeerFailed);
  TcpJob gone({2, false, 11});
  tcp::TcpConfig first = gone.take(0);
  gone.close_listeners();
  const auto alone = TypeParam::make(first);
  alone->start();
  EXPECT_EQ(flush(*alone, 1).outcome, Outcome::kPeerFailed);
}
#endif

// --- order, lengths, waiting ---

// A long write, a fence, a message: its handler sees the whole write. And a long read, a fence, a write: the read saw
// nothing of it. Short requests go on meanwhile.
TYPED_TEST(Served, FencesHoldBehindLongTransfers) {
  constexpr std::size_t kWords = 150'000;
  struct Side {
    std::vector<std::uint64_t> memory = std::vector<std::uint64_t>(kWords);
    std::atomic<int> heard{0};
    int wrong = 0;
  } sides[2];
  TypeParam::Threads::run(
      {2, false, 4},
      [&](Context& c) {
        Side& mine = sides[c.net.self()];
        EXPECT_EQ(c.net.register_memory(mine.memory.data(), kWords * 8, kAllRights), 1u);
        c.net.set_handler(
            kUserHandlers,
            [](void* side, const Message& message) {
              auto& s = *static_cast<Side*>(side);
              std::uint64_t value = 0;
              std::memcpy(&value, message.payload, 8);
              for (const std::uint64_t word : s.memory) s.wrong += word != value;
              s.heard.fetch_add(1);
            },
            &mine);
      },
      [&](Context& c) {
        if (c.net.self() == 1) {
          wait_until(c.net, [&] { return sides[1].heard.load() == 20; });
          EXPECT_EQ(sides[1].wrong, 0);
          barrier(c.net);
          return;
        }
        std::vector<std::uint64_t> out(kWords), in(kWords);
        for (std::uint64_t round = 1; round <= 20; ++round) {
          std::fill(out.begin(), out.end(), round);
          Event written, read_back;
          const RemoteAddress target{1, 1, 0};
          until_taken(c.net,
                      [&] { return c.net.try_write_async({1, target, out.data(), kWords * 8, written.callback()}); });
          fence(c.net, 1);
          ASSERT_TRUE(message(c.net, 1, kUserHandlers, &round, 8).ok());
          until_taken(c.net,
                      [&] { return c.net.try_read_async({1, target, in.data(), kWords * 8, read_back.callback()}); });
          fence(c.net, 1);
          const std::uint64_t other = round + 1000;
          ASSERT_TRUE(write(c.net, target, const_cast<std::uint64_t*>(&other), 8).ok());
          ASSERT_TRUE(written.wait(c.net).ok());
          ASSERT_TRUE(read_back.wait(c.net).ok());
          for (const std::uint64_t word : in) ASSERT_EQ(word, round);
        }
        barrier(c.net);
      });
}

// Long and odd lengths both ways at once, from and to addresses of any alignment.
TYPED_TEST(Served, LongTransfersMoveExactlyTheirBytes) {
  constexpr std::size_t kRoom = (1 << 20) + 64;
  std::vector<std::byte> memory_of[2];
  for (auto& memory : memory_of) memory.assign(kRoom, std::byte{0});
  TypeParam::Threads::run(
      {2, false, 4},
      [&](Context& c) {
        auto& mine = memory_of[c.net.self()];
        EXPECT_EQ(c.net.register_memory(mine.data(), mine.size(), kAllRights), 1u);
      },
      [&](Context& c) {
        const ProcessId peer = 1 - c.net.self();
        std::vector<std::byte> out(kRoom), in(kRoom);
        for (const std::size_t bytes : {16'383, 16'385, 65'537, 262'143, 262'144, 262'145, 1 << 20}) {
          for (const std::size_t shift : {0u, 3u, 8u}) {
            for (std::size_t i = 0; i < bytes; ++i) out[i + 5] = static_cast<std::byte>(i * 31 + bytes + shift);
            ASSERT_TRUE(write(c.net, {peer, 1, shift}, out.data() + 5, bytes).ok());
            std::fill(in.begin(), in.end(), std::byte{0xDD});
            ASSERT_TRUE(read(c.net, {peer, 1, shift}, in.data() + 1, bytes).ok());
            ASSERT_EQ(std::memcmp(in.data() + 1, out.data() + 5, bytes), 0) << bytes << " bytes, shift " << shift;
            ASSERT_EQ(in[0], std::byte{0xDD});
            ASSERT_EQ(in[bytes + 1], std::byte{0xDD});
          }
        }
        barrier(c.net);
      });
}

// Aligned words of a list of pieces are never torn, whatever the pieces' places in the stream (N5).
TYPED_TEST(Served, WordsOfOddPiecesTravelWhole) {
  TypeParam::Threads::run(
      {2, false, 6}, [](Context&) {},
      [](Context& c) {
        auto* const words = reinterpret_cast<std::uint64_t*>(c.memory);
        std::atomic<bool> over{false};
        std::thread writer([&] {
          for (std::uint64_t i = 0; !over.load(std::memory_order_relaxed); ++i)
            std::atomic_ref<std::uint64_t>(words[8]).store((i & 0xff) * 0x0101010101010101, std::memory_order_release);
        });
        const ProcessId peer = 1 - c.net.self();
        for (int i = 0; i < 500; ++i) {
          std::byte odd[3];
          std::uint64_t word = 0;
          const Piece pieces[] = {{0, odd, 3}, {64, &word, 8}};
          ASSERT_TRUE(read_list(c.net, peer, 0, pieces, 2).ok());
          ASSERT_EQ(word, (word & 0xff) * 0x0101010101010101);
        }
        barrier(c.net);
        over.store(true);
        writer.join();
        barrier(c.net);
      });
}

// A thread asleep in wait() is woken by a message of a peer, by wake() of a sibling, and by a completion that another thread
// runs.
TYPED_TEST(Served, SleepersAreWoken) {
  TcpJob job({2, false, 12});
  std::atomic<int> turns{0};
  const auto play = [&](ProcessId self) {
    const auto made = TypeParam::make(self == 0 ? job.take(0) : job.take(1));
    made->set_handler(kUserHandlers, count_turn, &turns);
    made->start();
    take_turns_asleep(*made, turns);
    barrier(*made);
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
}

}  // namespace
}  // namespace ayatori::net::testing
