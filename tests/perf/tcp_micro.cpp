// SPDX-License-Identifier: Apache-2.0
// What the tcp transport costs over what a bare socket does: two processes over loopback, both spinning on non-blocking
// sockets and giving way after every 16 misses; batches of the two take turns; medians and bests (the quiet machine's) with
// the ratio of their times. Usage: tcp_micro [ROUNDS [BATCHES]]
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "net/net.hpp"
#include "net/tcp/transport.hpp"

namespace {

using namespace ayatori;

constexpr std::size_t kBytesMax = std::size_t{4} << 20;
constexpr int kWindow = 8;  // transfers under way

struct Bare {
  explicit Bare(net::tcp::Socket&& connected) : socket(std::move(connected)) {}

  void send(const std::byte* data, std::size_t bytes) const {
    while (bytes != 0) {
      const ssize_t sent = ::send(socket.fd(), data, bytes, MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) std::exit(1);
      if (sent < 0) {
        miss();
        continue;
      }
      data += sent;
      bytes -= static_cast<std::size_t>(sent);
    }
  }
  void receive(std::byte* data, std::size_t bytes) const {
    while (bytes != 0) {
      const ssize_t got = ::recv(socket.fd(), data, bytes, 0);
      if (got == 0 || (got < 0 && errno != EAGAIN)) std::exit(1);
      if (got < 0) {
        miss();
        continue;
      }
      data += got;
      bytes -= static_cast<std::size_t>(got);
    }
  }
  void miss() const {
    if (++misses % 16 == 0) sched_yield();
  }
  net::tcp::Socket socket;
  mutable unsigned misses = 0;
};

// Batches of bare(rounds) and ours(rounds) in turns, between barriers; nanoseconds a round.
template <class BareWork, class OurWork>
void compare(net::Transport& net, const char* name, int rounds, int batches, std::size_t bytes, BareWork&& bare,
             OurWork&& ours) {
  std::vector<double> bare_ns, our_ns;
  const auto timed = [&](auto& work) {
    net::barrier(net);
    const std::int64_t start_ns = base::real_now_ns();
    work(rounds);
    const double ns = static_cast<double>(base::real_now_ns() - start_ns) / rounds;
    net::barrier(net);
    return ns;
  };
  for (int batch = 0; batch < batches; ++batch) {
    bare_ns.push_back(timed(bare));
    our_ns.push_back(timed(ours));
  }
  if (net.self() != 0) return;
  std::sort(bare_ns.begin(), bare_ns.end());
  std::sort(our_ns.begin(), our_ns.end());
  const auto print = [&](double b, double o) {
    if (bytes == 0)
      std::printf("  %9.2f us   %9.2f us   %5.2f", b / 1e3, o / 1e3, o / b);
    else
      std::printf("  %9.0f MB/s %9.0f MB/s %5.2f", static_cast<double>(bytes) * 1e3 / b,
                  static_cast<double>(bytes) * 1e3 / o, o / b);
  };
  std::printf("%-20s", name);
  print(bare_ns[bare_ns.size() / 2], our_ns[our_ns.size() / 2]);
  print(bare_ns.front(), our_ns.front());
  std::printf("\n");
  std::fflush(stdout);
}

void echo(void* context, const net::Message& message) {
  static_cast<net::Transport*>(context)->reply(message.token, message.payload, message.size_bytes);
}

// `rounds` one-sided requests, kWindow at a time.
template <class Issue>
void stream(net::Transport& net, int rounds, Issue&& issue) {
  net::Event events[kWindow];
  for (int i = 0; i < rounds; ++i) {
    net::Event& event = events[i % kWindow];
    if (i >= kWindow) event.wait(net);
    net::until_taken(net, [&] { return issue(event.callback()); });
  }
  for (int i = 0; i < std::min(rounds, kWindow); ++i) events[i].wait(net);
}

int member(net::tcp::TcpConfig config, const Bare& bare, int rounds, int batches) {
  std::vector<std::byte> memory(kBytesMax), local(kBytesMax);
  net::tcp::TcpTransport net(std::move(config));
  net.register_memory(memory.data(), memory.size(), net::kAllRights);
  net.set_handler(net::kUserHandlers, echo, &net);
  net.start();
  const bool first = net.self() == 0;
  if (first)
    std::printf("%-20s  %12s   %12s   ratio  %12s   %12s   ratio\n", "", "median: bare", "tcp", "best: bare", "tcp");
  const auto ping_pong = [&](int count) {
    std::byte word[8] = {};
    for (int i = 0; i < count; ++i) {
      if (first) bare.send(word, sizeof word);
      bare.receive(word, sizeof word);
      if (!first) bare.send(word, sizeof word);
    }
  };
  compare(net, "AM round trip, 8 B", rounds, batches, 0, ping_pong, [&](int count) {
    if (!first) return;  // waits in the barrier
    for (int i = 0; i < count; ++i) net::rpc(net, 1, net::kUserHandlers, local.data(), 8, local.data(), 8);
  });
  compare(net, "read round trip, 8 B", rounds, batches, 0, ping_pong, [&](int count) {
    if (!first) return;
    for (int i = 0; i < count; ++i) net::read(net, {1, 0, 0}, local.data(), 8);
  });
  for (const std::size_t bytes : {std::size_t{4} << 10, std::size_t{64} << 10, kBytesMax}) {
    char name[32];
    const int count = static_cast<int>(std::max<std::size_t>(2 * kWindow, (std::size_t{128} << 20) / bytes / 4));
    const auto bare_stream = [&](int transfers) {
      for (int i = 0; i < transfers; ++i) first ? bare.send(local.data(), bytes) : bare.receive(memory.data(), bytes);
      std::byte done[8] = {};
      first ? bare.receive(done, sizeof done) : bare.send(done, sizeof done);
    };
    std::snprintf(name, sizeof name, "write %zu KiB", bytes >> 10);
    compare(net, name, count, batches, bytes, bare_stream, [&](int transfers) {
      if (!first) return;
      stream(net, transfers,
             [&](net::Callback done) { return net.try_write_async({1, {1, 0, 0}, local.data(), bytes, done}); });
    });
    std::snprintf(name, sizeof name, "read %zu KiB", bytes >> 10);
    compare(net, name, count, batches, bytes, bare_stream, [&](int transfers) {
      if (!first) return;
      stream(net, transfers,
             [&](net::Callback done) { return net.try_read_async({1, {1, 0, 0}, local.data(), bytes, done}); });
    });
  }
  return 0;
}

int fail(const base::Status& status) {
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(16, std::atoi(argv[1])) : 1'000;
  const int batches = argc > 2 ? std::max(1, std::atoi(argv[2])) : 11;
  net::tcp::TcpConfig config;
  config.processes = 2;
  config.addresses.resize(2);
  net::tcp::Socket listeners[2];
  for (int p = 0; p < 2; ++p)
    if (const base::Status status = net::tcp::listen_on(net::tcp::kLoopback, 0, &listeners[p], &config.addresses[p]);
        !status)
      return fail(status);
  net::tcp::Socket listener, near;
  net::tcp::SocketAddress address;
  if (const base::Status status = net::tcp::listen_on(net::tcp::kLoopback, 0, &listener, &address); !status)
    return fail(status);
  if (net::tcp::begin_connect(address, &near) != 0) return 1;
  pollfd polled{listener.fd(), POLLIN, 0};
  poll(&polled, 1, 10'000);
  net::tcp::Socket far(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK));
  net::tcp::set_connection_options(far.fd());
  const pid_t child = fork();
  config.self = child == 0 ? 1 : 0;
  config.listener = listeners[config.self].release();
  listeners[1 - config.self].close();
  const Bare bare(child == 0 ? std::move(far) : std::move(near));
  const int status = member(std::move(config), bare, rounds, batches);
  if (child == 0) _exit(status);
  waitpid(child, nullptr, 0);
  return status;
}
