// SPDX-License-Identifier: Apache-2.0
#include "base/topology.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <span>
#include <tuple>

#include "base/clock.hpp"
#include "base/topology_hwloc.hpp"

namespace ayatori::base {
namespace {

constexpr std::int64_t kPatienceNs = 5 * kNsPerSecond;  // with hwloc

// What a child process tells of the CPUs that it can see, or nothing.
std::vector<Cpu> ask_hwloc() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    // Its plugins may write what they like, and nobody is to read it.
    const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2 && nowhere >= 0; ++fd) ::dup2(nowhere, fd);
    std::vector<Cpu> found;
    if (hwloc_cpus(&found))
      for (auto bytes = std::as_bytes(std::span(found)); !bytes.empty();) {
        const ssize_t n = ::write(ends[1], bytes.data(), bytes.size());
        if (n <= 0) break;
        bytes = bytes.subspan(static_cast<std::size_t>(n));
      }
    ::_exit(0);
  }
  ::close(ends[1]);
  std::vector<Cpu> cpus;
  std::size_t have = 0;
  bool whole = false;
  const std::int64_t deadline = real_now_ns() + kPatienceNs;
  while (child > 0) {
    const std::int64_t left = deadline - real_now_ns();
    pollfd ready{ends[0], POLLIN, 0};
    if (left <= 0 || (::poll(&ready, 1, static_cast<int>(left / kNsPerMs) + 1) < 0 && errno != EINTR)) break;
    if (ready.revents == 0) continue;
    cpus.resize(have / sizeof(Cpu) + 64);
    const ssize_t n = ::read(ends[0], reinterpret_cast<std::byte*>(cpus.data()) + have, 32 * sizeof(Cpu));
    if (n < 0 && errno == EINTR) continue;
    whole = n == 0 && have % sizeof(Cpu) == 0;
    if (n <= 0) break;
    have += static_cast<std::size_t>(n);
  }
  ::close(ends[0]);
  if (child > 0) {
    ::kill(child, SIGKILL);
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  cpus.resize(whole ? have / sizeof(Cpu) : 0);
  return cpus;
}

}  // namespace

Topology look_at_topology() {
  Topology t;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return t;
  const auto usable = [&mask](const Cpu& cpu) {
    return cpu.number >= 0 && cpu.number < CPU_SETSIZE && CPU_ISSET(cpu.number, &mask);
  };
  t.cpus = ask_hwloc();
  std::erase_if(t.cpus, [&](const Cpu& cpu) { return !usable(cpu); });
  t.source = "hwloc";
  if (static_cast<int>(t.cpus.size()) == CPU_COUNT(&mask)) return t;
  t.cpus.clear();
  t.source = "the affinity mask alone";
  for (int number = 0; number < CPU_SETSIZE; ++number)
    if (CPU_ISSET(number, &mask)) t.cpus.push_back({number, 0, 0, number});
  return t;
}

std::vector<int> place_workers(const std::vector<Cpu>& cpus, int processes, int workers) {
  if (cpus.empty()) return {};
  // In the order in which a process takes them: of a node first one of each core, then the others.
  std::vector<Cpu> order = cpus;
  const auto by_core = [](const Cpu& a, const Cpu& b) {
    return std::tie(a.package, a.node, a.core, a.number) < std::tie(b.package, b.node, b.core, b.number);
  };
  std::sort(order.begin(), order.end(), by_core);
  std::vector<std::vector<int>> nodes;  // numbers of CPUs, in that order
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    const auto node_of = [&](std::size_t i) { return std::tie(order[i].package, order[i].node); };
    while (end < order.size() && node_of(end) == node_of(first)) ++end;
    std::vector<std::pair<int, int>> ranked;  // how many of its core come before it, its place
    for (std::size_t i = first; i < end; ++i) {
      int rank = 0;
      for (std::size_t j = first; j < i; ++j) rank += order[j].core == order[i].core;
      ranked.emplace_back(rank, static_cast<int>(i));
    }
    std::sort(ranked.begin(), ranked.end());
    std::vector<int>& numbers = nodes.emplace_back();
    for (const auto& [rank, i] : ranked) numbers.push_back(order[static_cast<std::size_t>(i)].number);
    first = end;
  }
  // Neighbouring processes are neighbours, as what they hold of a large array.
  std::vector<std::size_t> taken(nodes.size(), 0);
  std::vector<int> places;
  std::size_t given = 0;
  for (int p = 0; p < processes; ++p) {
    const std::size_t home = static_cast<std::size_t>(p) * nodes.size() / static_cast<std::size_t>(processes);
    for (int w = 0; w < workers; ++w) {
      if (given != 0 && given % cpus.size() == 0) std::fill(taken.begin(), taken.end(), 0);
      std::size_t node = home;
      while (taken[node] == nodes[node].size()) node = (node + 1) % nodes.size();
      places.push_back(nodes[node][taken[node]++]);
      ++given;
    }
  }
  return places;
}

int claim_cpu(int number) {
  char path[64];
  std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d", number);
  const int fd = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  ::close(fd);
  return -1;
}

}  // namespace ayatori::base
