// SPDX-License-Identifier: Apache-2.0
// `ayatori run --hosts`: the launcher of a job that runs on several hosts. For each it runs a command (by default ssh) that starts
// an agent there (agent.cpp), gives it its part by the command's standard input, and gathers output, cards, reasons and statuses.
// One thread, one poll loop.
//
// H1. The first reason for which the job ends is told, in one line that names the host, and decides the status.
// H2. Every wait has an end: hosts answer within AYATORI_START_TIMEOUT; a job that ends has kSignalNs where it was sent a signal,
//     then kEndNs, then the commands are killed. An agent whose command is gone ends by itself (agent.cpp A2).
// H3. The commands are a process group each: what a terminal sends is the launcher's to forward.
// H4. Nothing that a host sends is believed beyond frames.hpp: numbers of processes are those of its own part.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "frames.hpp"
#include "guard.hpp"
#include "host_job.hpp"
#include "options.hpp"
#include "report.hpp"
#include "sink.hpp"
#include "system.hpp"

namespace ayatori::tool {

class HostsJob {
 public:
  explicit HostsJob(const RunOptions& options);
  int run();

 private:
  static constexpr std::int64_t kSignalNs = 5 * base::kNsPerSecond;  // the members have 2 s, then they are killed
  static constexpr std::int64_t kEndNs = 5 * base::kNsPerSecond;

  enum class State { kCalled, kReady, kEnded };
  struct Host {
    std::string name;
    std::string command;  // for messages
    int first = 0, count = 0;
    State state = State::kCalled;
    pid_t pid = -1;  // of the command; -1: none runs
    int command_status = 0;
    Fd to, from;
    FrameWriter writer;
    FrameReader reader;
    std::string place;
    std::string partial[2];  // with labels: of a line of output
  };

  int call_hosts();
  int call(Host& host);
  void loop();
  void turn();
  void read_host(Host& host);
  void on_frame(Host& host, const Frame& frame);
  void on_ready();
  void on_output(Host& host, int stream, std::string_view bytes);
  void on_silence(Host& host);
  void on_signal(int signal);
  void reap();
  void on_deadline();
  void end(int status, const std::string& why);
  void end_host(Host& host);
  void tell_others(const Host& but, FrameKind kind, std::string_view body);
  void say(std::string_view line);
  bool all_ended() const;

  Guard guard_;
  const RunOptions& options_;
  std::vector<Host> hosts_;
  Fd signal_fd_;
  Sink sinks_[2];
  std::int64_t deadline_ns_ = 0;
  bool started_ = false;
  bool ending_ = false;
  bool signalled_ = false;  // members end by themselves, until the deadline
  bool told_ = false;       // H1
  bool killed_ = false;     // the commands
  int status_ = 0;
  std::vector<StatsRow> stats_;  // by process, as far as told
};

}  // namespace ayatori::tool
