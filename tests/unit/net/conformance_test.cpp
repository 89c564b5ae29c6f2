// SPDX-License-Identifier: Apache-2.0
// What every transport promises (net/transport.hpp N1-N8), asked of each in the same words. Every test ends by itself:
// nothing sleeps, nothing is timed; a hang is ended by the harness.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <numeric>
#include <vector>

#include "conformance.hpp"

namespace ayatori::net::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(, Conformance, ::testing::ValuesIn(networks()), name_of);

// Each process owns a third of its neighbour's memory and moves blocks of many sizes at many alignments through it; the
// bytes around each block must stay as they were.
TEST_P(Conformance, ReadsAndWritesMoveExactlyTheirBytes) {
  run({}, [](Context& c) {
    const ProcessId peer = (c.net.self() + 1) % c.net.processes();
    constexpr std::size_t kRoom = 12 * 1024;
    std::vector<std::byte> out(kRoom), in(kRoom), all(kRoom);
    for (const std::size_t size : {0, 1, 2, 7, 8, 9, 15, 16, 63, 64, 65, 255, 256, 1000, 1024, 1025, 4096, 10000}) {
      for (std::size_t shift = 0; shift < 9; shift += size > 100 ? 4 : 1) {
        const std::size_t local = (shift * 3) % 9;
        std::fill(all.begin(), all.end(), std::byte{0xEE});
        ASSERT_TRUE(write(c.net, c.at(peer, 0), all.data(), kRoom).ok());
        for (std::size_t i = 0; i < size; ++i) out[local + i] = pattern(i, static_cast<int>(size + shift));
        ASSERT_TRUE(write(c.net, c.at(peer, 16 + shift), out.data() + local, size).ok());
        ASSERT_TRUE(read(c.net, c.at(peer, 0), all.data(), kRoom).ok());
        for (std::size_t i = 0; i < kRoom; ++i) {
          const bool inside = i >= 16 + shift && i < 16 + shift + size;
          ASSERT_EQ(all[i], inside ? pattern(i - 16 - shift, static_cast<int>(size + shift)) : std::byte{0xEE})
              << "byte " << i << " size " << size << " shift " << shift;
        }
        std::fill(in.begin(), in.end(), std::byte{0xDD});
        ASSERT_TRUE(read(c.net, c.at(peer, 16 + shift), in.data() + local, size).ok());
        for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(in[local + i], out[local + i]);
        if (local != 0) {
          ASSERT_EQ(in[local - 1], std::byte{0xDD});
        }
        ASSERT_EQ(in[local + size], std::byte{0xDD});
      }
    }
    barrier(c.net);
  });
}

// All threads of all processes work on the words of process 0; the sums must come out exact.
TEST_P(Conformance, AtomicsOfAllProcessesAddUp) {
  run({}, [](Context& c) {
    constexpr int kRounds = 300;
    on_threads(c, [&](int thread) {
      const std::uint64_t bit = std::uint64_t{1} << (c.net.self() * 4 + thread);
      std::uint64_t swapped = 0;
      for (int i = 0; i < kRounds; ++i) {
        EXPECT_TRUE(atomic(c.net, c.at(0, 0), AtomicOp::kFetchAdd, 3).ok());
        std::uint64_t seen = 0;  // increment by compare and swap
        while (true) {
          const Completion done = atomic(c.net, c.at(0, 8), AtomicOp::kCompareSwap, seen + 1, seen);
          EXPECT_TRUE(done.ok());
          if (done.value == seen) break;
          seen = done.value;
        }
        const Completion set = atomic(c.net, c.at(0, 16), AtomicOp::kFetchOr, bit);
        EXPECT_EQ(set.value & bit, 0u);
        const Completion cleared = atomic(c.net, c.at(0, 16), AtomicOp::kFetchAnd, ~bit);
        EXPECT_EQ(cleared.value & bit, bit);
        swapped += atomic(c.net, c.at(0, 24), AtomicOp::kSwap, 1).value;
      }
      atomic(c.net, c.at(0, 32), AtomicOp::kFetchAdd, swapped);
    });
    barrier(c.net);
    if (c.net.self() == 0) {
      std::uint64_t words[5];
      std::memcpy(words, c.memory, sizeof words);
      const auto total = static_cast<std::uint64_t>(kRounds * c.threads * c.net.processes());
      EXPECT_EQ(words[0], total * 3);
      EXPECT_EQ(words[1], total);
      EXPECT_EQ(words[2], 0u);
      EXPECT_EQ(words[4], total - 1);  // all swaps but the first saw a 1
    }
    barrier(c.net);
  });
}

