// SPDX-License-Identifier: Apache-2.0
// open(): which job was this process started in, and how does it talk there? Start-up code, one thread; the requests go
// straight to the transport, or by offloading where AYATORI_NET_OFFLOAD says so.
#include <ayatori/net.hpp>

#include <array>
#include <atomic>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/identity.hpp"
#include "base/knobs.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "net/bootstrap/membership.hpp"
#include "net/bootstrap/place.hpp"
#include "net/bootstrap/pmix.hpp"
#include "net/bootstrap/stat_names.hpp"
#include "net/bootstrap/surroundings.hpp"
#include "net/idle.hpp"
#include "net/member_network.hpp"
#include "net/offload/transport.hpp"
#include "net/open/memory.hpp"
#include "net/open/prepare.hpp"
#include "net/shm/transport.hpp"
#include "net/transport_choice.hpp"

namespace ayatori::net {
namespace {

namespace boot = bootstrap;

constinit shm::ShmWorld* own_world = nullptr;  // of a job of one process without a launcher; goes with its transport
[[gnu::used]] constinit shm::ShmWorld* met_world =
    nullptr;                               // lives as long as the process, for its memory has been given out
constinit Transport* own_below = nullptr;  // below the offloading one that the program has; goes with that

struct Plan {
  TransportChoice transport;
  std::int64_t timeout_ns = 0;

  bool has_wire() const noexcept { return transport.wire != Wire::kNone; }
};

// What the knobs ask for (docs/design/offloading.md).
offload::OffloadOptions offload_options() {
  const std::string_view mode = base::knob_string("AYATORI_NET_OFFLOAD");
  offload::OffloadOptions options;
  options.mode = mode == "offload"  ? offload::OffloadMode::kOffload
                 : mode == "worker" ? offload::OffloadMode::kWorker
                                    : offload::OffloadMode::kDirect;
  options.executors = static_cast<int>(base::knob_int("AYATORI_NET_EXECUTORS"));
  options.tags = static_cast<std::uint32_t>(base::knob_int("AYATORI_NET_TAGS"));
  return options;
}

using Prepare = std::function<void(Transport&)>;

// Between a transport and the program: made when the one below is there, started with it.
class Offloading {
 public:
  explicit Offloading(const Prepare& program) : program_(program) {}

  // Of the transport below, before it starts.
  Prepare prepare() {
    return [this](Transport& below) {
      if (options_.mode != offload::OffloadMode::kDirect)
        above_ = std::make_unique<offload::OffloadTransport>(below, options_);
      if (program_) program_(above_ != nullptr ? *above_ : below);
    };
  }
  void start(std::unique_ptr<Transport> below, std::unique_ptr<Transport>* result) {
    if (above_ == nullptr) {
      below->start();
      *result = std::move(below);
      return;
    }
    above_->start();
    if (options_.mode == offload::OffloadMode::kWorker) set_idle_transport(above_.get());
    own_below = below.release();
    *result = std::move(above_);
  }

