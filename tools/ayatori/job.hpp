// SPDX-License-Identifier: Apache-2.0
// The launcher's side of one job, from the first image's exec to the exit status. One thread, one poll loop, no
// spinning: it sleeps until a child ends, a signal, a message, output or a deadline comes.
//
// R1. The first reason for which the job ends is told, in one line, and decides the status. What happens to members
//     after the launcher has begun to end the job is no news.
// R2. A death by a signal is a better reason than what another member noticed of it: children are reaped before a
//     recorded reason is taken.
// R3. Signals to the launcher are forwarded once, to each member by its pid; those that the terminal has given to the
//     whole group are not given again.
// R4. SIGKILL goes to every child there is, also to orphans that the job left: nothing outlives a job that ended before
//     its time. After an ordinary end, processes that the program put in the background live on.
// R5. A member that called exit() inside the run has kExitNs for its exit handlers; members that got a forwarded signal
//     have kGraceNs.
// R6. Members can write to the control memory, by a wild store too: a pid is believed once, and of a descendant only, so
//     that nobody outside the job is ever signalled.
// R7. The guard (guard.hpp) is a child too, but none of the job: it is neither waited for nor killed with the others.
#pragma once

#include <sys/signalfd.h>
#include <sys/wait.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "guard.hpp"
#include "labels.hpp"
#include "launch.hpp"
#include "options.hpp"
#include "wide.hpp"

namespace ayatori::tool {

class Job {
 public:
  // `wide`: the job has members on other hosts too; process numbers below are this host's, in lines they are the job's.
  Job(const RunOptions& options, const Program& program, WideJob* wide = nullptr)
      : options_(options), program_(program), wide_(wide) {}
  int run();
  const net::bootstrap::JobControl* control() const noexcept { return channel_.control; }

 private:
  static constexpr std::int64_t kGraceNs = 2 * base::kNsPerSecond;
  static constexpr std::int64_t kExitNs = 2 * base::kNsPerSecond;
  static constexpr std::int64_t kKillNs = 2 * base::kNsPerSecond;

  enum class Stage {
    kRunning,
    kGrace,    // a signal was forwarded; members may end by themselves
    kKilling,  // all were sent SIGKILL; reaping
    kOutput,   // all are gone; labelled output leaves
    kDone,
  };
  struct Member {
    bool gone = false;
    pid_t pid = 0;                      // 0: not seen yet (R6)
    std::int64_t exit_deadline_ns = 0;  // 0: has not called exit()
  };

  void take_signals();
  void loop();
  int poll_timeout_ms() const;
  void on_signal(const signalfd_siginfo& signal);
  void on_terminating_signal(int signal, bool members_have_it);
  void stop_and_go_on();
  void on_deadlines();
  void read_messages();
  void look();
  void look_for_cards();
  void read_uplink();
  void reap();
  void on_member_gone(int process, const siginfo_t& info);
  void on_ordinary_exit(int process, int status, net::bootstrap::Phase phase);
  bool take_recorded_end();
  void note_left_early(int number, int status, const std::string& name);
  void end(int status, const std::string& why);
  void start_killing();
  void kill_children();
  void forward(int signal);
  void request_report();
  void on_all_gone();
  void tell(const std::string& line);

  int process_of(pid_t pid);
  pid_t told_pid(int process) const;
  pid_t pid_of(int process);
  bool is_alive(int process);
  bool any_alive();
  net::bootstrap::Phase phase_of(int process) const;
  int number_of(int process) const { return wide_ != nullptr ? wide_->first + process : process; }
  std::string name_of(int process);

  Guard guard_;  // started before the first member, ended after everything else

  // Constant after run() has started the job.
  const RunOptions& options_;
  const Program& program_;
  WideJob* const wide_;
  SignalState signals_{};
  Channel channel_;
  FirstImage first_;
  Fd signal_fd_;
  std::unique_ptr<LabelMux> labels_;

  Stage stage_ = Stage::kRunning;
  std::array<Member, net::bootstrap::kMaxProcesses> members_{};
  std::uint64_t cards_told_ = 0;  // bit: of which member, to the agent
  std::int64_t deadline_ns_ = 0;  // of kGrace and kKilling
  bool no_children_ = false;
  int status_ = 0;  // first non-zero one, or the one that the reason has set
  int status_of_0_ = 0;
  bool status_is_final_ = false;
};

}  // namespace ayatori::tool
