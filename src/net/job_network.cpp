// SPDX-License-Identifier: Apache-2.0
#include "net/job_network.hpp"

#include <sys/random.h>
#include <time.h>

#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "net/tcp/transport.hpp"
#include "net/ucx/transport.hpp"

namespace ayatori::net {
namespace {

constexpr std::size_t kPayloadBytes = 64 * 1024;  // of one message: a diff of many pages, or as many pages
constexpr std::uint32_t kRequests = 1024;

struct Reserved {
  bool ucx = false;
  tcp::TcpConfig config;
  std::vector<tcp::Socket> listeners;
};
std::optional<Reserved>& reserved() {
  static std::optional<Reserved> r;
  return r;
}

}  // namespace

base::Status reserve_job_network(std::string_view transport, int processes) {
  if (transport != "tcp" && transport != "ucx")
    return base::error_status(base::Code::kInvalid, "there is no transport {} for a job", transport);
  Reserved r;
  r.ucx = transport == "ucx";
  const auto n = static_cast<std::size_t>(processes);
  r.config.processes = processes;
  r.config.payload_bytes_max = kPayloadBytes;
  r.config.requests_max = kRequests;
  // The launcher tells of deaths; a process that is only stopped, by a debugger say, is waited for.
  r.config.tells_failures = false;
  r.config.heartbeat_timeout_ns = std::int64_t{365} * 24 * 3600 * base::kNsPerSecond;
  r.config.addresses.resize(n);
  r.listeners.resize(n);
  if (getrandom(r.config.secret.data(), r.config.secret.size(), 0) != static_cast<ssize_t>(r.config.secret.size()) ||
      getrandom(&r.config.job, sizeof r.config.job, 0) != static_cast<ssize_t>(sizeof r.config.job))
    return base::system_status(errno, "random bytes for the job's secret");
  for (std::size_t p = 0; p < n; ++p) {
    const base::Status status = tcp::listen_on(tcp::kLoopback, 0, &r.listeners[p], &r.config.addresses[p]);
    if (!status.ok()) return status;
  }
  reserved().emplace(std::move(r));
  return base::ok_status();
}

base::Status attach_job_network(ProcessId self, std::unique_ptr<Transport>* transport) {
  Reserved r = *std::exchange(reserved(), std::nullopt);  // the other members' listeners are closed with it
  r.config.self = self;
  r.config.listener = r.listeners[static_cast<std::size_t>(self)].release();
  if (!r.ucx) {
    *transport = std::make_unique<tcp::TcpTransport>(std::move(r.config));
    return base::ok_status();
  }
  std::unique_ptr<ucx::UcxTransport> made;
  base::Status status = ucx::UcxTransport::create({std::move(r.config), {}, {}}, &made);
  *transport = std::move(made);
  return status;
}

void await_end_of_job(ProcessId process) {
  const timespec nap{5, 0};
  nanosleep(&nap, nullptr);
  base::fatal("process {} is gone", process);
}

}  // namespace ayatori::net
