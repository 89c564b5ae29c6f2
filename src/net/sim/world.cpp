// SPDX-License-Identifier: Apache-2.0
#include "net/sim/world.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "net/sim/transport.hpp"

namespace ayatori::net::sim {

SimWorld::SimWorld(const SimParams& params)
    : params_(params),
      clock_source_{[](void* self) { return static_cast<SimWorld*>(self)->now_ns_; }, this},
      random_(params.seed),
      alive_(static_cast<std::size_t>(params.processes), true),
      next_issue_ns_(static_cast<std::size_t>(params.processes), 0) {
  AYT_CHECK(params.processes >= 1, "{} simulated processes", params.processes);
  for (ProcessId p = 0; p < params.processes; ++p) transports_.push_back(std::make_unique<SimTransport>(*this, p));
}

SimWorld::~SimWorld() = default;

void SimWorld::push(Event event) {
  event.tie = random_();
  event.number = events_made_++;
  events_.push_back(std::move(event));
  std::push_heap(events_.begin(), events_.end(), Later{});
}

void SimWorld::at(std::int64_t delay_ns, ProcessId process, std::function<void()> function) {
  push({now_ns_ + delay_ns, 0, 0, process, process, std::move(function), {}});
}

std::int64_t SimWorld::send(const Packet& packet, std::function<void()> arrive, std::function<void()> lost,
                            std::int64_t not_before_ns) {
  const Verdict verdict = filter_ ? filter_(packet) : Verdict{};
  if (verdict.drop) {
    if (lost) lost();
    return now_ns_;
  }
  const auto transfer_ns = static_cast<std::int64_t>(packet.bytes) * params_.gap_per_kib_ns / 1024;
  std::int64_t& next_ns = next_issue_ns_[static_cast<std::size_t>(packet.from)];  // V4
  const std::int64_t start_ns = std::max(now_ns_, next_ns);
  next_ns = start_ns + std::max(params_.overhead_ns, params_.gap_ns + transfer_ns);
  const std::int64_t arrival_ns = std::max(
      not_before_ns, start_ns + params_.overhead_ns + transfer_ns + params_.latency_ns + verdict.extra_delay_ns +
                         static_cast<std::int64_t>(random(static_cast<std::uint64_t>(params_.jitter_ns) + 1)));
  push({arrival_ns, 0, 0, packet.to, packet.from, std::move(arrive), std::move(lost)});
  return arrival_ns;
}

bool SimWorld::step() {
  if (events_.empty()) return false;
  AYT_CHECK(!in_event_, "an event runs the simulation");
  AYT_CHECK(++steps_ <= params_.steps_max, "simulation: no end after {} steps (seed {})", steps_, params_.seed);
  std::pop_heap(events_.begin(), events_.end(), Later{});
  Event event = std::move(events_.back());
  events_.pop_back();
  now_ns_ = std::max(now_ns_, event.time_ns);
  last_process_ = event.process;
  const bool sender_gone = !alive(event.from) && event.from != event.process;
  const bool runs = alive(event.process) && !(sender_gone && coin());  // V5
  mix(static_cast<std::uint64_t>(now_ns_));
  mix(static_cast<std::uint64_t>(event.process) << 1 | static_cast<std::uint64_t>(runs));
  in_event_ = true;
  if (runs) {
    if (event.run) event.run();
    transport(event.process).after_event();
  } else if (event.lost) {
    event.lost();
  }
  in_event_ = false;
  if (observer_) observer_();
  return true;
}

void SimWorld::kill(ProcessId process) {
  if (!alive(process)) return;
  alive_[static_cast<std::size_t>(process)] = false;
  for (ProcessId p = 0; p < params_.processes; ++p) {
    if (!alive(p)) continue;
    const auto late_ns =
        static_cast<std::int64_t>(random(static_cast<std::uint64_t>(params_.failure_notice_ns) / 4 + 1));
    at(params_.failure_notice_ns + late_ns, p, [this, p, process] { transport(p).notice_failure(process); });
  }
}

}  // namespace ayatori::net::sim
