// SPDX-License-Identifier: Apache-2.0
#include "job.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>

namespace bench {
namespace {

class Job {
 public:
  Job(int processes, const Begins& begins, const Found& found)
      : pids_(static_cast<std::size_t>(processes)), begins_(begins), found_(found) {}
  ~Job() {
    for (const pid_t pid : pids_)
      if (pid > 1) kill(pid, SIGKILL);  // not reaped: nobody else's number
    for (std::size_t i = 0; i < pids_.size(); ++i) reap(i, 0);
    for (const int fd : pipe_)
      if (fd >= 0) close(fd);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  base::Status start(Fabric& fabric, const Plan& plan, const Clock& clock) {
    if (pipe2(pipe_, O_CLOEXEC) != 0 || fcntl(pipe_[0], F_SETFL, O_NONBLOCK) != 0)
      return base::system_status(errno, "pipe");
    const pid_t driver = getpid();
    std::fflush(nullptr);
    for (std::size_t i = 0; i < pids_.size(); ++i) {
      pids_[i] = fork();
      if (pids_[i] < 0) return base::system_status(errno, "fork");
      if (pids_[i] != 0) continue;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != driver) _exit(kMemberFailed);  // it died before J1 held
      run_member(fabric, static_cast<net::ProcessId>(i), plan, clock, pipe_[1]);
    }
    return base::ok_status();
  }

  // Until all members have ended well, or J2.
  base::Status watch(Interrupts& interrupts) {
    while (running() != 0) {
      pollfd news[] = {{pipe_[0], POLLIN, 0}, {interrupts.fd(), POLLIN, 0}};
      const int ready = poll(news, 2, kSilenceS * 1000);
      if (ready < 0 && errno != EINTR) return base::system_status(errno, "poll");
      if (ready == 0)
        return base::error_status(base::Code::kTimeout, "nothing came of {} for {} s", text_of(point_), kSilenceS);
      if (interrupts.taken() != 0) return base::error_status(base::Code::kTimeout, "interrupted");
      std::optional<std::string> death;
      for (std::size_t i = 0; i < pids_.size(); ++i) {
        const std::optional<int> status = reap(i, WNOHANG);
        if (!status || *status == 0) continue;
        if (!death || WIFSIGNALED(*status)) death = how(i, *status);
      }
      read_records();
      if (death) return base::error_status(base::Code::kPeerLost, "{} during {}", *death, text_of(point_));
    }
    return base::ok_status();
  }

 private:
  int running() const {
    int count = 0;
    for (const pid_t pid : pids_) count += pid > 0;
    return count;
  }

  // Wait status of a member that has ended; nullopt: it runs, or was reaped before.
  std::optional<int> reap(std::size_t i, int flags) {
    if (pids_[i] <= 0) return std::nullopt;
    int status = 0;
    pid_t pid;
    while ((pid = waitpid(pids_[i], &status, flags)) < 0 && errno == EINTR) {
    }
    if (pid == 0) return std::nullopt;
    pids_[i] = 0;
    return status;
  }

  void read_records() {
    Record record;
    while (read(pipe_[0], &record, sizeof record) == static_cast<ssize_t>(sizeof record)) {
      if (record.kind == Record::Kind::kBegins) begins_(record.point);
      if (record.kind == Record::Kind::kValue) found_(record.point, record.quantity, record.ns);
      if (record.kind == Record::Kind::kFailed) outcome_ = record.outcome;
      point_ = record.point;
    }
  }

  std::string how(std::size_t i, int status) {
    const std::string who = base::formatted("process {} of {} ", i, pids_.size());
    if (WIFSIGNALED(status))
      return who + base::formatted("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
    read_records();
    if (WEXITSTATUS(status) == kMemberFailed)
      return who + base::formatted("had a request fail ({})", net::outcome_name(outcome_));
    return who + base::formatted("ended with status {}", WEXITSTATUS(status));
  }

  std::vector<pid_t> pids_;  // 0: reaped, or not forked yet
  int pipe_[2] = {-1, -1};
  const Begins& begins_;
  const Found& found_;
  Point point_;
  net::Outcome outcome_ = net::Outcome::kOk;
};

}  // namespace

Interrupts::Interrupts() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, &before_);
  signal(SIGCHLD, SIG_DFL);  // one that is ignored would not come
  fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

Interrupts::~Interrupts() {
  close(fd_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int Interrupts::taken() noexcept {
  signalfd_siginfo info;
  while (read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    if (first_ == 0 && info.ssi_signo != SIGCHLD) first_ = static_cast<int>(info.ssi_signo);
  return first_;
}

base::Status run_job(const Variant& variant, int processes, const Plan& plan, const Clock& clock,
                     Interrupts& interrupts, const Begins& begins, const Found& found) {
  std::unique_ptr<Fabric> fabric;
  base::Status status = variant.create({processes, memory_bytes(plan)}, &fabric);
  if (!status) return status;
  Job job(processes, begins, found);
  status = job.start(*fabric, plan, clock);
  return status ? job.watch(interrupts) : status;
}

}  // namespace bench
