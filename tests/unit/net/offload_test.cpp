// SPDX-License-Identifier: Apache-2.0
// Offloading over a transport that the test commands (offload_fake.hpp): order, room, wake-ups, the end. What it promises as
// a transport is asked by conformance_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <ayatori/net/blocking.hpp>
#include "net/offload/transport.hpp"
#include "offload_fake.hpp"

namespace ayatori::net::offload {
namespace {

using testing::FakeBelow;

OffloadOptions options_of(OffloadMode mode, int executors = 1, std::uint32_t tags = 256) {
  OffloadOptions options;
  options.mode = mode;
  options.executors = executors;
  options.tags = tags;
  options.spin_ns = 0;  // executors sleep whenever they may
  return options;
}

template <class Condition>
void until_true(Condition&& condition) {
  while (!condition()) sched_yield();
}

struct Count {
  std::atomic<int> done{0};
  Callback callback() {
    return {[](void* self, Completion) { static_cast<Count*>(self)->done.fetch_add(1); }, this};
  }
};

bool write_to(Transport& net, ProcessId peer, std::uint64_t number, Callback callback = {}) {
  return net.try_write_async({peer, {peer, 0, number}, nullptr, 8, callback});
}
bool read_from(Transport& net, ProcessId peer, std::uint64_t number, Callback callback = {}) {
  return net.try_read_async({peer, {peer, 0, number}, nullptr, 8, callback});
}

// "write 1:7" is a write to process 1 at offset 7.
std::vector<std::string> log_of(FakeBelow& below) {
  std::vector<std::string> log;
  for (const FakeBelow::Issued& entry : below.issued())
    log.push_back(entry.what + " " + std::to_string(entry.peer) + ":" + std::to_string(entry.number));
  return log;
}
using Log = std::vector<std::string>;

TEST(Offload, DirectModeCallsStraightThrough) {
  FakeBelow below;
  OffloadTransport net(below, {});
  net.start();
  const pthread_t self = pthread_self();
  pthread_t where{};
  EXPECT_TRUE(read_from(net, 1, 7,
                        {[](void* where_, Completion) { *static_cast<pthread_t*>(where_) = pthread_self(); }, &where}));
  EXPECT_EQ(where, self);
  below.set_room(2, false);
  EXPECT_FALSE(write_to(net, 2, 8));
  EXPECT_TRUE(net.try_fence(kAllProcesses));
  EXPECT_EQ(log_of(below), (Log{"read 1:7", "fence -1:0"}));
}

TEST(Offload, EveryKindOfRequestArrivesAsItWas) {
  FakeBelow below;
  OffloadTransport net(below, options_of(OffloadMode::kWorker));
  net.start();
  Count count;
  const Callback done = count.callback();
  ListParams list{1, 0, nullptr, 3, done};
  StridedParams strided;
  strided.remote.process = 2;
  strided.block_bytes = 48;
  strided.on_complete = done;
  EXPECT_TRUE(read_from(net, 1, 10, done));
  EXPECT_TRUE(write_to(net, 2, 11, done));
  EXPECT_TRUE(net.try_atomic_async({3, {3, 0, 0}, AtomicOp::kSwap, 12, 0, done}));
  EXPECT_TRUE(net.try_read_list_async(list));
  EXPECT_TRUE(net.try_write_list_async(list));
  EXPECT_TRUE(net.try_read_strided_async(strided));
  EXPECT_TRUE(net.try_write_strided_async(strided));
  EXPECT_TRUE(net.try_flush_async(1, done));
  EXPECT_TRUE(net.try_flush_async(kAllProcesses, done));
  EXPECT_TRUE(net.try_fence(2));
  EXPECT_TRUE(net.try_message_async({1, 200, "four", 4, done}));
  EXPECT_TRUE(net.try_rpc_async({99, 200, "three", 5, {}, 0, done}));  // the transport below refuses it, not we
  EXPECT_TRUE(net.try_barrier_async(done));
  EXPECT_TRUE(net.try_broadcast_async({0, nullptr, 20, done}));
  EXPECT_TRUE(net.try_reduce_async({nullptr, nullptr, 21, Element::kU64, ReduceOp::kSum, done}));
  EXPECT_TRUE(net.try_gather_async({0, nullptr, nullptr, 22, done}));
  EXPECT_TRUE(net.try_alltoall_async({nullptr, nullptr, 23, done}));
  EXPECT_EQ(below.issues(), 0u);
  EXPECT_EQ(net.progress(), 16u);  // all but the fence complete
  EXPECT_EQ(count.done.load(), 16);
  EXPECT_EQ(log_of(below),
            (Log{"read 1:10", "write 2:11", "atomic 3:12", "read list 1:3", "write list 1:3", "read strided 2:48",
                 "write strided 2:48", "flush 1:0", "flush -1:0", "fence 2:0", "message 1:4", "rpc 99:5",
                 "barrier -1:0", "broadcast -1:20", "reduce -1:21", "gather -1:22", "alltoall -1:23"}));
  EXPECT_EQ(net.self(), 0);
  EXPECT_EQ(net.processes(), 4);
  EXPECT_TRUE(net.capabilities().one_sided_atomic);
  EXPECT_FALSE(net.capabilities().one_sided_write);
  EXPECT_EQ(net.counters().bytes_sent, 2u);
  EXPECT_EQ(net.register_memory(nullptr, 0, kAllRights), 5u);
  EXPECT_EQ(net.direct_pointer({}, 0), &below);
}

// E5.
TEST(Offload, ABatchIsIssuedAsOne) {
  FakeBelow below;
  OffloadTransport net(below, options_of(OffloadMode::kWorker));
  net.start();
  constexpr int kRequests = static_cast<int>(Executor::kBatch) + 3;
  for (int i = 0; i < kRequests; ++i) EXPECT_TRUE(read_from(net, 1, 0));
  net.progress();
  net.progress();
  net.progress();
  EXPECT_EQ(below.batches(), (std::vector<int>{static_cast<int>(Executor::kBatch), 3}));
}

// E2, E3: requests to one peer keep their order, fences among them, also when it takes nothing for a while; it holds up
// nobody else.
TEST(Offload, AFullPeerHoldsUpItsOwnRequestsOnly) {
  FakeBelow below;
  OffloadTransport net(below, options_of(OffloadMode::kWorker));
  net.start();
  below.set_room(1, false);
  below.set_room(kAllProcesses, false);  // collectives
  for (const std::uint64_t n : {1, 2, 3}) {
    EXPECT_TRUE(write_to(net, 1, n));
    EXPECT_TRUE(net.try_barrier_async({}));
    EXPECT_TRUE(write_to(net, 2, n));
    EXPECT_TRUE(net.try_fence(1));
    net.progress();
  }
  EXPECT_EQ(log_of(below), (Log{"write 2:1", "write 2:2", "write 2:3"}));
  below.set_room(1, true);
  EXPECT_TRUE(write_to(net, 1, 4));
  net.progress();
  EXPECT_EQ(log_of(below), (Log{"write 2:1", "write 2:2", "write 2:3", "write 1:1", "fence 1:0", "write 1:2",
                                "fence 1:0", "write 1:3", "fence 1:0", "write 1:4"}));
  below.set_room(kAllProcesses, true);
  net.progress();
  EXPECT_EQ(below.issues(), 13u);
}

// E3: nor does it where all that waits for it would take every record.
TEST(Offload, AFullPeerLeavesRecordsToOthers) {
  FakeBelow below;
  OffloadTransport net(below, options_of(OffloadMode::kWorker, 1, 8));
  net.start();
  below.set_room(1, false);
  int asked = 0;
  for (int i = 0; i < 10; ++i) {
    while (write_to(net, 1, 0)) ++asked;
    net.progress();
  }
  EXPECT_EQ(asked, 6 + 8);  // records and slots
  std::thread other([&] { EXPECT_TRUE(write_to(net, 2, 5)); });
  other.join();
  net.progress();
  EXPECT_EQ(log_of(below), (Log{"write 2:5"}));
  below.set_room(1, true);
  for (int i = 0; i < 4; ++i) net.progress();
  EXPECT_EQ(below.issues(), 15u);
}

// Where room below is common to all peers, one that is asked for more than there is leaves the others their turn.
TEST(Offload, PeersTakeTurnsAtCommonRoom) {
  FakeBelow below;
  Count count, others;
  OffloadTransport net(below, options_of(OffloadMode::kWorker, 1, 64));
  net.start();
  below.set_deferred(true);
  below.set_open_max(4);
  const auto flood = [&](int requests) {
    for (int i = 0; i < requests; ++i) ASSERT_TRUE(write_to(net, 1, 0, count.callback()));
  };
  flood(30);
  std::thread([&] { EXPECT_TRUE(write_to(net, 2, 5, others.callback())); }).join();
  for (int turn = 0; turn < 4; ++turn) {
    flood(4);
    net.progress();
  }
  EXPECT_EQ(others.done.load(), 1);
  EXPECT_LT(count.done.load(), 20);  // most of them still waits
}

// A fence to one peer passes though another one takes nothing and has all the records that it may have.
TEST(Offload, AFenceIsNotHeldUpByAnotherPeer) {
  FakeBelow below;
  OffloadTransport net(below, options_of(OffloadMode::kWorker, 1, 16));
  net.start();
  below.set_room(1, false);
  for (int i = 0; i < 14; ++i) ASSERT_TRUE(write_to(net, 1, 0));
  net.progress();
  net.progress();
  ASSERT_TRUE(write_to(net, 2, 1));
  ASSERT_TRUE(net.try_fence(2));
  ASSERT_TRUE(write_to(net, 2, 2));
  for (int i = 0; i < 3; ++i) net.progress();
  EXPECT_EQ(log_of(below), (Log{"write 2:1", "fence 2:0", "write 2:2"}));
  below.set_room(1, true);
  net.progress();
  EXPECT_EQ(below.issues(), 17u);
}

// Threads that ask whenever there is room, and records for a third of it at a time: each thread has its turn.
TEST(Offload, NobodyStarvesWhereRecordsAreFew) {
  constexpr int kThreads = 3, kTurns = 30, kRecords = 4;
  FakeBelow below;
  std::vector<Count> counts(kThreads);  // outlives what is under way
  OffloadTransport net(below, options_of(OffloadMode::kWorker, 1, kRecords));
  net.start();
  below.set_deferred(true);
  std::barrier turn(kThreads + 1);
  std::vector<std::thread> threads;
  for (Count& count : counts) {
    threads.emplace_back([&] {
      for (int i = 0; i < kTurns; ++i) {
        while (read_from(net, 1, 0, count.callback())) {
        }
        turn.arrive_and_wait();
        turn.arrive_and_wait();
      }
    });
  }
  for (int i = 0; i < kTurns; ++i) {
    turn.arrive_and_wait();
    EXPECT_EQ(net.progress(), static_cast<std::size_t>(kRecords));
    turn.arrive_and_wait();
  }
  for (std::thread& thread : threads) thread.join();
  for (const Count& count : counts) EXPECT_EQ(count.done.load(), kTurns * kRecords / kThreads);
}

// E4: what is behind a fence or flush to all comes after everything before it, to whomever.
TEST(Offload, AFenceToAllWaitsForWhatIsKept) {
  for (const bool flush : {false, true}) {
    FakeBelow below;
    OffloadTransport net(below, options_of(OffloadMode::kWorker));
    net.start();
    below.set_room(1, false);
    EXPECT_TRUE(write_to(net, 1, 1));
    EXPECT_TRUE(write_to(net, 2, 2));
    EXPECT_TRUE(flush ? net.try_flush_async(kAllProcesses, {}) : net.try_fence(kAllProcesses));
    EXPECT_TRUE(write_to(net, 2, 3));
    for (int i = 0; i < 3; ++i) net.progress();
    EXPECT_EQ(log_of(below), (Log{"write 2:2"}));
    below.set_room(1, true);
    below.set_room(kAllProcesses, false);  // the fence itself finds no room
    for (int i = 0; i < 3; ++i) net.progress();
    EXPECT_EQ(log_of(below), (Log{"write 2:2", "write 1:1"}));
    below.set_room(kAllProcesses, true);
    net.progress();
    EXPECT_EQ(log_of(below), (Log{"write 2:2", "write 1:1", flush ? "flush -1:0" : "fence -1:0", "write 2:3"}));
  }
}

// With several rings each gets its part of a flush to all; the whole completes once, after the last, with the worst outcome.
TEST(Offload, AFlushOfSeveralRingsCompletesOnce) {
  FakeBelow below;
  OffloadTransport net(below, options_of(OffloadMode::kWorker, 3, 4));
  net.start();
  below.set_deferred(true);
  below.outcome = Outcome::kPeerFailed;
  struct Result {
    int times = 0;
    Outcome outcome = Outcome::kOk;
  } result;
  const Callback done{[](void* data, Completion completion) {
                        auto& r = *static_cast<Result*>(data);
                        ++r.times;
                        r.outcome = completion.outcome;
                      },
                      &result};
  for (int round = 1; round <= 5; ++round) {
    EXPECT_TRUE(net.try_flush_async(kAllProcesses, done));
    EXPECT_FALSE(net.try_flush_async(kAllProcesses, done));  // no tag: all or nothing
    EXPECT_FALSE(net.try_fence(kAllProcesses));
    while (net.progress() != 0) {
    }
    EXPECT_EQ(result.times, round);
    EXPECT_EQ(result.outcome, Outcome::kPeerFailed);
  }
  EXPECT_TRUE(net.try_fence(kAllProcesses));
  net.progress();
  EXPECT_EQ(below.issues(), 5u * 3u + 3u);
}

// F1: messages by tags, others by the queue of the thread and the executor's records.
TEST(Offload, RoomRunsOutAndComesBack) {
  for (const OffloadMode mode : {OffloadMode::kOffload, OffloadMode::kWorker}) {
    for (const bool message : {true, false}) {
      FakeBelow below;
      OffloadTransport net(below, options_of(mode, 1, 4));
      net.start();
      below.set_deferred(true);
      Count count;
      const auto ask = [&] {
        return message ? net.try_message_async({1, 200, nullptr, 0, count.callback()})
                       : read_from(net, 1, 0, count.callback());
      };
      const int room = message ? 4 : 4 + 4;  // records and slots
      int asked = 0;
      for (int round = 1; round <= 20; ++round) {
        below.let_complete(false);
        for (int n = 0; n < room; ++n, ++asked) until_true([&] { return ask() || (net.progress(), false); });
        for (int i = 0; i < 3; ++i) {
          net.progress();
          ASSERT_FALSE(ask());
        }
        below.let_complete(true);
        wait_until(net, [&] { return count.done.load() == asked; });
        if (!message) continue;
        while (!net.try_fence(1)) net.progress();  // the last tag may still be on its way home
        until_true([&] {
          net.progress();
          return below.issues() == static_cast<std::size_t>(5 * round);
        });
      }
    }
  }
}

// E6, E7: behind a fence nothing is issued before what was asked for earlier, though there are not enough records for that
// at once, and though the fence is a command of the ring and the others are not.
TEST(Offload, AFenceWaitsForWhatHasNoRecordYet) {
  for (const ProcessId peer : {ProcessId{1}, kAllProcesses}) {
    FakeBelow below;
    OffloadTransport net(below, options_of(OffloadMode::kWorker, 1, 4));
    net.start();
    below.set_deferred(true);
    below.let_complete(false);
    for (const std::uint64_t n : {1, 2, 3, 4}) ASSERT_TRUE(write_to(net, 1, n));
    net.progress();
    for (const std::uint64_t n : {5, 6}) ASSERT_TRUE(write_to(net, 1, n));
    ASSERT_TRUE(net.try_fence(peer));
    ASSERT_TRUE(net.try_message_async({1, 200, nullptr, 0, {}}));
    ASSERT_TRUE(write_to(net, 1, 7));
    for (int i = 0; i < 3; ++i) net.progress();
    EXPECT_EQ(log_of(below), (Log{"write 1:1", "write 1:2", "write 1:3", "write 1:4"}));
    below.let_complete(true);
    until_true([&] {
      net.progress();
      return below.issues() == 9;
    });
    const std::string fence = "fence " + std::to_string(peer) + ":0";
    const Log log = log_of(below);
    EXPECT_EQ(Log(log.begin(), log.begin() + 7),
              (Log{"write 1:1", "write 1:2", "write 1:3", "write 1:4", "write 1:5", "write 1:6", fence}));
  }
}

// N10 by phases that threads agree on: all writes, then a fence, then the next phase; by every thread in turn, to one peer or to
// all, with peers that are full now and then.
TEST(Offload, FencesOrderTheRequestsOfAllThreads) {
  constexpr int kThreads = 3, kPhases = 200, kEach = 5;
  for (const OffloadMode mode : {OffloadMode::kOffload, OffloadMode::kWorker}) {
    for (const int executors : {1, 2}) {
      FakeBelow below;
      OffloadTransport net(below, options_of(mode, executors, 16));
      net.start();
      std::barrier phase(kThreads);
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          for (int p = 0; p < kPhases; ++p) {
            for (int i = 0; i < kEach; ++i) {
              const ProcessId peer = 1 + i % 2;
              const auto number = static_cast<std::uint64_t>(p);
              if (i == t) below.set_room(peer, p % 3 != 0);
              until_taken(net, [&] {
                const bool taken = i % 3 != 2 ? write_to(net, peer, number)
                                              : net.try_message_async({peer, 200, nullptr, number << 32, {}});
                for (const ProcessId full : {1, 2})  // a fence to all may wait for either
                  if (!taken) below.set_room(full, true);
                return taken;
              });
            }
            phase.arrive_and_wait();
            if (p % kThreads == t) {
              for (const ProcessId peer : {1, 2}) below.set_room(peer, true);
              const bool every = p % 2 == 0;
              for (const ProcessId peer : {1, 2})
                if (!every || peer == 1) until_taken(net, [&] { return net.try_fence(every ? kAllProcesses : peer); });
            }
            phase.arrive_and_wait();
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      net.wait([](void*) { return false; }, nullptr, 1'000'000);
      constexpr std::size_t kAll = std::size_t{kThreads} * kEach * kPhases;
      until_true([&] {
        net.progress();
        std::size_t requests = 0;
        for (const FakeBelow::Issued& entry : below.issued()) requests += entry.what != "fence";
        return requests == kAll;
      });
      // By peer: the number never falls. With several executors other peers' fences say nothing.
      std::uint64_t last[3] = {0, 0, 0};
      for (const FakeBelow::Issued& entry : below.issued()) {
        if (entry.what == "fence") continue;
        const std::uint64_t number = entry.what == "message" ? entry.number >> 32 : entry.number;
        ASSERT_GE(number, last[entry.peer]) << entry.what;
        last[entry.peer] = number;
      }
    }
  }
}

// F3. What a caller may reuse when the call returns is reused here at once.
TEST(Offload, PayloadsThatMayBeReusedAreCopied) {
  FakeBelow below;
  OffloadTransport net(below, options_of(OffloadMode::kWorker));
  net.start();
  std::vector<std::byte> payload(FakeBelow::kPayloadBytesMax + 1);
  Count count;
  const std::vector<std::size_t> sizes{0, 1, 8, Request::kSmallBytes, Request::kSmallBytes + 1, 1000, 1024, 1025};
  for (const std::size_t size : sizes) {
    std::fill(payload.begin(), payload.end(), std::byte{0x11});
    EXPECT_TRUE(net.try_rpc_async({1, 200, payload.data(), size, {}, 0, count.callback()}));
    std::fill(payload.begin(), payload.end(), std::byte{0x22});
    EXPECT_TRUE(net.try_message_async({1, 200, payload.data(), size, {}}));
    std::fill(payload.begin(), payload.end(), std::byte{0x33});  // this one stays until it completes
    EXPECT_TRUE(net.try_message_async({1, 200, payload.data(), size, count.callback()}));
    net.progress();
    const std::vector<FakeBelow::Issued> issued = below.issued();
    ASSERT_GE(issued.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      const FakeBelow::Issued& entry = issued[issued.size() - 3 + i];
      EXPECT_EQ(entry.number, size);
      const auto value = static_cast<std::byte>(0x11 * (i + 1));
      if (size <= FakeBelow::kPayloadBytesMax) {
        EXPECT_EQ(entry.payload, std::vector<std::byte>(size, value));
      }
    }
  }
  EXPECT_EQ(count.done.load(), static_cast<int>(2 * sizes.size()));
}

// The executor goes to sleep, without a time limit, before each of 10,000 requests.
TEST(Offload, ASleepingExecutorIsWokenForEveryRequest) {
  FakeBelow below;
  OffloadTransport net(below, options_of(OffloadMode::kOffload));
  net.start();
  Count count;
  for (int i = 1; i <= 10'000; ++i) {
    until_true([&] { return below.asleep() == 1; });
    ASSERT_TRUE(read_from(net, 1, 0, count.callback()));
    until_true([&] { return count.done.load() == i; });
  }
  EXPECT_LE(below.wakes(), 10'000);  // one is owed, not more
}

// The same the other way round: the thread that waits sleeps too, and the executor, which runs the completion inside the
// transport's try_*, wakes it (F6).
TEST(Offload, ASleepingWaiterLearnsOfCompletionsOnTheExecutor) {
  FakeBelow below;
  OffloadTransport net(below, options_of(OffloadMode::kOffload));
  net.start();
  std::atomic<int> asked{0};
  Count count;
  std::thread waiter([&] {
    for (int i = 1; i <= 3'000; ++i) {
      asked.store(i);
      wait_until(net, [&] { return count.done.load() == i; });
    }
  });
  for (int i = 1; i <= 3'000; ++i) {
    until_true([&] { return asked.load() == i; });
    if (i % 2 == 0) until_true([&] { return below.asleep() == 2; });
    ASSERT_TRUE(read_from(net, 1, 0, count.callback()));
  }
  waiter.join();
}

// Mode worker: a thread that waits is the executor of one that only issues.
TEST(Offload, AWaitingWorkerServesThreadsThatOnlyIssue) {
  FakeBelow below;
  OffloadTransport net(below, options_of(OffloadMode::kWorker, 2));
  net.start();
  Count count;
  std::atomic<bool> end{false};
  std::vector<std::thread> waiters;
  for (int t = 0; t < 2; ++t) {
    waiters.emplace_back([&] { wait_until(net, [&] { return end.load(); }); });
  }
  for (int i = 1; i <= 2'000; ++i) {
    if (i % 2 == 0) until_true([&] { return below.asleep() == 2; });
    ASSERT_TRUE(read_from(net, i % 4, 0, count.callback()));
    until_true([&] { return count.done.load() == i; });
  }
  end.store(true);
  net.wake();
  for (std::thread& waiter : waiters) waiter.join();
}

// F5, F6: a command that finds no room is tried again by whoever sleeps, though nobody wakes them for room. Both waiters were
// asleep without a limit; one of them takes the command and must tell.
TEST(Offload, KeptCommandsAreTriedAgainBySleepers) {
  for (const OffloadMode mode : {OffloadMode::kOffload, OffloadMode::kWorker}) {
    FakeBelow below;
    OffloadTransport net(below, options_of(mode));
    net.start();
    Count count;
    std::atomic<bool> first_may_go{false};
    std::thread leaves([&] { wait_until(net, [&] { return first_may_go.load(); }); });
    std::thread waiter([&] { wait_until(net, [&] { return count.done.load() == 1; }); });
    until_true([&] { return below.asleep() == (mode == OffloadMode::kOffload ? 3 : 2); });
    below.set_room(1, false);
    ASSERT_TRUE(read_from(net, 1, 0, count.callback()));
    first_may_go.store(true);
    net.wake();
    leaves.join();
    below.set_room(1, true);
    waiter.join();
  }
}

// A progress() in a handler or completion does nothing, whoever runs it.
TEST(Offload, ProgressInAHandlerOrCompletionDoesNothing) {
  FakeBelow below;
  OffloadTransport net(below, options_of(OffloadMode::kWorker));
  net.set_handler(
      200,
      [](void* transport, const Message&) {
        auto& t = *static_cast<Transport*>(transport);
        EXPECT_TRUE(read_from(t, 1, 1));
        EXPECT_EQ(t.progress(), 0u);
      },
      &net);
  net.start();
  below.deliver(200, nullptr, 0);
  EXPECT_EQ(below.issues(), 0u);
  EXPECT_TRUE(read_from(net, 1, 2,
                        {[](void* transport, Completion) {
                           auto& t = *static_cast<Transport*>(transport);
                           EXPECT_TRUE(read_from(t, 1, 3));
                           EXPECT_EQ(t.progress(), 0u);
                         },
                         &net}));
  EXPECT_EQ(net.progress(), 3u);  // the third in the same turn, as there was room in the batch
  EXPECT_EQ(log_of(below), (Log{"read 1:1", "read 1:2", "read 1:3"}));
}

// Many threads, few tags, transports that are full now and then: everything accepted completes once, and the destructor
// waits for what is left.
TEST(Offload, WhatWasAcceptedCompletesOnceAlsoAtTheEnd) {
  for (const OffloadMode mode : {OffloadMode::kOffload, OffloadMode::kWorker}) {
    for (const int executors : {1, 3}) {
      FakeBelow below;
      constexpr int kThreads = 6;
      constexpr int kEach = 1'000;
      std::vector<Count> counts(kThreads * kEach);
      {
        OffloadTransport net(below, options_of(mode, executors, 24));
        net.start();
        std::vector<std::thread> threads;
        for (int t = 0; t < kThreads; ++t) {
          threads.emplace_back([&, t] {
            for (int i = 0; i < kEach; ++i) {
              const ProcessId peer = i % 4;
              if (i % 100 == 50) below.set_room(peer, t % 2 == 0);
              if (i % 50 == 0) below.set_deferred(t % 2 == 0);
              Count& count = counts[static_cast<std::size_t>(t * kEach + i)];
              const std::uint64_t text = 77;
              until_taken(net, [&] {
                below.set_room(peer, true);
                switch (i % 8) {
                  case 0: return net.try_flush_async(kAllProcesses, count.callback());
                  case 1: return net.try_rpc_async({peer, 200, &text, 8, {}, 0, count.callback()});
                  case 2: return net.try_fence(i % 16 == 2 ? kAllProcesses : peer) && (++count.done, true);
                  default: return read_from(net, peer, 0, count.callback());
                }
              });
            }
          });
        }
        for (std::thread& thread : threads) thread.join();
        for (ProcessId peer = 0; peer < 4; ++peer) below.set_room(peer, true);
      }
      for (const Count& count : counts) ASSERT_EQ(count.done.load(), 1);
    }
  }
}

// A request that nobody completes does not hang the end, and its record stays while the transport below may complete it.
TEST(Offload, TheEndGivesUpOnWhatNobodyCompletes) {
  FakeBelow below;
  Count count;
  {
    OffloadTransport net(below, options_of(OffloadMode::kOffload));
    net.start();
    below.set_deferred(true);
    below.let_complete(false);
    ASSERT_TRUE(read_from(net, 1, 0, count.callback()));
  }
  EXPECT_EQ(count.done.load(), 0);
  below.let_complete(true);
  below.progress();
  EXPECT_EQ(count.done.load(), 1);
}

TEST(OffloadDeathTest, MoreExecutorsThanTagsAreRefused) {
  FakeBelow below;
  EXPECT_DEATH(OffloadTransport(below, options_of(OffloadMode::kOffload, 4, 4)), "4 tags for 4 executors");
  EXPECT_DEATH(OffloadTransport(below, options_of(OffloadMode::kOffload, 0)), "0 executors");
}

}  // namespace
}  // namespace ayatori::net::offload
