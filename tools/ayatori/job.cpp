// SPDX-License-Identifier: Apache-2.0
#include "job.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <limits>

#include "base/futex.hpp"
#include "proc.hpp"

namespace ayatori::tool {
namespace {

namespace boot = net::bootstrap;

std::int64_t now_ns() { return base::real_now_ns(); }

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

bool same_file(int a, int b) {
  struct stat x{};
  struct stat y{};
  return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

std::uint32_t label_flags(bool label) {
  if (!label) return 0;
  const bool out = is_open(STDOUT_FILENO);
  const bool err = is_open(STDERR_FILENO);
  std::uint32_t flags = (out ? boot::kLabelOut : 0u) | (err ? boot::kLabelErr : 0u);
  if (out && err && same_file(STDOUT_FILENO, STDERR_FILENO)) flags |= boot::kLabelMerged;
  return flags;
}

std::string signal_text(int signal) {
  const char* const text = sigdescr_np(signal);
  return base::formatted("signal {} ({})", signal, text != nullptr ? text : "real-time");
}

}  // namespace

int Job::run() {
  const std::uint32_t labels = label_flags(options_.label);
  std::uint32_t flags = labels;
  if (options_.gdb) flags |= boot::kDebugged;
  if (options_.stats) flags |= boot::kWantStats;
  if (const int status = open_channel(options_, flags, wide_, channel_)) return status;
  labels_ = std::make_unique<LabelMux>((labels & boot::kLabelOut) != 0, (labels & boot::kLabelErr) != 0,
                                       (labels & boot::kLabelMerged) != 0);
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    return fail(kExitStart, "cannot become a subreaper: {}", error_text(errno));
  take_signals();
  if (!signal_fd_) return fail(kExitStart, "cannot make a signal descriptor: {}", error_text(errno));
  guard_.start();
  if (const int status = start_first_image(options_, program_, signals_, number_of(0), channel_, *labels_, first_))
    return status;
  loop();
  if (status_is_final_) return status_;
  return status_of_0_ != 0 ? status_of_0_ : status_;
}

void Job::take_signals() {
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  struct sigaction ignored{};
  ignored.sa_handler = SIG_IGN;
  sigaction(SIGHUP, nullptr, &signals_.hup);    // stays ignored under nohup
  sigaction(SIGTSTP, nullptr, &signals_.tstp);  // and so does this one
  // A shell's background job starts with these ignored; sent to this very process, they are meant.
  sigaction(SIGINT, &standard, &signals_.interrupt);
  sigaction(SIGQUIT, &standard, &signals_.quit);
  sigaction(SIGCHLD, &standard, &signals_.child);  // ignored, it would swallow the members' statuses
  sigaction(SIGPIPE, &ignored, &signals_.pipe);

  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGCHLD}) sigaddset(&taken, signal);
  if (signals_.hup.sa_handler != SIG_IGN) sigaddset(&taken, SIGHUP);  // a blocked signal is delivered though ignored
  sigprocmask(SIG_BLOCK, &taken, &signals_.mask);
  signal_fd_ = above_standard(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
}

void Job::loop() {
  if (first_.own_group && signals_.tstp.sa_handler != SIG_IGN) {  // Ctrl-Z reaches only us: it is handed on
    sigset_t taken;
    sigprocmask(SIG_BLOCK, nullptr, &taken);
    sigaddset(&taken, SIGTSTP);
    sigprocmask(SIG_BLOCK, &taken, nullptr);
    signalfd(signal_fd_.get(), &taken, 0);
  }
  std::vector<pollfd> polls;
  while (stage_ != Stage::kDone) {
    polls.clear();
    polls.push_back({signal_fd_.get(), POLLIN, 0});
    polls.push_back({channel_.socket.get(), POLLIN, 0});
    polls.push_back({wide_ != nullptr && !wide_->uplink.ended() ? wide_->uplink.fd() : -1, POLLIN, 0});
    labels_->add_polls(polls);
    const int ready = poll(polls.data(), polls.size(), poll_timeout_ms());
    if (ready < 0 && errno != EINTR) {
      end(kExitStart, base::formatted("the launcher failed: poll: {}", error_text(errno)));
      return;
    }
    if (ready > 0) {
      if (polls[1].revents != 0) read_messages();
      if (polls[2].revents != 0) read_uplink();
      labels_->handle(polls.data() + 3, polls.data() + polls.size());
      signalfd_siginfo signal;
      while (read(signal_fd_.get(), &signal, sizeof signal) == sizeof signal) on_signal(signal);
    }
    on_deadlines();
    if (stage_ == Stage::kOutput && !labels_->has_pending()) stage_ = Stage::kDone;
  }
}

int Job::poll_timeout_ms() const {
  std::int64_t next_ns = deadline_ns_ != 0 ? deadline_ns_ : std::numeric_limits<std::int64_t>::max();
  if (stage_ == Stage::kRunning)
    for (const Member& member : members_)
      if (member.exit_deadline_ns != 0 && !member.gone) next_ns = std::min(next_ns, member.exit_deadline_ns);
  if (next_ns == std::numeric_limits<std::int64_t>::max()) return -1;
  const std::int64_t left_ns = next_ns - now_ns();
  return left_ns <= 0 ? 0 : static_cast<int>(left_ns / base::kNsPerMs) + 1;
}

void Job::on_signal(const signalfd_siginfo& signal) {
  const bool from_terminal = signal.ssi_code == SI_KERNEL;
  const bool members_have_it = from_terminal && !first_.own_group;  // R3
  switch (const int number = static_cast<int>(signal.ssi_signo)) {
    case SIGCHLD: reap(); break;
    case SIGQUIT:
      if (!members_have_it) request_report();
      break;
    case SIGTSTP: stop_and_go_on(); break;
    case SIGINT:
      if (from_terminal && (options_.gdb || signals_.interrupt.sa_handler == SIG_IGN)) break;
      [[fallthrough]];
    default: on_terminating_signal(number, members_have_it); break;
  }
}

// As a shell expects of a job: the members first, then this process, which goes on here when it is continued (or at once
// where the kernel does not let it stop, in a group that no shell cares for).
void Job::stop_and_go_on() {
  forward(SIGTSTP);
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  kill(getpid(), SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stop, nullptr);
  sigprocmask(SIG_BLOCK, &stop, nullptr);
  forward(SIGCONT);
}

void Job::on_terminating_signal(int signal, bool members_have_it) {
  if (stage_ == Stage::kOutput) stage_ = Stage::kDone;  // whoever should read our output does not
  if (stage_ != Stage::kRunning) return;
  stage_ = Stage::kGrace;
  deadline_ns_ = now_ns() + kGraceNs;
  status_ = 128 + signal;
  status_is_final_ = true;
  if (!members_have_it) {
    forward(signal);
  }
  if (wide_ == nullptr) tell(base::formatted("the job was sent {} and is ended", signal_text(signal)));
}

// To the agent, whose launcher says it, where there is one.
void Job::tell(const std::string& line) {
  if (wide_ == nullptr || !wide_->has_launcher) {
    if (!line.empty()) labels_->say(line);
    return;
  }
  wide_->uplink.send(FrameKind::kReason, Packer().number(static_cast<std::uint64_t>(status_)).text(line).body());
}

void Job::on_deadlines() {
  const std::int64_t now = now_ns();
  if (stage_ == Stage::kRunning) {
    for (int process = 0; process < options_.processes && stage_ == Stage::kRunning; ++process) {
      const Member& member = members_[process];
      if (member.gone || member.exit_deadline_ns == 0 || now < member.exit_deadline_ns) continue;
      const int status = channel_.control->members[process].exit_status.load(std::memory_order_relaxed);
      end(status,
          base::formatted("{} called exit({}) and did not end within 2 s; the job is ended", name_of(process), status));
    }
  }
  if (deadline_ns_ == 0 || now < deadline_ns_) return;
  if (stage_ == Stage::kGrace) {
    start_killing();
  } else if (stage_ == Stage::kKilling) {
    for (int process = 0; process < options_.processes; ++process)
      if (is_alive(process)) say(base::formatted("{} cannot be killed; it is left behind", name_of(process)));
    on_all_gone();
  }
}

void Job::read_messages() {
  for (;;) {
    boot::Message message{};
    iovec part{&message, sizeof message};
    int fds[2] = {-1, -1};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof fds)];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = room;
    header.msg_controllen = sizeof room;
    const ssize_t bytes = recvmsg(channel_.socket.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return;
    if (bytes == 0) {  // no member has the other end any more
      channel_.socket.reset();
      return;
    }
    std::size_t count = 0;
    for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr; rights = CMSG_NXTHDR(&header, rights)) {
      if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
      count = std::min<std::size_t>((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int), 2);
      std::memcpy(fds, CMSG_DATA(rights), count * sizeof(int));
    }
    if (message.kind == boot::MessageKind::kStreams) {
      if ((header.msg_flags & MSG_CTRUNC) != 0) {
        if (!status_is_final_)  // said already, or the job ends for another reason
          end(kExitStart, "--label needs two descriptors a process: too few are left (ulimit -n); the job is ended");
        return;
      }
      std::size_t next = 0;
      if (labels_->takes_out() && next < count) labels_->add_stream(number_of(message.process), Fd(fds[next++]), false);
      if (labels_->takes_err() && next < count) labels_->add_stream(number_of(message.process), Fd(fds[next++]), true);
    }
    look();
  }
}

