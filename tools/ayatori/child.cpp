// SPDX-License-Identifier: Apache-2.0
#include "child.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/clock.hpp"
#include "system.hpp"

namespace ayatori::tool {
namespace {

constexpr std::size_t kTextBytesMax = 256 * 1024;

[[noreturn]] void be_child(pid_t parent, int out, const std::function<int()>& work) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int null = open("/dev/null", O_RDWR);
  if (getppid() != parent || null < 0) _exit(kExitStart);
  dup2(null, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(null, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  _exit(work());
}

// Until the end of what is written; false: not within the time.
bool read_all(int from, std::int64_t deadline_ns, std::string& text) {
  while (text.size() < kTextBytesMax) {
    const std::int64_t left_ns = deadline_ns - base::real_now_ns();
    if (left_ns <= 0) return false;
    pollfd look{from, POLLIN, 0};
    if (poll(&look, 1, static_cast<int>(left_ns / base::kNsPerMs) + 1) <= 0) continue;
    char room[4096];
    const ssize_t bytes = read(from, room, sizeof room);
    if (bytes == 0) return true;
    if (bytes > 0) text.append(room, static_cast<std::size_t>(bytes));
  }
  return false;
}

}  // namespace

std::optional<std::string> ask_child(std::int64_t timeout_ns, const std::function<int()>& work) {
  Pipe pipe;
  if (!open_pipe(pipe)) return std::nullopt;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return std::nullopt;
  if (child == 0) be_child(parent, pipe.write.get(), work);
  setpgid(child, child);  // both sides: whoever comes first
  pipe.write.reset();
  std::string text;
  const bool whole = read_all(pipe.read.get(), base::real_now_ns() + timeout_ns, text);
  // Closed output means that it is about to end; what it leaves in its group ends with it.
  int status = 0;
  const auto ends_soon = [&] {
    for (int tries = 0; tries < 100; ++tries) {
      siginfo_t info{};
      if (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child)
        return true;
      poll(nullptr, 0, 5);
    }
    return false;
  };
  const bool ended = whole && ends_soon();
  kill(-child, SIGKILL);  // not reaped yet: the group is still this child's
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  return text;
}

}  // namespace ayatori::tool
