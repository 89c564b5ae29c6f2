// SPDX-License-Identifier: Apache-2.0
// ucx_perftest (Debian: ucx-utils): a server and a client process, over UCX's shared memory.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "measure.hpp"

namespace bars {
namespace {

constexpr int kLimitS = 20;  // of each process

struct Test {
  const char* name;
  const char* iterations;
};
constexpr Test kMessages{"ucp_am_lat", "100000"}, kGets{"ucp_get", "1000000"}, kPuts{"ucp_put_bw", "1000000"};

// The server, or, with its host, the client, whose standard output goes to `out`.
pid_t start(int cpu, int out, const char* port, const Test& test, const char* server) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  pin(cpu);
  setenv("UCX_TLS", "posix,self", 1);
  alarm(kLimitS);
  dup2(out, STDOUT_FILENO);
  const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDERR_FILENO);
  if (server == nullptr)
    execlp("ucx_perftest", "ucx_perftest", "-p", port, nullptr);
  else
    execlp("ucx_perftest", "ucx_perftest", "-p", port, "-t", test.name, "-s", "8", "-O", "1", "-n", test.iterations,
           server, nullptr);
  _exit(127);
}

bool ended_well(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status == 0;
}

struct Figures {
  double median_us, rate;  // one way; messages a second
};

std::optional<Figures> run(const Test& test) {
  static int runs = 0;
  const std::string port = std::to_string(20'000 + (getpid() * 64 + runs++) % 10'000);
  int pipe_fds[2];
  const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing < 0 || pipe2(pipe_fds, O_CLOEXEC) != 0) return std::nullopt;
  const pid_t server = start(1, nothing, port.c_str(), test, nullptr);
  usleep(300'000);  // nobody says when it listens
  const pid_t client = start(0, pipe_fds[1], port.c_str(), test, "127.0.0.1");
  close(pipe_fds[1]);
  close(nothing);
  std::string said;
  char buffer[4096];
  for (ssize_t got; (got = read(pipe_fds[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<std::size_t>(got));
  close(pipe_fds[0]);
  const bool well = client > 0 && ended_well(client);
  if (!well && server > 0) kill(server, SIGKILL);  // it waits for a client, and is not reaped yet
  if (server > 0) ended_well(server);
  // "Final: ITERATIONS MEDIAN AVERAGE OVERALL (microseconds) AVERAGE OVERALL (MB/s) AVERAGE OVERALL (messages a second)"
  const std::size_t at = said.find("Final:");
  Figures figures{};
  if (!well || at == std::string::npos ||
      std::sscanf(said.c_str() + at, "Final: %*f %lf %*f %*f %*f %*f %*f %lf", &figures.median_us, &figures.rate) !=
          2 ||
      figures.median_us <= 0 || figures.rate <= 0)
    return std::nullopt;
  return figures;
}

}  // namespace

std::optional<Ucx> measure_ucx() {
  const std::optional<Figures> messages = run(kMessages), gets = run(kGets), puts = run(kPuts);
  if (!messages || !gets || !puts) return std::nullopt;
  return Ucx{2e3 * messages->median_us, 1e9 / gets->rate, 1e9 / puts->rate};
}

}  // namespace bars