// What have the members written into the control memory?
void Job::look() {
  if (stage_ != Stage::kRunning) return;
  if (wide_ != nullptr) look_for_cards();
  for (int process = 0; process < options_.processes; ++process) {
    Member& member = members_[process];
    pid_of(process);  // R6: as soon as it is there
    // acquire: pairs with the exit handler's store.
    if (!member.gone && member.exit_deadline_ns == 0 &&
        channel_.control->members[process].called_exit.load(std::memory_order_acquire) != 0)
      member.exit_deadline_ns = now_ns() + kExitNs;
  }
  // acquire: pairs with end_job().
  if (channel_.control->end.state.load(std::memory_order_acquire) != boot::EndControl::kWritten) return;
  reap();  // R2
  if (stage_ == Stage::kRunning) take_recorded_end();
}

void Job::look_for_cards() {
  for (int process = 0; process < options_.processes; ++process) {
    const int number = number_of(process);
    const boot::JobControl& control = *channel_.control;
    // acquire: pairs with the member's store
    if ((cards_told_ >> process & 1) != 0 || control.card_filled[number].load(std::memory_order_acquire) == 0) continue;
    cards_told_ |= std::uint64_t{1} << process;
    const std::string_view card(reinterpret_cast<const char*>(&control.cards[number]), sizeof(boot::Card));
    wide_->uplink.send(FrameKind::kCard, Packer().number(static_cast<std::uint64_t>(number)).text(card).body());
  }
}

