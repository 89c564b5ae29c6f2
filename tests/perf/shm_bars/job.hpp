// SPDX-License-Identifier: Apache-2.0
// A job of forked members over shm.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "net/net.hpp"
#include "net/shm/transport.hpp"

namespace bars {

namespace net = ayatori::net;
namespace base = ayatori::base;

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// Time of one of `rounds` calls.
template <class Operation>
double ns_each(int rounds, Operation&& operation) {
  const std::int64_t start = base::real_now_ns();
  for (int i = 0; i < rounds; ++i) operation();
  return static_cast<double>(base::real_now_ns() - start) / rounds;
}

// Runs body(transport, memory, result) in each of `processes` members; memory: `bytes` a member, shared, zeroed, region 0,
// that of member 0 first. before(self) runs ahead of the transport's threads. Members share the result; handler
// kUserHandlers echoes. Returns whether all ended well.
template <class Result, class Before, class Body>
bool run_job(int processes, std::size_t bytes, Result* result, Before&& before, Body&& body) {
  net::shm::ShmConfig config;
  config.processes = processes;
  std::unique_ptr<net::shm::ShmWorld> world;
  if (const base::Status status = net::shm::ShmWorld::create(config, &world); !status) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return false;
  }
  auto* const memory = static_cast<std::byte*>(world->map_shared(bytes * static_cast<std::size_t>(processes)));
  auto* const shared_result = static_cast<Result*>(world->map_shared(sizeof(Result)));
  if (memory == nullptr || shared_result == nullptr) return false;
  std::fflush(nullptr);
  const pid_t parent = getpid();
  std::vector<pid_t> members;
  for (int self = 0; self < processes; ++self) {
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      before(self);
      {
        net::shm::ShmTransport transport(*world, self);
        transport.register_memory(memory + bytes * static_cast<std::size_t>(self), bytes, net::kAllRights);
        transport.set_handler(
            net::kUserHandlers,
            [](void* of, const net::Message& message) {
              if (message.token.wanted())
                static_cast<net::Transport*>(of)->reply(message.token, message.payload, message.size_bytes);
            },
            &transport);
        transport.start();
        net::barrier(transport);
        body(transport, memory, shared_result);
        net::barrier(transport);
      }
      _exit(0);
    }
    if (pid > 0) members.push_back(pid);
  }
  bool well = members.size() == static_cast<std::size_t>(processes);
  if (!well)
    for (const pid_t pid : members) kill(pid, SIGKILL);
  for (const pid_t pid : members) {
    int status = 0;
    well &= waitpid(pid, &status, 0) == pid && status == 0;
  }
  *result = *shared_result;
  return well;
}

}  // namespace bars
