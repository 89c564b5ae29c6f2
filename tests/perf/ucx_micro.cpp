// SPDX-License-Identifier: Apache-2.0
// What the ucx transport costs over what UCX's own ucx_perftest reaches (ucp_am_lat, ucp_am_bw), both by UCX's TCP over
// loopback, in turns; in each job each line by a connection of its own, as each run of ucx_perftest. Bars: 1.2
// (wire_pair.hpp). Status 1: one is missed, 3: something is not there.
// Usage: ucx_micro [JOBS [WHICH]], WHICH: a part of the names of the lines that are wanted
#include <signal.h>
#include <spawn.h>

#include <cstdlib>
#include <memory>

#include "net/ucx/transport.hpp"
#include "wire_pair.hpp"

namespace {

using namespace wire;

constexpr const char* kPerftest = "UCX_TLS=tcp UCX_NET_DEVICES=lo UCX_WARN_UNUSED_ENV_VARS=n exec ucx_perftest";
constexpr const char* kTheirs = "ucx_perftest";
constexpr const char* kOurs = "ucx";
constexpr int kTries = 100;
constexpr double kOneWay = 2;  // ucp_am_lat halves the round trip

bool has_perftest() { return std::system("command -v ucx_perftest >/dev/null") == 0; }

int free_port() {
  net::tcp::Socket listener;
  net::tcp::SocketAddress address;
  if (!net::tcp::listen_on(net::tcp::kLoopback, 0, &listener, &address).ok()) return 0;
  const std::string text = address_text(address);
  return std::atoi(text.c_str() + text.rfind(':') + 1);
}

int warm_up_of(int count) { return std::max(2, count / 10); }

// Microseconds a message, by ucx_perftest's "overall"; 0: it failed.
double perftest_us(const char* test, std::size_t bytes, int count) {
  const std::string with_port = std::string(kPerftest) + " -p " + std::to_string(free_port());
  const std::string serve = with_port + " -c 1 >/dev/null 2>&1";
  const char* const shell[] = {"sh", "-c", serve.c_str(), nullptr};
  pid_t server = 0;
  if (posix_spawn(&server, "/bin/sh", nullptr, nullptr, const_cast<char**>(shell), environ) != 0) return 0;
  const std::string client = with_port + " 127.0.0.1 -c 0 -f -v -t " + test + " -s " + std::to_string(bytes) + " -n " +
                             std::to_string(count) + " -w " + std::to_string(warm_up_of(count)) + " 2>/dev/null";
  double us = 0;
  for (int i = 0; i < kTries && us == 0; ++i) {  // until the server listens
    std::FILE* const output = popen(client.c_str(), "r");
    if (output == nullptr) break;
    char line[256];
    int iterations;
    while (std::fgets(line, sizeof line, output) != nullptr)
      if (std::sscanf(line, "%d,%*f,%*f,%lf", &iterations, &us) != 2) us = 0;
    pclose(output);
    if (us == 0) usleep(5'000);
  }
  if (us == 0) kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  return us;
}

struct Test {
  const char* what;
  const char* test;
  std::size_t bytes;
  void (*ours)(Partner& partner, std::size_t bytes, int count);

  bool streams() const { return std::string(test) == "ucp_am_bw"; }
  std::string name() const { return what + (" " + size_name(bytes)); }
};

std::vector<Test> all_lines() {
  const auto rpcs = [](Partner& partner, std::size_t bytes, int n) { partner.rpcs(bytes, n); };
  const auto messages = [](Partner& partner, std::size_t bytes, int n) { partner.messages(bytes, n); };
  const auto stream = [](Partner& partner, std::size_t bytes, int n) { partner.message_stream(bytes, n); };
  const auto writes = [](Partner& partner, std::size_t bytes, int n) { partner.writes(bytes, n, kWindow); };
  std::vector<Test> lines;
  for (const std::size_t bytes : kSizes) {
    if (bytes <= net::ucx::UcxConfig{}.payload_bytes_max)
      lines.push_back({"RPC there and back", "ucp_am_lat", bytes, rpcs});
    lines.push_back({"message there and back", "ucp_am_lat", bytes, messages});
  }
  for (const std::size_t bytes : kSizes) lines.push_back({"messages one way", "ucp_am_bw", bytes, stream});
  for (const std::size_t bytes : {kSizes[2], kSizes[3]})
    lines.push_back({"8 writes under way", "ucp_am_bw", bytes, writes});
  return lines;
}

int member(net::tcp::TcpConfig tcp, const Test& line, int results) {
  net::ucx::UcxConfig config;
  static_cast<net::tcp::TcpConfig&>(config) = std::move(tcp);
  config.transports = "tcp";
  std::unique_ptr<net::ucx::UcxTransport> made;
  if (const base::Status status = net::ucx::UcxTransport::create(std::move(config), &made); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 3;
  }
  net::ucx::UcxTransport& net = *made;
  Partner partner(net);
  net.start();
  const int count = batch_of(line.bytes, line.streams());
  double theirs_us = 0;
  if (partner.first()) theirs_us = perftest_us(line.test, line.bytes, count) * (line.streams() ? 1 : kOneWay);
  line.ours(partner, line.bytes, warm_up_of(count));
  const double our_ns = timed(net, count, [&](int n) { line.ours(partner, line.bytes, n); });
  if (!partner.first()) return 0;
  if (theirs_us == 0) std::fprintf(stderr, "ucx_perftest failed\n");
  return theirs_us != 0 && tell(results, line.name(), 1e3 * theirs_us, our_ns) ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  const int jobs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 24;
  if (!has_perftest()) {
    std::fprintf(stderr, "ucx_perftest is not installed: install ucx-utils (Debian's name)\n");
    return 3;
  }
  Bars bars(kTheirs, kOurs);
  return run_jobs(jobs, bars, [&](OtherConnections& others, int results) {
    int status = 0;
    for (const Test& line : all_lines()) {
      if (argc > 2 && line.name().find(argv[2]) == std::string::npos) continue;
      others.open_some();
      status = std::max(status,
                        run_pair([&](net::tcp::TcpConfig config) { return member(std::move(config), line, results); }));
      others.close_all();
    }
    return status;
  });
}