// Wrong addresses, rights, sizes: an error in the completion, memory untouched (N3).
TEST_P(Conformance, BadRequestsCompleteWithTheirError) {
  GetParam().run(
      {},
      [](Context& c) {
        EXPECT_EQ(c.net.register_memory(c.memory, 64, kReadable), 1u);
        EXPECT_EQ(c.net.register_memory(c.memory + 64, 64, kWritable), 2u);
        c.net.set_handler(kUserHandlers, [](void*, const Message&) { FAIL() << "must not arrive"; }, nullptr);
      },
      [](Context& c) {
        const ProcessId peer = (c.net.self() + 1) % c.net.processes();
        std::uint64_t buffer[32] = {};
        const auto expect = [](Completion done, Outcome outcome) {
          EXPECT_EQ(done.outcome, outcome) << outcome_name(done.outcome) << ", not " << outcome_name(outcome);
        };
        expect(read(c.net, {peer, 0, kMemoryBytes - 8}, buffer, 9), Outcome::kBadAddress);
        expect(read(c.net, {peer, 0, kMemoryBytes + 1}, buffer, 0), Outcome::kBadAddress);
        expect(read(c.net, {peer, 0, kMemoryBytes}, buffer, 0), Outcome::kOk);
        expect(read(c.net, {peer, 0, ~std::uint64_t{0} - 3}, buffer, 8), Outcome::kBadAddress);
        expect(write(c.net, {peer, 0, ~std::uint64_t{0} - 3}, buffer, 8), Outcome::kBadAddress);
        expect(read(c.net, {peer, 0, 8}, buffer, ~std::size_t{0} - 7), Outcome::kBadAddress);
        expect(read(c.net, {peer, 7, 0}, buffer, 8), Outcome::kBadAddress);
        expect(read(c.net, {peer, kNoRegion, 0}, buffer, 8), Outcome::kBadAddress);
        expect(read(c.net, {c.net.processes(), 0, 0}, buffer, 8), Outcome::kBadAddress);
        expect(write(c.net, {-1, 0, 0}, buffer, 8), Outcome::kBadAddress);
        expect(atomic(c.net, {peer, 0, 4}, AtomicOp::kFetchAdd, 1), Outcome::kBadAddress);
        expect(atomic(c.net, {peer, 0, kMemoryBytes - 4}, AtomicOp::kSwap, 1), Outcome::kBadAddress);
        expect(write(c.net, {peer, 1, 0}, buffer, 8), Outcome::kNoRights);
        expect(read(c.net, {peer, 2, 0}, buffer, 8), Outcome::kNoRights);
        expect(atomic(c.net, {peer, 2, 0}, AtomicOp::kSwap, 1), Outcome::kNoRights);
        std::vector<std::byte> large(c.net.limits().payload_bytes_max + 1);
        expect(message(c.net, peer, kUserHandlers, nullptr, c.net.limits().long_bytes_max + 1), Outcome::kTooLarge);
        expect(message(c.net, 99, kUserHandlers, buffer, 8), Outcome::kBadAddress);
        expect(rpc(c.net, peer, kUserHandlers, large.data(), large.size(), buffer, 8), Outcome::kTooLarge);
        expect(rpc(c.net, -1, kUserHandlers, buffer, 8, buffer, 8), Outcome::kBadAddress);
        EXPECT_EQ(c.net.direct_pointer({peer, 0, kMemoryBytes}, 1), nullptr);
        barrier(c.net);
        for (std::size_t i = 0; i < kMemoryBytes; ++i) ASSERT_EQ(c.memory[i], std::byte{0});
        c.net.unregister_memory(2);
        barrier(c.net);
        expect(write(c.net, {peer, 2, 0}, buffer, 8), Outcome::kBadAddress);
        barrier(c.net);
      });
}

