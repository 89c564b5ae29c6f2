// SPDX-License-Identifier: Apache-2.0
// What the conformance suite runs on: one body per process, over three kinds of network.
//   ShmForks    real processes forked from the test, `shm`, progress threads
//   ShmThreads  the members are threads of the test, `shm` without progress threads: for the sanitizers
//   Sim         scripts on a simulated network
// Failures in a forked body are printed there and fail the test through its exit status.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "net/net.hpp"
#include "net/shm/transport.hpp"
#include "net/sim/script.hpp"
#include "net/sim/transport.hpp"

namespace ayatori::net::testing {

inline constexpr std::size_t kMemoryBytes = 64 * 1024;
inline constexpr unsigned kLimitSeconds = 100;  // a hung body is killed

struct Job {
  int processes = 3;
  bool tiny = false;  // rings of 4 units, 4 RPCs, 4 requests
  std::uint64_t seed = 1;
};

struct Context {
  Transport& net;
  std::byte* memory;          // kMemoryBytes, registered as region 0 in every process, zeroed
  std::function<void()> die;  // ends this process here and now, without a word; does not return
  int threads;                // how many OS threads of this process may use `net` at once

  RemoteAddress at(ProcessId process, std::uint64_t offset) const { return {process, 0, offset}; }
};
// Before start(): sets handlers. Then the body. Both run in each process.
using Prepare = std::function<void(Context&)>;
using Body = std::function<void(Context&)>;

struct Died {};

inline shm::ShmConfig shm_config(const Job& job) {
  shm::ShmConfig config;
  config.processes = job.processes;
  if (job.tiny) {
    config.ring_units = 4;
    config.rpcs_max = 4;
    config.nested_completions_max = 4;
  }
  return config;
}

// nullptr, or why members cannot be processes.
inline const char* forks_missing() noexcept {
#ifdef __SANITIZE_THREAD__
  return "ThreadSanitizer watches one process";
#else
  return nullptr;
#endif
}

// A process for each member, in which `life` runs; the caller waits for them (check_ends).
inline std::vector<pid_t> fork_members(int processes, const std::function<void(ProcessId)>& life) {
  std::vector<pid_t> members;
  for (ProcessId p = 0; p < processes; ++p) {
    const pid_t pid = fork();
    EXPECT_GE(pid, 0);
    if (pid == 0) {
      alarm(kLimitSeconds);
      life(p);
      fflush(nullptr);
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    members.push_back(pid);
  }
  return members;
}

// Waits for forked members.
inline void check_ends(const std::vector<pid_t>& members) {
  for (const pid_t pid : members) {
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
      EXPECT_EQ(WTERMSIG(status), SIGKILL) << "a member ended by a signal";  // die()
    else
      EXPECT_EQ(WEXITSTATUS(status), 0) << "a member failed";
  }
}

struct ShmForks {
  static constexpr bool kReal = true;
  static std::string name() { return "ShmForks"; }
  static void run(const Job& job, const Prepare& prepare, const Body& body) {
    if (const char* why = forks_missing()) GTEST_SKIP() << why;
    std::unique_ptr<shm::ShmWorld> world;
    ASSERT_TRUE(shm::ShmWorld::create(shm_config(job), &world).ok());
    auto* memory = static_cast<std::byte*>(world->map_shared(kMemoryBytes * static_cast<std::size_t>(job.processes)));
    ASSERT_NE(memory, nullptr);
    check_ends(fork_members(job.processes, [&](ProcessId p) {
      shm::ShmTransport net(*world, p);
      Context context{net, memory + kMemoryBytes * static_cast<std::size_t>(p), [] { raise(SIGKILL); }, 3};
      EXPECT_EQ(net.register_memory(context.memory, kMemoryBytes, kAllRights), 0u);
      prepare(context);
      net.start();
      barrier(net);
      body(context);
    }));
  }
};

struct ShmThreads {
  static constexpr bool kReal = true;
  static std::string name() { return "ShmThreads"; }
  static void run(const Job& job, const Prepare& prepare, const Body& body) {
    std::unique_ptr<shm::ShmWorld> world;
    ASSERT_TRUE(shm::ShmWorld::create(shm_config(job), &world).ok());
    auto* memory = static_cast<std::byte*>(world->map_shared(kMemoryBytes * static_cast<std::size_t>(job.processes)));
    ASSERT_NE(memory, nullptr);
    std::vector<std::thread> members;
    for (int p = 0; p < job.processes; ++p) {
      members.emplace_back([&, p] {
        shm::ShmOptions options;
        options.progress_thread = p % 2 == 0;  // both ways at once
        shm::ShmTransport net(*world, p, options);
        Context context{net, memory + kMemoryBytes * static_cast<std::size_t>(p), [] { throw Died{}; }, 2};
        EXPECT_EQ(net.register_memory(context.memory, kMemoryBytes, kAllRights), 0u);
        prepare(context);
        net.start();
        barrier(net);
        try {
          body(context);
        } catch (const Died&) {
          world->mark_failed(p);
        }
      });
    }
    for (std::thread& member : members) member.join();
  }
};

struct Sim {
  static constexpr bool kReal = false;
  static std::string name() { return "Sim"; }
  static void run(const Job& job, const Prepare& prepare, const Body& body) {
    sim::SimParams params;
    params.processes = job.processes;
    params.seed = job.seed;
    if (job.tiny) {
      params.inbox_messages = 2;
      params.rpcs_max = 4;
      params.requests_max = 4;
      params.payload_bytes_max = 992;
    }
    sim::SimWorld world(params);
    std::vector<std::vector<std::uint64_t>> memory(static_cast<std::size_t>(job.processes),
                                                   std::vector<std::uint64_t>(kMemoryBytes / 8));
    sim::run_scripts(world, [&](sim::SimTransport& net) {
      Context context{net, reinterpret_cast<std::byte*>(memory[static_cast<std::size_t>(net.self())].data()),
                      [&world, &net] {
                        world.kill(net.self());
                        net.progress();  // throws
                      },
                      1};
      EXPECT_EQ(net.register_memory(context.memory, kMemoryBytes, kAllRights), 0u);
      prepare(context);
      net.start();
      barrier(net);
      body(context);
    });
  }
};

// Runs `work(thread number)` on context.threads threads of this process.
inline void on_threads(Context& context, const std::function<void(int)>& work) {
  if (context.threads == 1) return work(0);
  std::vector<std::thread> threads;
  for (int t = 0; t < context.threads; ++t) threads.emplace_back([&work, t] { work(t); });
  for (std::thread& thread : threads) thread.join();
}

// A barrier of `survivors` processes, process 0 among them, when barriers are over because somebody died: counts in the
// word at `offset` of process 0. Whoever finds process 0 gone knows that it has seen them all.
inline void part(Context& context, std::uint64_t offset, int survivors) {
  atomic(context.net, context.at(0, offset), AtomicOp::kFetchAdd, 1);
  until_taken(context.net, [&] {
    std::uint64_t parted = 0;
    return !read(context.net, context.at(0, offset), &parted, 8).ok() ||
           parted == static_cast<std::uint64_t>(survivors);
  });
}

// Members that end one after the other, the others still busy: nobody hears of a failure.
template <class Network>
void leave_in_order() {
  std::atomic<int> failures{0};
  Network::run(
      {4, true, 1},
      [&](Context& c) {
        c.net.set_peer_failure_handler(
            [](void* count, ProcessId) { static_cast<std::atomic<int>*>(count)->fetch_add(1); }, &failures);
      },
      [&](Context& c) {
        for (int i = 0; i < 20; ++i) ASSERT_TRUE(barrier(c.net).ok());
        if (c.net.self() != 0) return;
        std::vector<std::byte> buffer(10'000);  // its peers go away under it
        for (int i = 0; i < 2000; ++i) {
          const Outcome outcome = read(c.net, c.at(1 + i % 3, 0), buffer.data(), i % 2 == 0 ? 8 : 10'000).outcome;
          EXPECT_TRUE(outcome == Outcome::kOk || outcome == Outcome::kPeerFailed);
        }
        wait_until(c.net, [&] { return read(c.net, c.at(1, 0), buffer.data(), 8).outcome == Outcome::kPeerFailed; });
        EXPECT_EQ(barrier(c.net).outcome, Outcome::kPeerFailed);  // nobody will come
        EXPECT_EQ(failures.load(), 0);
      });
}

// One of two threads or processes that wake each other in turn by messages, of which `turns` counts those that both got; it
// asks for the even ones as process 0. Then a sibling wakes it. Each step waits for the one before, so a lost wake-up would
// take the 20 s of its limit.
inline void take_turns_asleep(Transport& net, std::atomic<int>& turns) {
  constexpr int kTurns = 2000;
  constexpr std::int64_t kLimitNs = 20'000'000'000;
  for (int i = net.self(); i < kTurns; i += 2) {
    EXPECT_TRUE(wait_until(net, [&] { return turns.load() == i; }, kLimitNs)) << "turn " << i;
    EXPECT_TRUE(message(net, 1 - net.self(), kUserHandlers, nullptr, 0).ok());
  }
  EXPECT_TRUE(wait_until(net, [&] { return turns.load() == kTurns; }, kLimitNs));
  std::atomic<bool> flag{false};
  std::thread waker([&] {
    flag.store(true);
    net.wake();
  });
  EXPECT_TRUE(wait_until(net, [&] { return flag.load(); }, kLimitNs));
  waker.join();
}
inline void count_turn(void* turns, const Message&) { static_cast<std::atomic<int>*>(turns)->fetch_add(1); }

}  // namespace ayatori::net::testing
