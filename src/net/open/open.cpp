// SPDX-License-Identifier: Apache-2.0
// open(): which job was this process started in, and how does it talk there? Start-up code, one thread; the requests go
// straight to the transport.
#include <ayatori/net.hpp>

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/identity.hpp"
#include "base/knobs.hpp"
#include "net/bootstrap/addresses.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "net/bootstrap/membership.hpp"
#include "net/bootstrap/place.hpp"
#include "net/bootstrap/pmix.hpp"
#include "net/bootstrap/stat_names.hpp"
#include "net/bootstrap/surroundings.hpp"
#include "net/open/prepare.hpp"
#include "net/shm/transport.hpp"
#include "net/tcp/transport.hpp"
#include "net/ucx/transport.hpp"

namespace ayatori::net {
namespace {

namespace boot = bootstrap;

constinit shm::ShmWorld* own_world = nullptr;  // of a job of one process without a launcher; goes with its transport

enum class Wire { kShm, kTcp, kUcx };

struct Plan {
  Wire wire = Wire::kShm;
  std::int64_t timeout_ns = 0;
};

void copy_text(std::string_view text, std::span<char> to) {
  const std::size_t bytes = std::min(text.size(), to.size() - 1);
  std::memcpy(to.data(), text.data(), bytes);
  to[bytes] = '\0';
}

// What this process' card names. Owned jointly: PMIx may be kept waiting on a thread that is given up.
struct Listening {
  tcp::Socket socket;
  std::string interface;  // empty: loopback
};
using SharedListening = std::shared_ptr<Listening>;

boot::MakeCard make_network_card(SharedListening listening, std::string host) {
  return [listening = std::move(listening), host = std::move(host)](bool loopback, boot::Card* card) {
    boot::ChosenAddress chosen{tcp::kLoopback, ""};
    if (!loopback) {
      const base::Status status = boot::choose_address(base::knob_string("AYATORI_NET_INTERFACE"), host, &chosen);
      if (!status.ok()) return status;
    }
    tcp::SocketAddress address;
    if (base::Status status = tcp::listen_on(chosen.number, 0, &listening->socket, &address); !status.ok())
      return status;
    listening->interface = chosen.interface;
    static_assert(sizeof(sockaddr_in6) <= sizeof card->address);
    std::memcpy(card->address, &address.storage, address.bytes);
    card->address_bytes = static_cast<std::uint32_t>(address.bytes);
    copy_text(host.empty() ? boot::host_of_this_process() : host, card->host);
    copy_text(boot::place_of_this_process(), card->place);
    return base::ok_status();
  };
}

template <class WireTransport>
base::Status connect_and_start(std::unique_ptr<WireTransport> net, const std::function<void(Transport&)>& before_start,
                               std::unique_ptr<Transport>* result) {
  if (before_start) before_start(*net);
  if (const base::Status status = net->connect(); !status.ok())
    return base::error_status(status.code(),
                              "{}; is a firewall between them, or is the address of another network "
                              "(AYATORI_NET_INTERFACE)?",
                              status.message());
  net->start();
  *result = std::move(net);
  return base::ok_status();
}

// Over tcp or UCX.
base::Status make_network(const boot::Membership& job, Listening listening, const Plan& plan,
                          const std::function<void(Transport&)>& before_start, std::unique_ptr<Transport>* result) {
  tcp::TcpConfig config;
  config.self = job.self;
  config.processes = job.processes;
  config.secret = job.secret;
  config.job = job.job;
  config.start_timeout_ns = plan.timeout_ns;
  config.addresses.resize(static_cast<std::size_t>(job.processes));
  for (std::size_t p = 0; p < job.cards.size(); ++p) {
    const boot::Card& card = job.cards[p];
    if (card.address_bytes == 0 || card.address_bytes > sizeof card.address)
      return base::error_status(base::Code::kInvalid,
                                "process {} on host {} uses no network: AYATORI_TRANSPORT differs", p, card.host);
    std::memcpy(&config.addresses[p].storage, card.address, card.address_bytes);
    config.addresses[p].bytes = card.address_bytes;
    config.hosts.emplace_back(card.host);
  }
  config.listener = listening.socket.release();
  if (plan.wire == Wire::kTcp)
    return connect_and_start(std::make_unique<tcp::TcpTransport>(std::move(config)), before_start, result);
  // UCX gets the interface that the card names, unless it is told another.
  std::string device = std::getenv("UCX_NET_DEVICES") == nullptr ? listening.interface : "";
  std::unique_ptr<ucx::UcxTransport> net;
  if (base::Status status = ucx::UcxTransport::create({std::move(config), std::move(device), {}}, &net); !status.ok())
    return status;
  return connect_and_start(std::move(net), before_start, result);
}

base::Status make_shm(shm::ShmWorld& world, ProcessId self, const std::function<void(Transport&)>& before_start,
                      std::unique_ptr<Transport>* result) {
  auto net = std::make_unique<shm::ShmTransport>(world, self);
  if (before_start) before_start(*net);
  net->start();
  *result = std::move(net);
  return base::ok_status();
}

// Started by `ayatori run`.
base::Status open_launched(const Plan& plan, const OpenOptions& options, std::unique_ptr<Transport>* result) {
  const boot::JobControl& control = *boot::job().control;
  const int local = boot::job().process_id;
  auto listening = std::make_shared<Listening>();
  boot::MakeCard make_card = [](bool, boot::Card* card) {
    copy_text(boot::host_of_this_process(), card->host);
    return base::ok_status();
  };
  if (plan.wire != Wire::kShm)
    make_card = make_network_card(listening, control.cards[control.first_process + local].host);
  boot::Membership job;
  if (base::Status status = boot::join_launched(make_card, plan.timeout_ns, &job); !status.ok()) return status;
  if (plan.wire != Wire::kShm) return make_network(job, std::move(*listening), plan, options.before_start, result);
  AYT_CHECK(prepared_world() != nullptr, "this program was started without the library's constructor");
  return make_shm(*prepared_world(), local, options.before_start, result);
}

base::Status open_alone(const Plan& plan, const OpenOptions& options, std::unique_ptr<Transport>* result) {
  if (plan.wire != Wire::kShm) return make_network({}, {}, plan, options.before_start, result);
  std::unique_ptr<shm::ShmWorld> world;
  if (base::Status status = shm::ShmWorld::create({}, &world); !status.ok()) return status;
  own_world = world.release();
  return make_shm(*own_world, 0, options.before_start, result);
}

base::Status open_pmix(Plan plan, bool shm_wanted, const OpenOptions& options, std::unique_ptr<Transport>* result) {
  auto listening = std::make_shared<Listening>();
  boot::Membership job;
  base::Status status = boot::join_pmix(make_network_card(listening, ""), plan.timeout_ns, &job);
  if (!status.ok()) return status;
  base::set_identity(job.self, job.processes);
  if (job.processes == 1) return open_alone(plan, options, result);
  if (shm_wanted)
    return base::error_status(base::Code::kInvalid,
                              "AYATORI_TRANSPORT=shm: only processes that `ayatori run` has started share memory");
  if (plan.wire == Wire::kShm) plan.wire = Wire::kTcp;
  return make_network(job, std::move(*listening), plan, options.before_start, result);
}

base::Status open_here(const OpenOptions& options, std::unique_ptr<Transport>* result) {
  static constinit std::atomic<bool> opened{false};
  if (opened.exchange(true)) return base::error_status(base::Code::kInvalid, "net::open was called a second time");
  const std::string_view name = options.transport.empty() ? base::knob_string("AYATORI_TRANSPORT") : options.transport;
  if (name != "auto" && name != "shm" && name != "tcp" && name != "ucx")
    return base::error_status(base::Code::kInvalid,
                              "net::open: there is no transport {}; there are auto, shm, tcp, ucx", name);
  const bool shm_wanted = name == "shm";
  Plan plan;
  plan.wire = name == "tcp" ? Wire::kTcp : name == "ucx" ? Wire::kUcx : Wire::kShm;
  plan.timeout_ns =
      options.timeout_ns > 0 ? options.timeout_ns : base::knob_int("AYATORI_START_TIMEOUT") * base::kNsPerSecond;

  const boot::Job& job = boot::job();
  if (job.launched) {
    if ((job.control->flags & boot::kWide) != 0) {
      if (shm_wanted)
        return base::error_status(base::Code::kInvalid, "AYATORI_TRANSPORT=shm does not reach the job's other hosts");
      if (plan.wire == Wire::kShm) plan.wire = Wire::kTcp;
    }
    return open_launched(plan, options, result);
  }
  const boot::Surroundings around = boot::surroundings();
  switch (around.starter) {
    case boot::Starter::kPmix: return open_pmix(plan, shm_wanted, options, result);
    case boot::Starter::kSlurm:
    case boot::Starter::kOther:
      return base::error_status(base::Code::kUnavailable, "{}", boot::refusal_without_pmix(around));
    case boot::Starter::kNobody: break;
  }
  return open_alone(plan, options, result);
}

// Inside ayatori::run the process is in that phase and stays there.
void enter(boot::Phase phase) {
  const boot::Phase now = boot::phase();
  if (now != boot::Phase::kRunning && now != boot::Phase::kFinished) boot::set_phase(phase);
}

// For --stats; a program that has had a run of ayatori::run has told its own.
void tell_counters(const Transport& net) {
  const Counters counters = net.counters();
  std::array<std::uint64_t, boot::kStats> values{};
  constexpr std::size_t kMessages = boot::stat_slot("messages_sent");
  constexpr std::size_t kSent = boot::stat_slot("bytes_sent");
  constexpr std::size_t kReceived = boot::stat_slot("bytes_received");
  static_assert(kMessages < boot::kStats && kSent < boot::kStats && kReceived < boot::kStats);
  values[kMessages] = counters.messages_sent;
  values[kSent] = counters.bytes_sent;
  values[kReceived] = counters.bytes_received;
  boot::publish_stats(values);
}

}  // namespace

OwnedTransport try_open(const OpenOptions& options, std::string* why) {
  enter(boot::Phase::kJoining);
  std::unique_ptr<Transport> net;
  if (const base::Status status = open_here(options, &net); !status.ok()) {
    *why = status.message();
    enter(boot::Phase::kStarting);
    return nullptr;
  }
  enter(boot::Phase::kJoined);
  return OwnedTransport(net.release());
}

OwnedTransport open(const OpenOptions& options) {
  std::string why;
  OwnedTransport net = try_open(options, &why);
  if (net == nullptr) boot::end_unjoined(why);
  return net;
}

void Close::operator()(Transport* net) const noexcept {
  if (boot::phase() == boot::Phase::kJoined && boot::stats_wanted()) tell_counters(*net);
  delete net;
  delete std::exchange(own_world, nullptr);
  enter(boot::Phase::kFinished);
}

}  // namespace ayatori::net