// News of the job's other hosts, or the end.
void Job::read_uplink() {
  FrameKind kind;
  std::string body;
  while (wide_->uplink.receive(&kind, &body)) {
    Unpacker fields(body);
    if (kind == FrameKind::kCard) {
      const std::uint64_t number = fields.number();
      const std::string_view card = fields.text();
      if (!fields.ended() || number >= static_cast<std::uint64_t>(wide_->processes) ||
          card.size() != sizeof(boot::Card))
        continue;
      boot::JobControl& control = *channel_.control;
      boot::Card& its = control.cards[number];
      std::memcpy(&its, card.data(), card.size());
      its.host[sizeof its.host - 1] = its.place[sizeof its.place - 1] = '\0';
      control.card_filled[number].store(1, std::memory_order_release);  // pairs with the members' is_filled()
      control.cards_filled.fetch_add(1, std::memory_order_release);     // after it; pairs with join_launched()
      base::futex_wake(control.cards_filled, base::kAllWaiters);
    } else if (kind == FrameKind::kLeft) {
      const auto number = static_cast<int>(fields.number());
      const auto status = static_cast<int>(fields.number());
      if (fields.ended() && number >= 0 && number < wide_->processes && stage_ == Stage::kRunning)
        note_left_early(number, status, base::formatted("process {} on host {}", number, wide_->hosts[number]));
    } else if (kind == FrameKind::kEnd && stage_ != Stage::kDone) {
      status_is_final_ = true;
      if (status_ == 0) status_ = kExitStart;  // the launcher that says so has one of its own
      if (stage_ == Stage::kRunning || stage_ == Stage::kGrace) start_killing();
    }
  }
  if (wide_->uplink.ended() && (stage_ == Stage::kRunning || stage_ == Stage::kGrace)) start_killing();  // no agent
}

