// SPDX-License-Identifier: Apache-2.0
// Calls of any size that are served where they may wait (net/calls.hpp), over real processes and over threads.
#include "net/calls.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "harness.hpp"
#include "served_harness.hpp"

namespace ayatori::net::testing {
namespace {

enum : Calls::FunctionId { kReverse, kAskFurther, kCount, kCounted };

struct Member {
  std::optional<Calls> calls;
  Context* context = nullptr;
  std::uint64_t counted = 0;  // of the serving thread
};

Bytes reversed(std::span<const std::byte> bytes) { return {bytes.rbegin(), bytes.rend()}; }

Bytes numbers(std::size_t bytes) {
  Bytes result(bytes);
  for (std::size_t i = 0; i < bytes; ++i) result[i] = static_cast<std::byte>(i * 7);
  return result;
}

// A body of several members, each with its Calls.
template <class Jobs>
void run_with_calls(const std::function<void(Context&, Member&)>& body) {
  std::mutex lock;
  std::map<ProcessId, std::unique_ptr<Member>> members;
  const auto mine = [&](Context& context) -> Member& {
    const std::lock_guard guard(lock);
    auto& member = members[context.net.self()];
    if (!member) member = std::make_unique<Member>();
    return *member;
  };
  Jobs::run(
      {},
      [&](Context& context) {
        Member& m = mine(context);
        m.context = &context;
        m.calls.emplace(context.net);
        m.calls->serve(kReverse, [](void*, ProcessId, std::span<const std::byte> a) { return reversed(a); }, nullptr);
        // Waits for a one-sided read of the caller's memory while it is served.
        m.calls->serve(
            kAskFurther,
            [](void* member, ProcessId caller, std::span<const std::byte>) {
              Bytes word(8);
              Context& c = *static_cast<Member*>(member)->context;
              read(c.net, c.at(caller, 64), {word.data()}, word.size());
              return word;
            },
            &m);
        m.calls->serve(
            kCount,
            [](void* member, ProcessId, std::span<const std::byte> a) {
              static_cast<Member*>(member)->counted += a.size();
              return Bytes{};
            },
            &m);
        m.calls->serve(
            kCounted,
            [](void* member, ProcessId, std::span<const std::byte>) {
              const auto bytes = std::as_bytes(std::span(&static_cast<Member*>(member)->counted, 1));
              return Bytes(bytes.begin(), bytes.end());
            },
            &m);
        context.net.set_peer_failure_handler(
            [](void* calls, ProcessId p) { static_cast<Calls*>(calls)->on_peer_failed(p); }, &*m.calls);
      },
      [&](Context& context) {
        Member& m = mine(context);
        m.calls->start();
        barrier(context.net);
        body(context, m);
        m.calls.reset();
      });
}

template <class Jobs>
class CallsOver : public ::testing::Test {};
using Networks = ::testing::Types<ShmForks, TcpForks>;
TYPED_TEST_SUITE(CallsOver, Networks);

TYPED_TEST(CallsOver, ArgumentsAndResultsOfAnySizeArriveWhole) {
  run_with_calls<TypeParam>([](Context& context, Member& m) {
    for (const std::size_t bytes : {0, 1, 100, 4000, 5000, 70'000, 3'000'000})
      for (ProcessId p = 0; p < context.net.processes(); ++p) {
        const Bytes argument = numbers(bytes);
        const std::optional<Bytes> result = m.calls->call(p, kReverse, argument);
        ASSERT_TRUE(result.has_value());
        EXPECT_TRUE(*result == reversed(argument)) << bytes << " bytes to process " << p;
      }
    barrier(context.net);
  });
}

TYPED_TEST(CallsOver, AServedFunctionMayWaitForItsCaller) {
  run_with_calls<TypeParam>([](Context& context, Member& m) {
    const std::uint64_t mine = 1000 + static_cast<std::uint64_t>(context.net.self());
    std::memcpy(context.memory + 64, &mine, sizeof mine);
    barrier(context.net);
    for (ProcessId p = 0; p < context.net.processes(); ++p) {
      const std::optional<Bytes> result = m.calls->call(p, kAskFurther, {});
      ASSERT_TRUE(result && result->size() == 8);
      EXPECT_EQ(std::memcmp(result->data(), &mine, 8), 0);
    }
    barrier(context.net);
  });
}

TYPED_TEST(CallsOver, EveryPostIsServedOnce) {
  run_with_calls<TypeParam>([](Context& context, Member& m) {
    constexpr int kPosts = 300;
    for (int i = 0; i < kPosts; ++i) m.calls->post(0, kCount, numbers(static_cast<std::size_t>(i % 3) * 40'000 + 1));
    std::uint64_t expected = 0;
    for (int i = 0; i < kPosts; ++i) expected += static_cast<std::uint64_t>(i % 3) * 40'000 + 1;
    expected *= static_cast<std::uint64_t>(context.net.processes());
    std::uint64_t counted = 0;
    while (counted < expected) {  // ends, or the harness ends the test
      const std::optional<Bytes> result = m.calls->call(0, kCounted, {});
      ASSERT_TRUE(result && result->size() == 8);
      std::memcpy(&counted, result->data(), 8);
    }
    EXPECT_EQ(counted, expected);
    barrier(context.net);
  });
}

TYPED_TEST(CallsOver, ACallOfAProcessThatDiesReturnsNothing) {
  run_with_calls<TypeParam>([](Context& context, Member& m) {
    if (context.net.self() == 2) context.die();
    const bool noticed = wait_until(context.net, [&] { return context.net.peer_failed(2); }, 20'000'000'000);
    EXPECT_TRUE(noticed);
    EXPECT_FALSE(m.calls->call(2, kReverse, numbers(100)).has_value());
    const ProcessId other = 1 - context.net.self();
    EXPECT_TRUE(m.calls->call(other, kReverse, numbers(100)).has_value());
    // Neither leaves before the other has been answered.
    m.calls->post(other, kCount, numbers(1));
    for (std::uint64_t counted = 0; counted == 0;) {
      const std::optional<Bytes> result = m.calls->call(context.net.self(), kCounted, {});
      ASSERT_TRUE(result && result->size() == 8);
      std::memcpy(&counted, result->data(), 8);
    }
  });
}

}  // namespace
}  // namespace ayatori::net::testing
