// SPDX-License-Identifier: Apache-2.0
#include "net/member_network.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "base/knobs.hpp"
#include "net/bootstrap/addresses.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "net/bootstrap/place.hpp"
#include "net/process_set.hpp"
#include "net/tcp/transport.hpp"
#include "net/ucx/transport.hpp"

namespace ayatori::net {
namespace {

namespace boot = bootstrap;

constexpr std::uint32_t kRpcsMax = 256;  // between neighbours; room for long answers to each is reserved

void copy_text(std::string_view text, std::span<char> to) {
  const std::size_t bytes = std::min(text.size(), to.size() - 1);
  std::memcpy(to.data(), text.data(), bytes);
  to[bytes] = '\0';
}

shm::ShmConfig neighbours_config(int processes, std::size_t payload_bytes, std::uint32_t requests) {
  shm::ShmConfig config;
  config.processes = processes;
  config.has_descriptors = true;
  config.payload_bytes_max = config.reply_bytes_max = payload_bytes;
  config.rpcs_max = std::min(requests, kRpcsMax);
  while (config.ring_units * shm::MpscRing::kUnitBytes < 8 * payload_bytes) config.ring_units *= 2;
  return config;
}

template <class WireTransport>
base::Status connect(std::unique_ptr<WireTransport> net, const std::function<void(Transport&)>& prepare,
                     bool between_machines, std::unique_ptr<Transport>* result) {
  if (prepare) prepare(*net);
  if (base::Status status = net->connect(); !status.ok()) {
    if (!between_machines) return status;
    return base::error_status(status.code(),
                              "{}; is a firewall between them, or is the address of another network "
                              "(AYATORI_NET_INTERFACE)?",
                              status.message());
  }
  *result = std::move(net);
  return base::ok_status();
}

}  // namespace

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
    copy_text(listening->meeting.name(), card->meeting);
    return base::ok_status();
  };
}

base::Status configure(const boot::Membership& job, Listening& listening, tcp::TcpConfig* config) {
  config->self = job.self;
  config->processes = job.processes;
  config->secret = job.secret;
  config->job = job.job;
  config->addresses.resize(static_cast<std::size_t>(job.processes));
  for (std::size_t p = 0; p < job.cards.size(); ++p) {
    const boot::Card& card = job.cards[p];
    if (card.address_bytes == 0 || card.address_bytes > sizeof card.address)
      return base::error_status(base::Code::kInvalid,
                                "process {} on host {} uses no network: AYATORI_TRANSPORT differs", p,
                                std::string_view(card.host, ::strnlen(card.host, sizeof card.host)));
    std::memcpy(&config->addresses[p].storage, card.address, card.address_bytes);
    config->addresses[p].bytes = card.address_bytes;
    config->hosts.emplace_back(card.host, ::strnlen(card.host, sizeof card.host));
    if (std::strncmp(card.place, job.cards[static_cast<std::size_t>(job.self)].place, sizeof card.place) == 0)
      config->machine |= bit_of(static_cast<ProcessId>(p));
  }
  config->listener = listening.socket.release();
  return base::ok_status();
}

base::Status make_neighbours(std::size_t payload_bytes, std::uint32_t requests, std::unique_ptr<shm::ShmWorld>* world) {
  const boot::Job& job = boot::job();
  if (job.processes() == 1) return base::ok_status();
  const int first = job.number() - job.process_id;
  shm::ShmConfig config = neighbours_config(job.processes(), payload_bytes, requests);
  config.members = first_processes(job.process_count) << first;
  return shm::ShmWorld::create(config, world);
}

base::Status meet_neighbours(const boot::Membership& job, Listening& listening, std::size_t shared_bytes,
                             tcp::TcpConfig* config) {
  [[gnu::used]] static constinit shm::ShmWorld* kept = nullptr;  // in sight of leak checkers
  std::unique_ptr<shm::ShmWorld> world;
  const base::Status status =
      listening.meeting.meet(job, neighbours_config(job.processes, config->payload_bytes_max, config->requests_max),
                             shared_bytes, config->start_timeout_ns, &world);
  config->world = kept = world.release();
  return status;
}

base::Status connect_members(bool ucx, tcp::TcpConfig config, std::string interface,
                             const std::function<void(Transport&)>& prepare, std::unique_ptr<Transport>* result) {
  const bool between_machines = !interface.empty();
  if (!ucx) return connect(std::make_unique<tcp::TcpTransport>(std::move(config)), prepare, between_machines, result);
  // UCX gets the interface that the card names, unless it is told another.
  if (std::getenv("UCX_NET_DEVICES") != nullptr) interface.clear();
  std::unique_ptr<ucx::UcxTransport> net;
  if (base::Status status = ucx::UcxTransport::create({std::move(config), std::move(interface), {}}, &net);
      !status.ok())
    return status;
  return connect(std::move(net), prepare, between_machines, result);
}

}  // namespace ayatori::net
