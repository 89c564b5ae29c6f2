// SPDX-License-Identifier: Apache-2.0
// Jobs over a served transport on this machine's loopback, for the conformance suite and the transports' own tests. A wire
// says how a transport over it is made (TcpWire).
//   ServedForks    real processes forked from the test
//   ServedThreads  the members are threads of the test: for the sanitizers
#pragma once

#include <memory>
#include <string>

#include "harness.hpp"
#include "net/tcp/transport.hpp"

namespace ayatori::net::testing {

// What the members of one job are told: made before the fork.
class TcpJob {
 public:
  explicit TcpJob(const Job& job, const std::string& address = tcp::kLoopback)
      : listeners_(static_cast<std::size_t>(job.processes)) {
    config_.processes = job.processes;
    config_.addresses.resize(listeners_.size());
    config_.job = job.seed;
    config_.secret.fill(static_cast<unsigned char>(job.seed * 7 + 1));
    if (job.tiny) {
      config_.payload_bytes_max = 992;
      config_.inline_bytes_max = kWholeWordBytesMax;
      config_.requests_max = 4;
      config_.send_queue_bytes = 1500;
      config_.nested_completions_max = 4;
    }
    for (std::size_t p = 0; p < listeners_.size(); ++p) {
      const base::Status status = tcp::listen_on(address, 0, &listeners_[p], &config_.addresses[p]);
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }

  static constexpr const char* kPrefix = "";

  int processes() const noexcept { return config_.processes; }
  std::byte* memory(ProcessId) const noexcept { return nullptr; }  // that all share: none
  tcp::TcpConfig& config() noexcept { return config_; }            // of all members
  // What member `self` gets; its listener leaves this object.
  tcp::TcpConfig take(ProcessId self) {
    tcp::TcpConfig mine = config_;
    mine.self = self;
    mine.listener = listeners_[static_cast<std::size_t>(self)].release();
    return mine;
  }
  // In a process that plays no member, or one whose own listener was taken.
  void close_listeners() { listeners_.clear(); }

 private:
  tcp::TcpConfig config_;
  std::vector<tcp::Socket> listeners_;
};

// One member's life: transport, memory (its own, or `shared`), prepare, barrier, body.
template <class Wire>
void run_member(tcp::TcpConfig config, int threads, const std::function<void()>& die, const Prepare& prepare,
                const Body& body, std::byte* shared = nullptr, bool is_process = true) {
  std::vector<std::uint64_t> own(kMemoryBytes / 8);
  const auto made = Wire::make(std::move(config));
  ASSERT_NE(made, nullptr);
  std::byte* memory = shared != nullptr ? shared : reinterpret_cast<std::byte*>(own.data());
  if constexpr (requires { Wire::allocate(*made, kMemoryBytes); }) memory = Wire::allocate(*made, kMemoryBytes);
  ASSERT_NE(memory, nullptr);
  Transport& net = *made;
  const auto end = [&made, &die, is_process] {
    Wire::before_death(*made, is_process);
    die();
  };
  Context context{net, memory, end, threads};
  EXPECT_EQ(net.register_memory(context.memory, kMemoryBytes, kAllRights), 0u);
  prepare(context);
  net.start();
  barrier(net);
  try {
    body(context);
  } catch (const Died&) {
    made->sever();
  }
}

// `Members`: TcpJob, or what tells members more (mixed_harness.hpp).
template <class Wire, class Members = TcpJob>
struct ServedForks {
  static constexpr bool kReal = true;
  static std::string name() { return std::string(Members::kPrefix) + Wire::kName + "Forks"; }
  // Returns the members; the caller waits for them (check_ends).
  static std::vector<pid_t> start(Members& job, const Prepare& prepare, const Body& body) {
    std::vector<pid_t> members = fork_members(job.processes(), [&](ProcessId p) {
      tcp::TcpConfig mine = job.take(p);
      job.close_listeners();
      run_member<Wire>(std::move(mine), 3, [] { raise(SIGKILL); }, prepare, body, job.memory(p));
    });
    job.close_listeners();
    return members;
  }
  static void run(const Job& job, const Prepare& prepare, const Body& body) {
    if (const char* why = forks_missing()) GTEST_SKIP() << why;
    if (const char* why = Wire::missing()) GTEST_SKIP() << why;
    Members made(job);
    check_ends(start(made, prepare, body));
  }
};

template <class Wire, class Members = TcpJob>
struct ServedThreads {
  static constexpr bool kReal = true;
  static std::string name() { return std::string(Members::kPrefix) + Wire::kName + "Threads"; }
  static void run(const Job& job, const Prepare& prepare, const Body& body) {
    if (const char* why = Wire::missing()) GTEST_SKIP() << why;
    Members made(job);
    std::vector<std::thread> members;
    for (ProcessId p = 0; p < job.processes; ++p) {
      tcp::TcpConfig mine = made.take(p);
      mine.progress_thread = p % 2 == 0;  // both ways at once
      members.emplace_back(
          [&, mine, p] { run_member<Wire>(mine, 2, [] { throw Died{}; }, prepare, body, made.memory(p), false); });
    }
    for (std::thread& member : members) member.join();
  }
};

struct TcpWire {
  static constexpr const char* kName = "Tcp";
  using Forks = ServedForks<TcpWire>;
  using Threads = ServedThreads<TcpWire>;
  static const char* missing() { return nullptr; }
  static void before_death(tcp::TcpTransport&, bool) {}
  static constexpr bool kStopsItself = false;  // it may be stopped anywhere
  static void use(const char*) {}              // this interface in this process
  static std::unique_ptr<tcp::TcpTransport> make(tcp::TcpConfig config) {
    return std::make_unique<tcp::TcpTransport>(std::move(config));
  }
};
using TcpForks = TcpWire::Forks;
using TcpThreads = TcpWire::Threads;

}  // namespace ayatori::net::testing
