// SPDX-License-Identifier: Apache-2.0
// Jobs over the ucx transport on this machine: UCX's TCP on the loopback device, and UCX's shared memory.
#pragma once

#include "net/ucx/transport.hpp"
#include "served_harness.hpp"

namespace ayatori::net::testing {

enum class UcxWay { kTcp, kShm };

inline const char* transports(UcxWay way) { return way == UcxWay::kTcp ? "tcp" : "posix"; }

// Whether UCX is there, and has that way here (without /sys it finds no devices): tried in a child, so that the test itself has
// not loaded it before it forks members.
template <UcxWay kWay>
bool ucx_works() {
  static const bool works = [] {
    const pid_t pid = fork();
    if (pid == 0) {
      ucx::UcxConfig config;
      config.addresses.resize(1);
      config.devices = "lo";
      config.transports = transports(kWay);
      std::unique_ptr<ucx::UcxTransport> transport;
      const base::Status status = ucx::UcxTransport::create(std::move(config), &transport);
      if (!status.ok()) fprintf(stderr, "%s\n", status.message().c_str());
      _exit(status.ok() ? 0 : 1);
    }
    int status = 1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }();
  return works;
}

// kByLine: long data goes by the control connections where the transport thinks fit (net/ucx/control.hpp C4).
template <UcxWay kWay, bool kByLine = true>
struct UcxWireOf {
  static constexpr const char* kName = kWay == UcxWay::kShm ? "UcxShm" : kByLine ? "UcxTcp" : "UcxTcpOnly";
  using Forks = ServedForks<UcxWireOf>;
  using Threads = ServedThreads<UcxWireOf>;
  static const char* missing() {
#ifdef __SANITIZE_THREAD__
    return "ThreadSanitizer does not see what UCX orders";
#else
    return ucx_works<kWay>() ? nullptr : "UCX is not here, or not in this way";
#endif
  }
  // Over UCX's shared memory nobody may be killed while it posts (net/ucx/wire.hpp L6): it is cut off first, and what UCX still
  // has to send to the others stays there.
  static void before_death(ucx::UcxTransport& net, bool is_process) {
    if (kWay != UcxWay::kShm) return;
    net.sever();
    wait_until(net, [&net] {
      for (ProcessId p = 0; p < net.processes(); ++p)
        if (p != net.self() && !net.peer_failed(p)) return false;
      return true;
    });
    if (is_process) net.stand_still();
  }
  // Nor stopped: it stops itself when it is asked to (stop()).
  static constexpr bool kStopsItself = kWay == UcxWay::kShm;
  static void stop(Transport& net) {
    auto& mine = static_cast<ucx::UcxTransport&>(net);
    mine.stand_still();
    raise(SIGSTOP);
    mine.go_on();
  }
  static std::string& device() {
    static std::string name = "lo";
    return name;
  }
  static void use(const char* interface) { device() = interface; }
  static std::unique_ptr<ucx::UcxTransport> make(tcp::TcpConfig config) {
    ucx::UcxConfig mine;
    static_cast<tcp::TcpConfig&>(mine) = std::move(config);
    mine.devices = device();
    mine.transports = transports(kWay);
    mine.long_data_by_line = kByLine;
    std::unique_ptr<ucx::UcxTransport> transport;
    const base::Status status = ucx::UcxTransport::create(std::move(mine), &transport);
    EXPECT_TRUE(status.ok()) << status.message();
    return transport;
  }
};
using UcxTcp = UcxWireOf<UcxWay::kTcp>;
using UcxTcpOnly = UcxWireOf<UcxWay::kTcp, false>;
using UcxShm = UcxWireOf<UcxWay::kShm>;

// UCX's shared memory, and the members' in what UCX has allocated: it reaches that by itself (net/ucx/memory.hpp), as it would an
// adapter's with RDMA.
struct UcxReach : UcxShm {
  static constexpr const char* kName = "UcxReach";
  using Forks = ServedForks<UcxReach>;
  using Threads = ServedThreads<UcxReach>;
  static std::unique_ptr<ucx::UcxTransport> make(tcp::TcpConfig config) {
    config.machine = (std::uint64_t{1} << config.processes) - 1;
    return UcxShm::make(std::move(config));
  }
  static std::byte* allocate(ucx::UcxTransport& net, std::size_t bytes) {
    EXPECT_TRUE(net.reaches().allocated.moves);
    EXPECT_NE(net.reaches().allocated.atomics, 0);
    return net.allocate(bytes);
  }
};

}  // namespace ayatori::net::testing
