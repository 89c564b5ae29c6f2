// SPDX-License-Identifier: Apache-2.0
// A whole network in one process, deterministic: virtual time, LogGP costs, seeded delays and reorderings, processes that can
// be killed. Protocol tests drive it with step() on one thread; tests with blocking code run one script per process
// (script.hpp), of which exactly one runs at a time.
//
// V1. Everything follows from the seed and the calls made: same seed, same trace_hash().
// V2. Nothing happens inside a try_* call but the check for room: effects and completions are events at later virtual
//     times, each at one process. A write's bytes are taken at its issue or at its arrival, by the seed.
// V3. A transfer of more than 8 bytes may take effect in two parts, cut between aligned words: no more than N5 promises.
// V4. LogGP: a process issues at most one request per max(o, g + bytes * G); it arrives o + bytes * G + L later plus up to
//     `jitter_ns`; requests of one pair overtake each other.
// V5. A killed process runs no further event. What it sent and has not arrived is lost or arrives, by the seed. Each other
//     process notices after failure_notice_ns or a little later; until then requests to it stay unanswered.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include <ayatori/net/types.hpp>
#include "base/clock.hpp"

namespace ayatori::net::sim {

class SimTransport;
class Scripts;

struct SimParams {
  int processes = 2;
  std::uint64_t seed = 1;
  std::int64_t latency_ns = 1000;     // L
  std::int64_t overhead_ns = 200;     // o
  std::int64_t gap_ns = 100;          // g
  std::int64_t gap_per_kib_ns = 100;  // G * 1,024
  std::int64_t jitter_ns = 3000;      // 0: no reordering
  std::int64_t failure_notice_ns = 100'000;
  bool tear_transfers = true;  // V3
  bool direct_pointer = false;
  std::size_t payload_bytes_max = 4096;
  std::uint32_t rpcs_max = 128;          // under way per process
  std::uint32_t requests_max = 128;      // reads, writes, atomics under way per process
  std::uint32_t inbox_messages = 512;    // under way to one process
  std::uint64_t steps_max = 50'000'000;  // then the run is called a livelock
};

enum class PacketKind : std::uint8_t { kRead, kWrite, kAtomic, kMessage, kRpc, kAnswer };

struct Packet {  // what a filter sees
  PacketKind kind;
  ProcessId from;
  ProcessId to;
  std::size_t bytes;
  HandlerId handler;  // messages and RPCs
};
struct Verdict {
  bool drop = false;  // lost without a trace: a planted bug, for real networks of this project do not lose
  std::int64_t extra_delay_ns = 0;
};

class SimWorld {
 public:
  explicit SimWorld(const SimParams& params);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  SimTransport& transport(ProcessId process) { return *transports_[static_cast<std::size_t>(process)]; }
  const SimParams& params() const noexcept { return params_; }

  // Runs the next event. False: there is none.
  bool step();
  void run_until_idle() {
    while (step()) {
    }
  }
  std::int64_t now_ns() const noexcept { return now_ns_; }
  const base::ClockSource* clock_source() const noexcept { return &clock_source_; }  // for base::ScopedClock
  std::uint64_t trace_hash() const noexcept { return trace_hash_; }
  std::uint64_t steps() const noexcept { return steps_; }
  std::size_t events_waiting() const noexcept { return events_.size(); }

  // Runs `function` at `process` after `delay_ns`, unless it is dead by then.
  void at(std::int64_t delay_ns, ProcessId process, std::function<void()> function);
  void kill(ProcessId process);
  bool alive(ProcessId process) const noexcept { return alive_[static_cast<std::size_t>(process)]; }
  void set_filter(std::function<Verdict(const Packet&)> filter) { filter_ = std::move(filter); }
  // Called after every event: where protocol tests check their invariants.
  void set_observer(std::function<void()> observer) { observer_ = std::move(observer); }

  // For SimTransport and Scripts.
  std::uint64_t random(std::uint64_t below) { return below <= 1 ? 0 : random_() % below; }
  bool coin() { return (random_() >> 17 & 1) != 0; }
  bool in_event() const noexcept { return in_event_; }
  // Sends a packet: `arrive` runs at packet.to, not before `not_before_ns`. `lost` (may be empty) runs, at no process, if it
  // will never arrive. Returns the time of arrival.
  std::int64_t send(const Packet& packet, std::function<void()> arrive, std::function<void()> lost = {},
                    std::int64_t not_before_ns = 0);
  ProcessId last_process() const noexcept { return last_process_; }  // of the last event
  Scripts* scripts() const noexcept { return scripts_; }
  void set_scripts(Scripts* scripts) noexcept { scripts_ = scripts; }

 private:
  struct Event {
    std::int64_t time_ns;
    std::uint64_t tie;  // seeded: the order of simultaneous events
    std::uint64_t number;
    ProcessId process;
    ProcessId from;  // == process: local
    std::function<void()> run;
    std::function<void()> lost;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const noexcept {
      if (a.time_ns != b.time_ns) return a.time_ns > b.time_ns;
      return a.tie != b.tie ? a.tie > b.tie : a.number > b.number;
    }
  };
  void push(Event event);
  void mix(std::uint64_t value) noexcept { trace_hash_ = (trace_hash_ ^ value) * 0x100000001b3ULL; }

  const SimParams params_;
  base::ClockSource clock_source_;
  std::mt19937_64 random_;
  std::vector<Event> events_;  // a heap by Later
  std::vector<bool> alive_;
  std::vector<std::int64_t> next_issue_ns_;
  std::function<Verdict(const Packet&)> filter_;
  std::function<void()> observer_;
  std::int64_t now_ns_ = 0;
  std::uint64_t events_made_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t trace_hash_ = 0xcbf29ce484222325ULL;
  bool in_event_ = false;
  ProcessId last_process_ = -1;
  Scripts* scripts_ = nullptr;
  std::vector<std::unique_ptr<SimTransport>> transports_;
};

}  // namespace ayatori::net::sim
