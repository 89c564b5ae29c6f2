// SPDX-License-Identifier: Apache-2.0
#include "guard.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

namespace ayatori::tool {
namespace {

constexpr int kPatienceMs = 1'000;  // for a standard error whose reader does not read

// In the guard: only system calls.
[[noreturn]] void watch(int pipe_fd, std::string_view line) {
  setpgid(0, 0);  // G3
  dup2(pipe_fd, STDIN_FILENO);
  close(STDOUT_FILENO);
  close_range(STDERR_FILENO + 1, ~0u, 0);  // G2
  prctl(PR_SET_NAME, "ayatori-guard");     // last: who has this name is on guard
  char byte;
  while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
  }
  pollfd writable{STDERR_FILENO, POLLOUT, 0};
  if (poll(&writable, 1, kPatienceMs) <= 0) _exit(0);
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
  _exit(0);
}

}  // namespace

void Guard::start() {
  Pipe pipe;
  if (!open_pipe(pipe)) return;
  const std::string line = base::formatted("ayatori: the launcher (pid {}) was killed; the job is ended\n", getpid());
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  // fork() with an exit signal of 0 (G1).
  pid_ = static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr));
  if (pid_ == 0) watch(pipe.read.get(), line);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  pipe_ = std::move(pipe.write);
}

Guard::~Guard() {
  if (pid_ <= 1) return;
  kill(pid_, SIGKILL);  // G4; not reaped before, hence nobody else's number
  while (waitpid(pid_, nullptr, __WALL) < 0 && errno == EINTR) {
  }
}

}  // namespace ayatori::tool