TEST_P(Conformance, DirectPointersAreWhatTheCapabilitySays) {
  run({}, [](Context& c) {
    const ProcessId peer = (c.net.self() + 1) % c.net.processes();
    void* direct = c.net.direct_pointer(c.at(peer, 128), 8);
    bool all_here = true;
    for (ProcessId p = 0; p < c.net.processes(); ++p) all_here = all_here && c.net.on_this_machine(p);
    const bool can = c.net.capabilities().direct_pointer;
    if (direct != nullptr) {
      ASSERT_TRUE(can && c.net.on_this_machine(peer));
      const std::uint64_t mine = 1000 + static_cast<std::uint64_t>(c.net.self());
      std::memcpy(direct, &mine, 8);
      std::uint64_t one = 1;
      ASSERT_TRUE(write(c.net, c.at(peer, 136), &one, 8).ok());
    } else {
      ASSERT_FALSE(can && all_here);
    }
    barrier(c.net);
    std::uint64_t got[2] = {};  // word, whether it was written
    std::memcpy(got, c.memory + 128, 16);
    const int writer = (c.net.self() + c.net.processes() - 1) % c.net.processes();
    EXPECT_EQ(got[0], got[1] * (1000 + static_cast<std::uint64_t>(writer)));
    barrier(c.net);
  });
}

// Every thread sends numbered messages of many sizes to everybody, itself included, through rings that are nearly always
// full; each number must arrive exactly once, intact.
struct Received {
  std::mutex mutex;
  std::vector<std::vector<int>> seen;  // [source * threads + thread][number]
  std::atomic<int> count{0};
  int broken = 0;
};
void receive(void* context, const Message& message) {
  auto& received = *static_cast<Received*>(context);
  std::uint32_t head[2];
  std::memcpy(head, message.payload, 8);
  std::lock_guard lock(received.mutex);
  for (std::size_t i = 8; i < message.size_bytes; ++i)
    received.broken += message.payload[i] != pattern(i, static_cast<int>(head[1]));
  ++received.seen[static_cast<std::size_t>(message.source) * 4 + head[0]][head[1]];
  received.count.fetch_add(1, std::memory_order_release);
}

TEST_P(Conformance, MessagesThroughFullRingsArriveOnceAndIntact) {
  constexpr int kEach = 150;
  for (const std::uint64_t seed : {1, 2, 3}) {
    if (GetParam().real && seed > 1) break;
    Received received_of[4];  // in threads and sim each process needs its own
    for (Received& r : received_of) r.seen.assign(16, std::vector<int>(kEach));
    GetParam().run(
        {4, true, seed}, [&](Context& c) { c.net.set_handler(kUserHandlers, receive, &received_of[c.net.self()]); },
        [&](Context& c) {
          on_threads(c, [&](int thread) {
            std::vector<std::byte> payload(c.net.limits().payload_bytes_max);
            for (int i = 0; i < kEach; ++i) {
              const std::uint32_t head[2] = {static_cast<std::uint32_t>(thread), static_cast<std::uint32_t>(i)};
              std::memcpy(payload.data(), head, 8);
              const std::size_t size = 8 + static_cast<std::size_t>(i * 37) % (payload.size() - 8 + 1);
              for (std::size_t b = 8; b < size; ++b) payload[b] = pattern(b, i);
              for (ProcessId to = 0; to < c.net.processes(); ++to)
                EXPECT_TRUE(message(c.net, to, kUserHandlers, payload.data(), size).ok());
            }
          });
          Received& mine = received_of[c.net.self()];
          const int total = kEach * c.threads * c.net.processes();
          wait_until(c.net, [&] { return mine.count.load(std::memory_order_acquire) == total; });
          barrier(c.net);
          std::lock_guard lock(mine.mutex);
          EXPECT_EQ(mine.broken, 0);
          for (int p = 0; p < c.net.processes(); ++p)
            for (int t = 0; t < c.threads; ++t)
              for (int i = 0; i < kEach; ++i)
                ASSERT_EQ(mine.seen[static_cast<std::size_t>(p * 4 + t)][static_cast<std::size_t>(i)], 1);
        });
  }
}

