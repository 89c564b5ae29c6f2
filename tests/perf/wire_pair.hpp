// SPDX-License-Identifier: Apache-2.0
// What the figures of the wires have in common: two processes over loopback, what a user's program does with a transport,
// and bars on ratios. What is compared takes turns in each of many jobs; a bar looks at the ratio of the means of their middle
// half.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "net/net.hpp"
#include "net/tcp/config.hpp"
#include "net/tcp/socket.hpp"

namespace wire {

using namespace ayatori;

constexpr std::size_t kBytesMax = std::size_t{4} << 20;
constexpr int kWindow = 8;  // transfers under way
constexpr double kLimit = 1.2;
constexpr std::size_t kSizes[] = {8, 4 << 10, 64 << 10, kBytesMax};

inline std::string size_name(std::size_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  return bytes < (1 << 20) ? std::to_string(bytes >> 10) + " KiB" : std::to_string(bytes >> 20) + " MiB";
}
// Transfers in one batch: some 20 ms of them.
inline int batch_of(std::size_t bytes, bool stream) {
  const std::size_t most = stream ? 2000 : 600;
  return static_cast<int>(
      std::clamp<std::size_t>((static_cast<std::size_t>(stream ? 64 : 32) << 20) / bytes, 2 * kWindow, most));
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// --- bars ---

class Bars {
 public:
  Bars(const char* theirs, const char* ours) : theirs_(theirs), ours_(ours) {}
  void header() const { std::printf("%-34s %12s %12s  %-20s limit\n", "", theirs_, ours_, "ratio [low, high]"); }

  // One line, of nanoseconds a transfer in each job. In brackets: ours at the quarters, over the mean of theirs.
  void line(const std::string& name, const std::vector<double>& theirs, const std::vector<double>& ours) {
    const Middle their = middle(theirs), our = middle(ours);
    print(name, their.mean, our.mean, our.mean / their.mean, our.low / their.mean, our.high / their.mean);
  }
  int missed() const { return missed_; }

 private:
  struct Middle {
    double low, mean, high;
  };
  static Middle middle(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t out = values.size() / 4;
    double sum = 0;
    for (std::size_t i = out; i < values.size() - out; ++i) sum += values[i];
    return {values[out], sum / static_cast<double>(values.size() - 2 * out), values[values.size() - 1 - out]};
  }
  void print(const std::string& name, double theirs_ns, double our_ns, double ratio, double low, double high) {
    const bool kept = ratio <= kLimit;
    missed_ += !kept;
    std::printf("%-34s %9.2f us %9.2f us  %5.2f [%.2f, %.2f]   %.1f %s\n", name.c_str(), theirs_ns / 1e3, our_ns / 1e3,
                ratio, low, high, kLimit, kept ? "kept" : "missed");
    std::fflush(stdout);
  }
  const char* theirs_;
  const char* ours_;
  int missed_ = 0;
};

// --- jobs ---

using Connection = std::array<net::tcp::Socket, 2>;

inline Connection connect() {
  net::tcp::Socket listener;
  Connection ends;
  net::tcp::SocketAddress address, from;
  if (!net::tcp::listen_on(net::tcp::kLoopback, 0, &listener, &address).ok()) std::exit(3);
  if (net::tcp::begin_connect(address, ends.data()) != 0) std::exit(3);
  pollfd polled{listener.fd(), POLLIN, 0};
  poll(&polled, 1, 10'000);
  from.bytes = sizeof from.storage;
  ends[1] = net::tcp::Socket(accept4(listener.fd(), from.get(), &from.bytes, SOCK_NONBLOCK));
  net::tcp::set_connection_options(ends[1].fd(), from);
  return ends;
}

// Where the kernel puts the two sockets of a connection in its memory decides whether 8 bytes there and back take 5.5 or
// 6.8 us, for as long as the connection lives and whoever uses it; some pages of sockets are quick, others slow. With others
// open beside them, as many as chance says, those of a job take other places than those of the job before.
class OtherConnections {
 public:
  explicit OtherConnections(unsigned seed) : random_(seed) {}
  void open_some() {
    for (unsigned i = static_cast<unsigned>(random_()) % kMax; i > 0; --i) open_.push_back(connect());
  }
  void close_all() { open_.clear(); }

 private:
  static constexpr unsigned kMax = 30;  // some four pages
  std::mt19937 random_;
  std::vector<Connection> open_;
};

struct Line {  // of one job
  char name[48];
  double theirs_ns, our_ns;
};

// From a job to run_jobs().
inline bool tell(int results, const std::string& name, double theirs_ns, double our_ns) {
  Line line{{}, theirs_ns, our_ns};
  name.copy(line.name, sizeof line.name - 1);
  return write(results, &line, sizeof line) == sizeof line;
}

// job(other connections, results) one after the other, in processes of their own; prints the lines that they tell. Returns the
// program's status.
template <class Job>
int run_jobs(int jobs, Bars& bars, Job&& job) {
  std::vector<std::string> names;  // as they come
  std::map<std::string, std::array<std::vector<double>, 2>> times_ns;
  for (int j = 0; j < jobs; ++j) {
    int results[2];
    if (pipe2(results, O_CLOEXEC) != 0) return 3;
    const pid_t member = fork();
    if (member == 0) {
      close(results[0]);
      OtherConnections others(static_cast<unsigned>(j));
      _exit(job(others, results[1]));
    }
    close(results[1]);
    Line line;
    while (read(results[0], &line, sizeof line) == sizeof line) {
      if (!times_ns.contains(line.name)) names.emplace_back(line.name);
      times_ns[line.name][0].push_back(line.theirs_ns);
      times_ns[line.name][1].push_back(line.our_ns);
    }
    close(results[0]);
    int status = 0;
    if (waitpid(member, &status, 0) < 0 || status != 0) return 3;
  }
  bars.header();
  for (const std::string& name : names) bars.line(name, times_ns[name][0], times_ns[name][1]);
  return bars.missed() != 0;
}

// --- what is measured ---

// Nanoseconds a transfer of work(count), which each of the two does, between barriers.
template <class Work>
double timed(net::Transport& net, int count, Work&& work) {
  net::barrier(net);
  const std::int64_t start_ns = base::real_now_ns();
  work(count);
  const double ns = static_cast<double>(base::real_now_ns() - start_ns) / count;
  net::barrier(net);
  return ns;
}

// --- what is done with a transport; process 0 does, 1 serves ---

// `count` requests, kWindow at a time.
template <class Issue>
void stream(net::Transport& net, int count, Issue&& issue) {
  net::Event events[kWindow];
  for (int i = 0; i < count; ++i) {
    net::Event& event = events[i % kWindow];
    if (i >= kWindow) event.wait(net);
    net::until_taken(net, [&] { return issue(event.callback()); });
  }
  for (int i = 0; i < std::min(count, kWindow); ++i) events[i].wait(net);
}

class Partner {
 public:
  static constexpr net::HandlerId kEcho = net::kUserHandlers, kCount = net::kUserHandlers + 1;

  // Before start().
  explicit Partner(net::Transport& net) : net_(net), memory_(kBytesMax), local_(kBytesMax) {
    net.register_memory(memory_.data(), memory_.size(), net::kAllRights);
    net.set_handler(
        kEcho,
        [](void* self, const net::Message& message) {
          static_cast<Partner*>(self)->net_.reply(message.token, message.payload, message.size_bytes);
        },
        this);
    net.set_handler(
        kCount,
        [](void* self, const net::Message&) {
          // release: pairs with await()
          static_cast<Partner*>(self)->arrived_.fetch_add(1, std::memory_order_release);
        },
        this);
  }

  bool first() const { return net_.self() == 0; }
  std::byte* local() { return local_.data(); }
  bool fits(std::size_t bytes) const { return bytes <= net_.limits().payload_bytes_max; }

  void rpcs(std::size_t bytes, int count) {
    if (!first()) return;  // waits in the barrier, which serves
    for (int i = 0; i < count; ++i) net::rpc(net_, 1, kEcho, local(), bytes, local(), bytes);
  }
  // There and back, by messages of any length.
  void messages(std::size_t bytes, int count) {
    for (int i = 0; i < count; ++i) {
      if (first()) send(bytes);
      await(1);
      if (!first()) send(bytes);
    }
  }
  // One way; the last is answered.
  void message_stream(std::size_t bytes, int count) {
    if (first()) {
      stream(net_, count,
             [&](net::Callback done) { return net_.try_message_async({1, kCount, local(), bytes, done}); });
      return await(1);
    }
    await(count);
    send(8);
  }
  void reads(std::size_t bytes, int count, int window) {
    if (!first()) return;
    if (window == 1)
      for (int i = 0; i < count; ++i) net::read(net_, {1, 0, 0}, local(), bytes);
    else
      stream(net_, count,
             [&](net::Callback done) { return net_.try_read_async({1, {1, 0, 0}, local(), bytes, done}); });
  }
  void writes(std::size_t bytes, int count, int window) {
    if (!first()) return;
    if (window == 1)
      for (int i = 0; i < count; ++i) net::write(net_, {1, 0, 0}, local(), bytes);
    else
      stream(net_, count,
             [&](net::Callback done) { return net_.try_write_async({1, {1, 0, 0}, local(), bytes, done}); });
  }

 private:
  void send(std::size_t bytes) {
    net::Event sent;
    net::until_taken(
        net_, [&] { return net_.try_message_async({1 - net_.self(), kCount, local(), bytes, sent.callback()}); });
    sent.wait(net_);
  }
  void await(std::uint64_t messages) {
    awaited_ += messages;
    // acquire: pairs with the handler
    net::wait_until(net_, [&] { return arrived_.load(std::memory_order_acquire) >= awaited_; });
  }

  net::Transport& net_;
  std::vector<std::byte> memory_, local_;
  std::atomic<std::uint64_t> arrived_{0};
  std::uint64_t awaited_ = 0;
};

// A process and all that it starts on a CPU of its own: where the kernel puts two that spin is a matter of chance.
inline void stay_on_cpu(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);  // on a machine with one CPU it fails, and costs nothing
}

// Forks process 1; each side runs `member(config)`. The exit status of process 0.
template <class Member>
int run_pair(Member&& member) {
  net::tcp::TcpConfig config;
  config.processes = 2;
  config.addresses.resize(2);
  net::tcp::Socket listeners[2];
  for (int p = 0; p < 2; ++p) {
    const base::Status status = net::tcp::listen_on(net::tcp::kLoopback, 0, &listeners[p], &config.addresses[p]);
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.message().c_str());
      return 3;
    }
  }
  std::fflush(stdout);
  const pid_t child = fork();
  config.self = child == 0 ? 1 : 0;
  stay_on_cpu(config.self);
  config.listener = listeners[config.self].release();
  listeners[1 - config.self].close();
  const int status = member(std::move(config));
  if (child == 0) _exit(status);
  waitpid(child, nullptr, 0);
  return status;
}

}  // namespace wire
