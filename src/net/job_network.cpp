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
#include "base/knobs.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "net/bootstrap/likeness.hpp"
#include "net/member_network.hpp"
#include "net/process_set.hpp"

namespace ayatori::net {
namespace {

constexpr std::size_t kPayloadBytes = shm::kMessageBytesMax;  // of one message: a diff of many pages, or as many pages
constexpr std::uint32_t kRequests = 1024;
constexpr std::int64_t kForeverNs = std::int64_t{100} * 365 * 24 * 3600 * base::kNsPerSecond;

struct Reserved {
  bool ucx = false;
  bool meets = false;  // was started apart from others of its machine
  tcp::TcpConfig config;
  std::vector<tcp::Socket> listeners;  // on one machine: of all
  std::unique_ptr<shm::ShmWorld> world;
  bootstrap::Likeness likeness;  // on several
};
std::optional<Reserved>& reserved() {
  static std::optional<Reserved> r;
  return r;
}

// What the members of one machine inherit: a fresh secret, and a listening socket each, on the loopback interface.
base::Status reserve_here(int processes, Reserved* r) {
  const auto n = static_cast<std::size_t>(processes);
  r->config.processes = processes;
  r->config.machine = first_processes(processes);
  // A process that is only stopped, by a debugger say, is waited for.
  r->config.heartbeat_timeout_ns = std::int64_t{365} * 24 * 3600 * base::kNsPerSecond;
  r->config.addresses.resize(n);
  r->listeners.resize(n);
  if (getrandom(r->config.secret.data(), r->config.secret.size(), 0) != static_cast<ssize_t>(r->config.secret.size()) ||
      getrandom(&r->config.job, sizeof r->config.job, 0) != static_cast<ssize_t>(sizeof r->config.job))
    return base::system_status(errno, "random bytes for the job's secret");
  for (std::size_t p = 0; p < n; ++p) {
    const base::Status status = tcp::listen_on(tcp::kLoopback, 0, &r->listeners[p], &r->config.addresses[p]);
    if (!status.ok()) return status;
  }
  return base::ok_status();
}

base::Status attach_wide(Reserved&& r, std::unique_ptr<Transport>* transport) {
  const auto listening = std::make_shared<Listening>();
  if (r.meets) listening->meeting.open();
  const bootstrap::MakeCard network_card =
      make_network_card(listening, bootstrap::job().control->cards[bootstrap::job().number()].host);
  const auto make_card = [&](bool loopback, bootstrap::Card* card) {
    card->likeness = r.likeness;
    return network_card(loopback, card);
  };
  bootstrap::Membership members;
  if (base::Status status = bootstrap::join_launched(make_card, kForeverNs, &members); !status.ok()) return status;
  if (const std::string why = bootstrap::unlike_text(members.cards); !why.empty())
    return base::error_status(base::Code::kInvalid, "{}", why);
  r.config.start_timeout_ns = base::knob_int("AYATORI_START_TIMEOUT") * base::kNsPerSecond;
  if (base::Status status = configure(members, *listening, &r.config); !status.ok()) return status;
  if (r.meets)
    if (base::Status status = meet_neighbours(members, *listening, 0, &r.config); !status.ok()) return status;
  return connect_members(r.ucx, std::move(r.config), std::move(listening->interface), {}, transport);
}

}  // namespace

base::Status reserve_job_network(const TransportChoice& choice, std::span<const std::uint64_t> settings) {
  Reserved r;
  r.ucx = choice.wire == Wire::kUcx;
  r.config.payload_bytes_max = kPayloadBytes;
  r.config.requests_max = kRequests;
  r.config.tells_failures = false;  // the launcher tells of deaths
  if (choice.shm)
    if (base::Status status = make_neighbours(kPayloadBytes, kRequests, &r.world); !status.ok()) return status;
  const bootstrap::Job& job = bootstrap::job();
  if (job.process_count > 1) r.config.world = r.world.get();
  r.meets = choice.shm && job.is_wide() && job.process_count == 1;
  if (job.is_wide())
    r.likeness = bootstrap::likeness_of_this_process(settings);
  else if (const base::Status status = reserve_here(job.process_count, &r); !status.ok())
    return status;
  reserved().emplace(std::move(r));
  return base::ok_status();
}

base::Status attach_job_network(std::unique_ptr<Transport>* transport) {
  Reserved r = *std::exchange(reserved(), std::nullopt);  // the other members' listeners are closed with it
  [[maybe_unused]] static const shm::ShmWorld* const kept = r.world.release();  // lives as long as the process
  const bootstrap::Job& job = bootstrap::job();
  if (job.is_wide()) return attach_wide(std::move(r), transport);
  r.config.self = job.process_id;
  r.config.listener = r.listeners[static_cast<std::size_t>(job.process_id)].release();
  r.listeners.clear();  // of the others: descriptors are few
  return connect_members(r.ucx, std::move(r.config), "", {}, transport);
}

void await_end_of_job(ProcessId process) {
  const timespec nap{15, 0};  // longer than tasks' watcher waits, which knows more
  nanosleep(&nap, nullptr);
  if (process < 0) base::fatal("a process of the job is gone");
  base::fatal("process {} is gone", process);
}

}  // namespace ayatori::net