bool Job::take_recorded_end() {
  const boot::EndControl& end = channel_.control->end;
  if (end.state.load(std::memory_order_acquire) != boot::EndControl::kWritten) return false;
  this->end(end.status,
            base::formatted("process {} (pid {}): {}; the job is ended", number_of(end.process), end.pid, end.why));
  return true;
}

void Job::reap() {
  no_children_ = false;
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0) {
      if (errno == EINTR) continue;
      no_children_ = true;
      break;
    }
    if (info.si_pid == 0) break;
    const int process = process_of(info.si_pid);
    if (process >= 0) on_member_gone(process, info);
  }
  if (stage_ == Stage::kKilling) {
    if (no_children_) {
      on_all_gone();
    } else {
      kill_children();  // those that were adopted since
    }
  } else if (stage_ == Stage::kGrace && !any_alive()) {
    start_killing();  // what else the job has left
  } else if (stage_ == Stage::kRunning && !any_alive()) {
    on_all_gone();
  }
}

void Job::on_member_gone(int process, const siginfo_t& info) {
  Member& member = members_[process];
  boot::MemberControl& shared = channel_.control->members[process];
  member.gone = true;
  const bool by_signal = info.si_code != CLD_EXITED;
  const int code = info.si_status;
  const bool called_exit = shared.called_exit.load(std::memory_order_acquire) != 0;
  const int exit_status = called_exit ? shared.exit_status.load(std::memory_order_relaxed) : code;
  if (!by_signal) {
    shared.exit_status.store(code, std::memory_order_relaxed);
    shared.has_exited.store(1, std::memory_order_release);
  }
  if (stage_ != Stage::kRunning) return;  // R1

  // The member's own words come first; what others have noticed of its death comes after it (R2).
  const boot::EndControl& recorded = channel_.control->end;
  const bool told = recorded.state.load(std::memory_order_acquire) == boot::EndControl::kWritten;
  if (told && (recorded.process == process || !by_signal)) {
    take_recorded_end();
  } else if (called_exit) {
    // An exit from the run is how some programs end: only a failure is worth a line.
    end(exit_status, exit_status == 0 ? ""
                                      : base::formatted("{} called exit({}) inside ayatori::run; the job is ended",
                                                        name_of(process), exit_status));
  } else if (by_signal) {
    end(128 + code, base::formatted("{} was killed by {}{}; the job is ended", name_of(process), signal_text(code),
                                    info.si_code == CLD_DUMPED ? ", core dumped" : ""));
  } else {
    on_ordinary_exit(process, code, phase_of(process));
  }
}

void Job::on_ordinary_exit(int process, int status, boot::Phase phase) {
  if (process == 0) status_of_0_ = status;
  if (status_ == 0) status_ = status;
  if (phase == boot::Phase::kRunning) {  // _exit() or quick_exit() inside the run
    end(status, status == 0 ? ""
                            : base::formatted("{} exited with status {} inside ayatori::run; the job is ended",
                                              name_of(process), status));
    return;
  }
  if (phase == boot::Phase::kJoined && status != 0) {
    end(status, base::formatted("{} exited with status {} while it held a transport of ayatori::net; the job is ended",
                                name_of(process), status));
    return;
  }
  const bool unjoined = phase == boot::Phase::kStarting || phase == boot::Phase::kJoining;
  if (!unjoined || (options_.processes == 1 && wide_ == nullptr)) return;
  if (wide_ != nullptr)
    wide_->uplink.send(FrameKind::kLeft, Packer()
                                             .number(static_cast<std::uint64_t>(number_of(process)))
                                             .number(static_cast<std::uint64_t>(status))
                                             .body());
  note_left_early(number_of(process), status, name_of(process));
}

