// SPDX-License-Identifier: Apache-2.0
// What the tcp transport costs over what a bare socket does with the same messages: two processes over loopback, both
// spinning on non-blocking sockets and giving way after every 16 misses. Bars: 1.2 (wire_pair.hpp). Status 1: one is missed.
// Usage: tcp_micro [JOBS [WHICH]], WHICH: a part of the names of the lines that are wanted
//
// Each job has connections of its own (OtherConnections in wire_pair.hpp says why).
#include <sched.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>

#include "net/tcp/transport.hpp"
#include "wire_pair.hpp"

namespace {

using namespace wire;

constexpr int kRounds = 3;        // of a job
constexpr std::size_t kWord = 8;  // what asks for a read, and acknowledges a write

struct Bare {
  explicit Bare(net::tcp::Socket&& connected) : socket(std::move(connected)) {}

  void send(const std::byte* data, std::size_t bytes) const {
    while (bytes != 0) {
      const ssize_t sent = ::send(socket.fd(), data, bytes, MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) std::exit(3);
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
      if (got == 0 || (got < 0 && errno != EAGAIN)) std::exit(3);
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

// A request of `there` bytes is answered by `back`, `window` of them under way: process 0 asks.
void ask(const Bare& bare, bool first, std::byte* data, std::size_t there, std::size_t back, int count, int window) {
  if (!first) {
    for (int i = 0; i < count; ++i) {
      bare.receive(data, there);
      bare.send(data, back);
    }
    return;
  }
  for (int i = 0; i < count + window; ++i) {
    if (i >= window) bare.receive(data, back);
    if (i < count) bare.send(data, there);
  }
}

// One way; the last is answered.
void stream_to(const Bare& bare, bool first, std::byte* data, std::size_t bytes, int count) {
  for (int i = 0; i < count; ++i) first ? bare.send(data, bytes) : bare.receive(data, bytes);
  first ? bare.receive(data, kWord) : bare.send(data, kWord);
}

// Process 0 writes its lines to `results`.
int member(net::tcp::TcpConfig config, const Bare& bare, const char* which, int results) {
  net::tcp::TcpTransport net(std::move(config));
  Partner partner(net);
  net.start();
  std::vector<std::byte> memory(kBytesMax);
  bool failed = false;
  const auto compare_with = [&](const char* what, std::size_t bytes, bool streams, auto&& theirs, auto&& ours) {
    const std::string name = what + (" " + size_name(bytes));
    if (name.find(which) == std::string::npos) return;
    const int count = batch_of(bytes, streams);
    std::vector<double> theirs_ns, our_ns;
    for (int round = 0; round < kRounds; ++round) {
      theirs_ns.push_back(timed(net, count, theirs));
      our_ns.push_back(timed(net, count, ours));
    }
    if (partner.first()) failed |= !tell(results, name, median(theirs_ns), median(our_ns));
  };
  const auto compare = [&](const char* what, std::size_t bytes, std::size_t there, std::size_t back, int window,
                           auto&& ours) {
    const auto theirs = [&](int n) { ask(bare, partner.first(), memory.data(), there, back, n, window); };
    compare_with(what, bytes, window > 1, theirs, ours);
  };
  for (const std::size_t bytes : kSizes) {
    if (partner.fits(bytes))
      compare("RPC there and back", bytes, bytes, bytes, 1, [&](int n) { partner.rpcs(bytes, n); });
    else
      compare("message there and back", bytes, bytes, bytes, 1, [&](int n) { partner.messages(bytes, n); });
  }
  for (const std::size_t bytes : kSizes) {
    compare("read", bytes, kWord, bytes, 1, [&](int n) { partner.reads(bytes, n, 1); });
    compare("write", bytes, bytes, kWord, 1, [&](int n) { partner.writes(bytes, n, 1); });
  }
  for (const std::size_t bytes : kSizes) {
    compare("8 reads under way", bytes, kWord, bytes, kWindow, [&](int n) { partner.reads(bytes, n, kWindow); });
    compare("8 writes under way", bytes, bytes, kWord, kWindow, [&](int n) { partner.writes(bytes, n, kWindow); });
  }
  for (const std::size_t bytes : kSizes) {
    const auto theirs = [&](int n) { stream_to(bare, partner.first(), memory.data(), bytes, n); };
    compare_with("messages one way", bytes, true, theirs, [&](int n) { partner.message_stream(bytes, n); });
  }
  return failed ? 3 : 0;
}

// Two processes, with other connections opened before the bare one, and between it and the transport's.
int job(const char* which, OtherConnections& others, int results) {
  others.open_some();
  Connection ends = connect();
  others.open_some();
  return run_pair([&](net::tcp::TcpConfig config) {
    const Bare bare(std::move(ends[static_cast<std::size_t>(config.self)]));
    return member(std::move(config), bare, which, results);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const int jobs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 24;
  const char* const which = argc > 2 ? argv[2] : "";
  Bars bars("bare socket", "tcp");
  return run_jobs(jobs, bars, [&](OtherConnections& others, int results) { return job(which, others, results); });
}