void echo(void* context, const Message& message) {
  std::vector<std::byte> answer(message.payload, message.payload + message.size_bytes);
  std::reverse(answer.begin(), answer.end());
  static_cast<Transport*>(context)->reply(message.token, answer.data(), answer.size());
}

// Long messages in both directions at once and to oneself, several under way, short ones between them (a long message holds
// up no short one: the sender gets its answers while the long ones are under way).
struct Arrived {
  std::mutex mutex;
  std::vector<int> times = std::vector<int>(64);  // [source * 16 + number]
  std::atomic<int> count{0};
  int broken = 0;
};
void receive_long(void* context, const Message& message) {
  auto& arrived = *static_cast<Arrived*>(context);
  std::uint32_t number = 0;
  std::memcpy(&number, message.payload, 4);
  std::lock_guard lock(arrived.mutex);
  arrived.broken += reinterpret_cast<std::uintptr_t>(message.payload) % 8 != 0;
  for (std::size_t i = 4; i < message.size_bytes; ++i)
    arrived.broken += message.payload[i] != pattern(i, static_cast<int>(number) + message.source);
  ++arrived.times[static_cast<std::size_t>(message.source) * 16 + number];
  arrived.count.fetch_add(1, std::memory_order_release);
}

TEST_P(Conformance, LongMessagesArriveOnceAndWhole) {
  for (const bool tiny : {false, true}) {
    Arrived arrived_of[3];
    GetParam().run(
        {3, tiny, 13},
        [&](Context& c) {
          c.net.set_handler(kUserHandlers, receive_long, &arrived_of[c.net.self()]);
          c.net.set_handler(kUserHandlers + 1, echo, &c.net);
        },
        [&](Context& c) {
          const std::size_t at_once = c.net.limits().payload_bytes_max;
          const std::size_t sizes[] = {at_once + 1, 3 * at_once, 100'001, 1'000'000};
          std::deque<std::vector<std::byte>> payloads;
          std::deque<Event> events;
          for (ProcessId to = 0; to < c.net.processes(); ++to) {
            for (std::uint32_t k = 0; k < 4; ++k) {
              std::vector<std::byte>& payload = payloads.emplace_back(sizes[k]);
              std::memcpy(payload.data(), &k, 4);
              for (std::size_t i = 4; i < payload.size(); ++i)
                payload[i] = pattern(i, static_cast<int>(k) + c.net.self());
              const Callback done = events.emplace_back().callback();
              until_taken(c.net, [&] {
                return c.net.try_message_async({to, kUserHandlers, payload.data(), payload.size(), done});
              });
            }
            std::uint64_t word = 77, answer = 0;
            ASSERT_TRUE(rpc(c.net, to, kUserHandlers + 1, &word, 8, &answer, 8).ok());
          }
          for (Event& event : events) ASSERT_TRUE(event.wait(c.net).ok());
          Arrived& mine = arrived_of[c.net.self()];
          wait_until(c.net, [&] { return mine.count.load(std::memory_order_acquire) == 4 * c.net.processes(); });
          barrier(c.net);
          std::lock_guard lock(mine.mutex);
          EXPECT_EQ(mine.broken, 0);
          for (int p = 0; p < c.net.processes(); ++p)
            for (int k = 0; k < 4; ++k) EXPECT_EQ(mine.times[static_cast<std::size_t>(p * 16 + k)], 1);
        });
  }
}

// More long messages than may be under way, to a receiver that dies among them: each completes, none hangs.
TEST_P(Conformance, LongMessagesToADeadPeerComplete) {
  std::atomic<int> heard{0};  // of process 1
  GetParam().run(
      {3, false, 14},
      [&](Context& c) {
        c.net.set_handler(
            kUserHandlers, [](void* count, const Message&) { static_cast<std::atomic<int>*>(count)->fetch_add(1); },
            &heard);
      },
      [&](Context& c) {
        const ProcessId dead = c.net.processes() - 1;
        if (c.net.self() == dead) {
          wait_until(c.net, [&] { return heard.load() >= 2; });
          c.die();
        }
        std::vector<std::byte> payload(200'000);
        std::deque<Event> events(100);
        for (Event& event : events)
          until_taken(c.net, [&] {
            return c.net.try_message_async({dead, kUserHandlers, payload.data(), payload.size(), event.callback()});
          });
        for (Event& event : events) {
          const Completion done = event.wait(c.net);
          EXPECT_TRUE(done.ok() || done.outcome == Outcome::kPeerFailed);
        }
        wait_until(c.net, [&] { return c.net.peer_failed(dead); });
        EXPECT_EQ(message(c.net, dead, kUserHandlers, payload.data(), payload.size()).outcome, Outcome::kPeerFailed);
        part(c, 0, dead);
      });
}

// RPC storms: every thread keeps several RPCs open to everybody; handlers answer at once; each answer belongs to its question.
TEST_P(Conformance, AnswersOfAStormBelongToTheirQuestions) {
  constexpr int kRounds = 60;
  constexpr int kOpen = 6;
  for (const bool tiny : {false, true}) {
    GetParam().run(
        {3, tiny, 5}, [](Context& c) { c.net.set_handler(kUserHandlers, echo, &c.net); },
        [&](Context& c) {
          on_threads(c, [&](int thread) {
            struct Question {
              std::vector<std::byte> text, answer;
              Completion completion;
              std::atomic<bool> done{false};
            };
            for (int round = 0; round < kRounds; ++round) {
              std::deque<Question> open(kOpen);
              for (int k = 0; k < kOpen; ++k) {
                Question& q = open[static_cast<std::size_t>(k)];
                const std::size_t size = static_cast<std::size_t>((round * 61 + k * 17) % 600);
                for (std::size_t i = 0; i < size; ++i) q.text.push_back(pattern(i, thread * 1000 + round * 10 + k));
                q.answer.resize(size + 1);
                const RpcParams params{(c.net.self() + k) % c.net.processes(),
                                       kUserHandlers,
                                       q.text.data(),
                                       size,
                                       q.answer.data(),
                                       size,
                                       {[](void* data, Completion completion) {
                                          auto& question = *static_cast<Question*>(data);
                                          question.completion = completion;
                                          question.done.store(true, std::memory_order_release);
                                        },
                                        &q}};
                until_taken(c.net, [&] { return c.net.try_rpc_async(params); });
              }
              for (Question& q : open) {
                wait_until(c.net, [&] { return q.done.load(std::memory_order_acquire); });
                ASSERT_TRUE(q.completion.ok());
                ASSERT_EQ(q.completion.reply_bytes, q.text.size());
                ASSERT_TRUE(std::equal(q.text.rbegin(), q.text.rend(), q.answer.begin()));
              }
            }
          });
          barrier(c.net);
        });
  }
}

// An answer may come long after the handler, from another context, in another order; one larger than its room is an error.
TEST_P(Conformance, AnswersMayComeLaterAndMustFit) {
  struct Parked {
    std::mutex mutex;
    std::vector<ReplyToken> tokens;
    std::atomic<std::size_t> count{0};
  };
  Parked parked_of[3];
  GetParam().run(
      {},
      [&](Context& c) {
        c.net.set_handler(
            kUserHandlers,
            [](void* context, const Message& message) {
              auto& parked = *static_cast<Parked*>(context);
              std::lock_guard lock(parked.mutex);
              parked.tokens.push_back(message.token);
              parked.count.fetch_add(1, std::memory_order_release);
            },
            &parked_of[c.net.self()]);
      },
      [&](Context& c) {
        const ProcessId peer = (c.net.self() + 1) % c.net.processes();
        std::uint64_t answers[8] = {};
        Event events[8];
        for (int k = 0; k < 8; ++k) {
          const RpcParams params{peer, kUserHandlers, nullptr, 0, &answers[k], k == 3 ? 4u : 8u, events[k].callback()};
          until_taken(c.net, [&] { return c.net.try_rpc_async(params); });
        }
        Parked& mine = parked_of[c.net.self()];
        wait_until(c.net, [&] { return mine.count.load(std::memory_order_acquire) == 8; });
        for (std::size_t k = 8; k-- > 0;) {
          const std::uint64_t value = 42;
          c.net.reply(mine.tokens[k], &value, 8);
        }
        int too_large = 0;
        for (int k = 0; k < 8; ++k) {
          const Completion done = events[k].wait(c.net);
          too_large += done.outcome == Outcome::kTooLarge;
          EXPECT_EQ(answers[k], done.ok() ? 42u : 0u);
        }
        EXPECT_EQ(too_large, 1);
        barrier(c.net);
      });
}

// A chain of 3,000 reads in which each completion issues the next: no recursion, no loss. Where a completion is refused,
// the body takes the chain up again.
struct Chain {
  Context* context;
  std::uint64_t word = 0;
  std::atomic<int> left{3000};
  std::atomic<bool> refused{false};

  void issue() {
    const ProcessId peer = (context->net.self() + 1) % context->net.processes();
    const bool taken = context->net.try_read_async({peer,
                                                    context->at(peer, 0),
                                                    &word,
                                                    8,
                                                    {[](void* data, Completion done) {
                                                       auto& chain = *static_cast<Chain*>(data);
                                                       EXPECT_TRUE(done.ok());
                                                       if (chain.left.fetch_sub(1, std::memory_order_acq_rel) > 1)
                                                         chain.issue();
                                                     },
                                                     this}});
    if (!taken) refused.store(true, std::memory_order_release);
  }
};
TEST_P(Conformance, CompletionsMayIssueRequests) {
  run({3, true, 4}, [](Context& c) {
    Chain chain;
    chain.context = &c;
    chain.issue();
    wait_until(c.net, [&] {
      if (chain.refused.exchange(false, std::memory_order_acq_rel)) chain.issue();
      return chain.left.load(std::memory_order_acquire) == 0;
    });
    // Fan-out: one completion asks for 50 more than there is room for; those refused do not happen, the others do.
    struct Fan {
      Context* context;
      std::uint64_t words[64] = {};
      std::atomic<int> issued{0}, done{0}, refused{0};
    } fan;
    fan.context = &c;
    const auto leaf = [](void* data, Completion) {
      static_cast<Fan*>(data)->done.fetch_add(1, std::memory_order_release);
    };
    static constexpr auto kLeaf = +leaf;
    const auto root = [](void* data, Completion) {
      auto& f = *static_cast<Fan*>(data);
      for (int i = 0; i < 50; ++i) {
        const bool taken = f.context->net.try_read_async({0, f.context->at(0, 0), &f.words[i], 8, {kLeaf, &f}});
        (taken ? f.issued : f.refused).fetch_add(1, std::memory_order_relaxed);
      }
      f.done.fetch_add(1, std::memory_order_release);
    };
    std::uint64_t word = 0;
    until_taken(c.net, [&] { return c.net.try_read_async({0, c.at(0, 0), &word, 8, {root, &fan}}); });
    wait_until(c.net, [&] {
      return fan.done.load(std::memory_order_acquire) > 0 &&
             fan.done.load(std::memory_order_acquire) == 1 + fan.issued.load(std::memory_order_relaxed);
    });
    EXPECT_GT(fan.refused.load(), 0);
    EXPECT_GT(fan.issued.load(), 0);
    barrier(c.net);
  });
}

TEST_P(Conformance, AFlushEndsAfterAllWritesBeforeIt) {
  run({3, false, 6}, [](Context& c) {
    const ProcessId peer = (c.net.self() + 1) % c.net.processes();
    std::vector<std::uint64_t> values(100), seen(100);
    std::iota(values.begin(), values.end(), 5u);
    for (std::size_t i = 0; i < values.size(); ++i)
      until_taken(c.net, [&] { return c.net.try_write_async({peer, c.at(peer, i * 8), &values[i], 8, {}}); });
    ASSERT_TRUE(flush(c.net).ok());
    ASSERT_TRUE(read(c.net, c.at(peer, 0), seen.data(), 800).ok());
    EXPECT_EQ(seen, values);
    barrier(c.net);
  });
}

TEST_P(Conformance, CountersCountRemoteTrafficExactly) {
  std::atomic<bool> measured{false};  // that of process 1
  GetParam().run(
      {2, false, 1},
      [&](Context& c) {
        c.net.set_handler(kUserHandlers, echo, &c.net);
        c.net.set_handler(
            kUserHandlers + 1, [](void* flag, const Message&) { static_cast<std::atomic<bool>*>(flag)->store(true); },
            &measured);
      },
      [&](Context& c) {
        if (c.net.self() == 1) {
          wait_until(c.net, [&] { return measured.load(); });
          barrier(c.net);
          return;
        }
        const Counters before = c.net.counters();
        std::byte buffer[512] = {};
        read(c.net, c.at(1, 0), buffer, 100);
        write(c.net, c.at(1, 0), buffer, 70);
        atomic(c.net, c.at(1, 0), AtomicOp::kFetchAdd, 1);
        rpc(c.net, 1, kUserHandlers, buffer, 33, buffer, 33);
        read(c.net, c.at(0, 0), buffer, 100);  // to itself: no traffic
        const Counters after = c.net.counters();
        EXPECT_EQ(after.messages_sent - before.messages_sent, 4u);
        EXPECT_EQ(after.bytes_sent - before.bytes_sent, 70u + 33u);
        EXPECT_EQ(after.bytes_received - before.bytes_received, 100u + 33u);
        message(c.net, 1, kUserHandlers + 1, nullptr, 0);
        barrier(c.net);
      });
}

// The last process goes silent with RPCs unanswered and a barrier open: everything that needed it ends with kPeerFailed,
// what did not goes on (N7).
TEST_P(Conformance, ADeadPeerIsAnErrorAndNotAHang) {
  struct Notice {
    std::atomic<int> times{0};
    std::atomic<int> who{-1};
  };
  Notice notices[4];
  std::atomic<int> held_of[4] = {};
  GetParam().run(
      {4, false, 21},
      [&](Context& c) {
        c.net.set_handler(  // keeps its question for ever
            kUserHandlers, [](void* held, const Message&) { static_cast<std::atomic<int>*>(held)->fetch_add(1); },
            &held_of[c.net.self()]);
        c.net.set_handler(kUserHandlers + 1, echo, &c.net);
        c.net.set_peer_failure_handler(
            [](void* context, ProcessId failed) {
              auto& notice = *static_cast<Notice*>(context);
              notice.who.store(failed);
              notice.times.fetch_add(1);
            },
            &notices[c.net.self()]);
      },
      [&](Context& c) {
        const ProcessId dead = c.net.processes() - 1;
        if (c.net.self() == dead) {
          wait_until(c.net, [&] { return held_of[dead].load() == dead; });
          c.die();
        }
        std::uint64_t word = 7;
        EXPECT_EQ(rpc(c.net, dead, kUserHandlers, &word, 8, &word, 8).outcome, Outcome::kPeerFailed);
        EXPECT_EQ(barrier(c.net).outcome, Outcome::kPeerFailed);
        wait_until(c.net, [&] { return notices[c.net.self()].times.load() != 0; });
        EXPECT_TRUE(c.net.peer_failed(dead));
        EXPECT_EQ(notices[c.net.self()].who.load(), dead);
        EXPECT_EQ(read(c.net, c.at(dead, 0), &word, 8).outcome, Outcome::kPeerFailed);
        EXPECT_EQ(write(c.net, c.at(dead, 0), &word, 8).outcome, Outcome::kPeerFailed);
        EXPECT_EQ(atomic(c.net, c.at(dead, 0), AtomicOp::kSwap, 1).outcome, Outcome::kPeerFailed);
        EXPECT_EQ(message(c.net, dead, kUserHandlers, &word, 8).outcome, Outcome::kPeerFailed);
        EXPECT_EQ(rpc(c.net, dead, kUserHandlers, &word, 8, &word, 8).outcome, Outcome::kPeerFailed);
        EXPECT_EQ(barrier(c.net).outcome, Outcome::kPeerFailed);
        // The living still reach each other.
        const ProcessId peer = (c.net.self() + 1) % dead;
        EXPECT_TRUE(rpc(c.net, peer, kUserHandlers + 1, &word, 8, &word, 8).ok());
        part(c, 0, dead);
        EXPECT_EQ(notices[c.net.self()].times.load(), 1);
      });
}

TEST_P(Conformance, AWaitEndsAtItsTimeLimit) {
  run({2, false, 1}, [](Context& c) {
    EXPECT_FALSE(wait_until(c.net, [] { return false; }, 3'000'000));
    barrier(c.net);
  });
}

}  // namespace
}  // namespace ayatori::net::testing