// A process of the job has ended and will not come to the run: who waits for it there, or comes there later (J3 in
// job_control.hpp), waits in vain.
void Job::note_left_early(int number, int status, const std::string& name) {
  const int early_status = status != 0 ? status : kExitStart;
  if (channel_.control->left_early.load(std::memory_order_relaxed) == 0) {
    channel_.control->left_early_status.store(early_status, std::memory_order_relaxed);
    channel_.control->left_early.store(static_cast<std::uint32_t>(number) + 1, std::memory_order_seq_cst);
  }
  for (int other = 0; other < options_.processes; ++other) {
    const boot::Phase there = phase_of(other);
    const bool waits = there == boot::Phase::kRunning || there == boot::Phase::kJoining;
    if (number_of(other) == number || !is_alive(other) || !waits) continue;
    end(early_status,
        base::formatted("{} exited with status {} without calling {}, where process {} waits; the job is ended", name,
                        status, there == boot::Phase::kRunning ? "ayatori::run" : "ayatori::net::open",
                        number_of(other)));
    return;
  }
}

void Job::end(int status, const std::string& why) {
  status_ = status;
  status_is_final_ = true;
  start_killing();
  if (!why.empty() || wide_ != nullptr) tell(why);  // without a word the other hosts would go on
}

void Job::start_killing() {
  stage_ = Stage::kKilling;
  deadline_ns_ = now_ns() + kKillNs;
  channel_.control->ending.store(1, std::memory_order_release);  // pairs with job_ending()
  kill_children();
  siginfo_t info{};
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD) on_all_gone();
}

// R4. Orphans of those that die become our children in turn and are killed after the next reaping.
void Job::kill_children() {
  for (const pid_t pid : children_of_self())
    if (pid > 1 && pid != guard_.pid()) kill(pid, SIGKILL);  // R7
  for (int process = 0; process < options_.processes; ++process) {
    if (is_alive(process)) kill(pid_of(process), SIGKILL);
  }
}

void Job::forward(int signal) {
  for (int process = 0; process < options_.processes; ++process)
    if (is_alive(process)) kill(pid_of(process), signal);
}

// SIGQUIT asks where the threads stand; it must not end a member that has no answer ready.
void Job::request_report() {
  for (int process = 0; process < options_.processes; ++process) {
    if (!is_alive(process)) continue;
    const bool answers = phase_of(process) == boot::Phase::kRunning && catches(pid_of(process), SIGQUIT);
    if (answers || !program_.linked) kill(pid_of(process), SIGQUIT);
  }
}

void Job::on_all_gone() {
  stage_ = Stage::kOutput;
  deadline_ns_ = 0;
  read_messages();  // streams of members that were quick
  labels_->finish_streams();
}

// Of a child of ours.
int Job::process_of(pid_t pid) {
  if (pid == first_.pid) return 0;
  for (int process = 1; process < options_.processes; ++process) {
    Member& member = members_[process];
    if (member.pid == 0 && told_pid(process) == pid) member.pid = pid;
    if (member.pid == pid && !member.gone) return process;
  }
  return -1;
}

pid_t Job::told_pid(int process) const {
  return channel_.control->members[process].pid.load(std::memory_order_acquire);
}

// 0: not born. Process 0 lives before it tells its pid; under gdb that is not our child's.
pid_t Job::pid_of(int process) {
  Member& member = members_[process];
  if (member.pid != 0) return member.pid;
  const pid_t told = told_pid(process);
  if (told == 0 && process == 0) return first_.pid;
  if (told > 1 && told != guard_.pid() && descends_from_self(told)) member.pid = told;
  return member.pid;
}

bool Job::is_alive(int process) { return !members_[process].gone && pid_of(process) != 0; }

bool Job::any_alive() {
  for (int process = 0; process < options_.processes; ++process)
    if (is_alive(process)) return true;
  return false;
}

boot::Phase Job::phase_of(int process) const {
  return static_cast<boot::Phase>(channel_.control->members[process].phase.load(std::memory_order_seq_cst));
}

std::string Job::name_of(int process) {
  return base::formatted("process {} (pid {})", number_of(process), pid_of(process));
}

}  // namespace ayatori::tool
