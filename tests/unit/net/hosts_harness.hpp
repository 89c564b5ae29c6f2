// SPDX-License-Identifier: Apache-2.0
// Jobs over a served transport between two hosts, as far as a network can tell: processes in two network namespaces that a veth
// pair joins, without loopback between them. Even processes live on one, odd ones on the other. The namespaces have no names and
// end with the test, however it ends. Needs root, and a kernel that lets it.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include <atomic>
#include <cstdio>
#include <string>

#include "served_harness.hpp"

namespace ayatori::net::testing {

// A namespace lives as long as its keeper, a process that ends with this one.
class TwoHosts {
 public:
  TwoHosts() {
    for (Host& host : hosts_)
      if (!host.open()) return;
    const std::string peer = std::to_string(hosts_[1].keeper);
    made_ = run_on(0, "ip link add veth0 type veth peer name veth0 netns " + peer + " && " + up(0)) && run_on(1, up(1));
  }
  ~TwoHosts() {
    for (Host& host : hosts_) {
      if (host.keeper > 1) {
        kill(host.keeper, SIGKILL);
        waitpid(host.keeper, nullptr, 0);
      }
      if (host.fd >= 0) close(host.fd);
    }
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  bool made() const noexcept { return made_; }
  // With a /sys of its own: UCX looks for devices there.
  bool enter(int host) const {
    return setns(hosts_[host].fd, CLONE_NEWNET) == 0 && unshare(CLONE_NEWNS) == 0 &&
           mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0 &&
           mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0;
  }
  static std::string address(int host) { return "10.213.81." + std::to_string(host + 1); }

 private:
  struct Host {
    pid_t keeper = -1;
    int fd = -1;

    bool open() {
      int ready[2];
      if (pipe2(ready, O_CLOEXEC) != 0) return false;
      const pid_t parent = getpid();
      keeper = fork();
      if (keeper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || unshare(CLONE_NEWNET) != 0 || ::write(ready[1], "", 1) != 1) _exit(1);
        while (true) pause();
      }
      close(ready[1]);
      char byte = 0;
      const bool there = keeper > 1 && ::read(ready[0], &byte, 1) == 1;
      close(ready[0]);
      const std::string name = "/proc/" + std::to_string(keeper) + "/ns/net";
      if (there) fd = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
      return fd >= 0;
    }
  };

  static std::string up(int host) {
    return "ip addr add " + address(host) + "/24 dev veth0 && ip link set lo up && ip link set veth0 up";
  }
  bool run_on(int host, const std::string& command) const {
    const pid_t pid = fork();
    if (pid == 0) {
      if (setns(hosts_[host].fd, CLONE_NEWNET) != 0) _exit(1);
      execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
      _exit(1);
    }
    int status = 1;
    return pid > 1 && waitpid(pid, &status, 0) == pid && status == 0;
  }

  Host hosts_[2];
  bool made_ = false;
};

template <class Wire>
struct ServedHosts {
  static constexpr bool kReal = true;
  static std::string name() { return std::string(Wire::kName) + "Hosts"; }

  static void run(const Job& job, const Prepare& prepare, const Body& body) {
    if (const char* why = forks_missing()) GTEST_SKIP() << why;
    if (const char* why = Wire::missing()) GTEST_SKIP() << why;
    const TwoHosts hosts;
    if (!hosts.made()) GTEST_SKIP() << "two network namespaces cannot be made (needs root, and a kernel that lets it)";
    // Each process listens on its own host: the others read there where.
    struct Shared {
      std::atomic<int> listening{0};
      tcp::SocketAddress addresses[kMaxProcesses];
    };
    void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* const shared = new (memory) Shared;
    check_ends(fork_members(job.processes, [&](ProcessId p) {
      if (!hosts.enter(p % 2)) {
        perror("a network namespace");
        _exit(1);
      }
      TcpJob mine(job, TwoHosts::address(p % 2));
      tcp::TcpConfig config = mine.take(p);
      mine.close_listeners();
      shared->addresses[p] = config.addresses[static_cast<std::size_t>(p)];
      shared->listening.fetch_add(1, std::memory_order_release);
      while (shared->listening.load(std::memory_order_acquire) != job.processes) usleep(1000);
      for (ProcessId q = 0; q < job.processes; ++q)
        config.addresses[static_cast<std::size_t>(q)] = shared->addresses[q];
      Wire::use("veth0");
      run_member<Wire>(std::move(config), 3, [] { raise(SIGKILL); }, prepare, body);
    }));
    munmap(memory, sizeof(Shared));
  }
};

}  // namespace ayatori::net::testing