 private:
  const Prepare& program_;
  const offload::OffloadOptions options_ = offload_options();
  std::unique_ptr<offload::OffloadTransport> above_;
};

// With those of this machine that were started apart.
base::Status meet(const boot::Membership& job, Listening& listening, tcp::TcpConfig* config) {
  const std::size_t bytes_each = memory::is_reserved() ? 0 : base::knob_size("AYATORI_NET_MEMORY");
  const base::Status status =
      meet_neighbours(job, listening, memory::bytes_of_parts(job.processes, bytes_each), config);
  if (config->world != nullptr && bytes_each != 0)
    memory::reserve_apart(*config->world, job.self, job.processes, bytes_each);
  return status;
}

// Over tcp or UCX, and shared memory below.
base::Status make_network(const boot::Membership& job, Listening listening, const Plan& plan,
                          const Prepare& before_start, std::unique_ptr<Transport>* result) {
  tcp::TcpConfig config;
  config.start_timeout_ns = plan.timeout_ns;
  if (base::Status status = configure(job, listening, &config); !status.ok()) return status;
  if (plan.transport.shm && boot::job().process_count > 1) config.world = prepared_world();
  if (plan.transport.shm && boot::job().process_count == 1)
    if (base::Status status = meet(job, listening, &config); !status.ok()) return status;
  Offloading offloading(before_start);
  std::unique_ptr<Transport> net;
  if (base::Status status = connect_members(plan.transport.wire == Wire::kUcx, std::move(config),
                                            std::move(listening.interface), offloading.prepare(), &net);
      !status.ok())
    return status;
  offloading.start(std::move(net), result);
  return base::ok_status();
}

base::Status make_shm(shm::ShmWorld& world, ProcessId self, const std::function<void(Transport&)>& before_start,
                      std::unique_ptr<Transport>* result) {
  auto net = std::make_unique<shm::ShmTransport>(world, self);
  Offloading offloading(before_start);
  offloading.prepare()(*net);
  offloading.start(std::move(net), result);
  return base::ok_status();
}

base::Status open_alone(const Plan& plan, const OpenOptions& options, std::unique_ptr<Transport>* result) {
  if (plan.has_wire()) return make_network({}, {}, plan, options.before_start, result);
  std::unique_ptr<shm::ShmWorld> world;
  if (base::Status status = shm::ShmWorld::create({}, &world); !status.ok()) return status;
  own_world = world.release();
  return make_shm(*own_world, 0, options.before_start, result);
}

// Started by `ayatori run`.
base::Status open_launched(const Plan& plan, const OpenOptions& options, std::unique_ptr<Transport>* result) {
  const boot::JobControl& control = *boot::job().control;
  const int local = boot::job().process_id;
  const bool shares = prepared_world() != nullptr && prepared_world()->config().has_descriptors;
  if (plan.has_wire() && plan.transport.shm && boot::job().process_count > 1 && !shares)
    return base::error_status(
        base::Code::kInvalid,
        "net::open: shm beside another transport is a matter of the whole job: leave the option out "
        "and set AYATORI_TRANSPORT");
  auto listening = std::make_shared<Listening>();
  boot::MakeCard make_card = [](bool, boot::Card* card) {
    boot::host_of_this_process().copy(card->host, sizeof card->host - 1);
    return base::ok_status();
  };
  if (plan.has_wire() && plan.transport.shm && boot::job().process_count == 1) listening->meeting.open();
  if (plan.has_wire()) make_card = make_network_card(listening, control.cards[control.first_process + local].host);
  boot::Membership job;
  if (base::Status status = boot::join_launched(make_card, plan.timeout_ns, &job); !status.ok()) return status;
  if (plan.has_wire()) return make_network(job, std::move(*listening), plan, options.before_start, result);
  if (job.processes == 1 && prepared_world() == nullptr) return open_alone(plan, options, result);
  AYT_CHECK(prepared_world() != nullptr, "this program was started without the library's constructor");
  return make_shm(*prepared_world(), local, options.before_start, result);
}

base::Status open_pmix(Plan plan, bool shm_wanted, const OpenOptions& options, std::unique_ptr<Transport>* result) {
  auto listening = std::make_shared<Listening>();
  const Plan alone = plan;
  if (!plan.has_wire()) plan.transport = {true, Wire::kTcp};
  if (plan.transport.shm) listening->meeting.open();
  boot::Membership job;
  base::Status status = boot::join_pmix(make_network_card(listening, ""), plan.timeout_ns, &job);
  if (!status.ok()) return status;
  base::set_identity(job.self, job.processes);
  if (job.processes == 1) return open_alone(alone, options, result);
  if (shm_wanted)
    return base::error_status(base::Code::kInvalid,
                              "AYATORI_TRANSPORT=shm: processes that srun or mpirun has started may be on several "
                              "machines: use shm+tcp or shm+ucx");
  return make_network(job, std::move(*listening), plan, options.before_start, result);
}

base::Status open_here(const OpenOptions& options, std::unique_ptr<Transport>* result) {
  static constinit std::atomic<bool> opened{false};
  if (opened.exchange(true)) return base::error_status(base::Code::kInvalid, "net::open was called a second time");
  const std::string_view name = options.transport.empty() ? base::knob_string("AYATORI_TRANSPORT") : options.transport;
  Plan plan;
  if (const base::Status status = choose_transport(name, boot::job().is_wide(), &plan.transport); !status.ok())
    return base::error_status(status.code(), "net::open: {}", status.message());
  plan.timeout_ns =
      options.timeout_ns > 0 ? options.timeout_ns : base::knob_int("AYATORI_START_TIMEOUT") * base::kNsPerSecond;

  const boot::Job& job = boot::job();
  if (job.launched) return open_launched(plan, options, result);
  const boot::Surroundings around = boot::surroundings();
  switch (around.starter) {
    case boot::Starter::kPmix: return open_pmix(plan, name == "shm", options, result);
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
  constexpr std::size_t kByMemory = boot::stat_slot("messages_by_memory");
  constexpr std::size_t kSent = boot::stat_slot("bytes_sent");
  constexpr std::size_t kReceived = boot::stat_slot("bytes_received");
  static_assert(kMessages < boot::kStats && kByMemory < boot::kStats && kSent < boot::kStats &&
                kReceived < boot::kStats);
  values[kMessages] = counters.messages_sent;
  values[kByMemory] = counters.messages_by_memory;
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
  set_idle_transport(nullptr);
  delete net;
  delete std::exchange(own_below, nullptr);
  delete std::exchange(own_world, nullptr);
  enter(boot::Phase::kFinished);
}

}  // namespace ayatori::net
