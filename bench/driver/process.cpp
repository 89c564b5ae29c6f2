// SPDX-License-Identifier: Apache-2.0
// Output goes to memory files rather than pipes: no reader is needed while a measured program runs.
#include "process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace bench {
namespace {

std::int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec;
}

std::string contents(int fd) {
  std::string text;
  char buffer[65536];
  off_t at = 0;
  for (ssize_t n; (n = pread(fd, buffer, sizeof buffer, at)) > 0; at += n)
    text.append(buffer, static_cast<std::size_t>(n));
  return text;
}

// Whether the child ended within the time. A kernel without pidfds is asked every millisecond.
bool ends_within(int pid, int timeout_ms) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd >= 0) {
    pollfd p{fd, POLLIN, 0};
    int ready;
    while ((ready = poll(&p, 1, timeout_ms)) < 0 && errno == EINTR) {
    }
    close(fd);
    return ready > 0;
  }
  for (int i = 0; i < timeout_ms; ++i) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid)
      return true;
    usleep(1000);
  }
  return false;
}

}  // namespace

Child::Child(const Command& command) {
  out_ = memfd_create("stdout", MFD_CLOEXEC);
  err_ = memfd_create("stderr", MFD_CLOEXEC);
  // Before the fork: the child of a process with one thread may do anything, but the clock shall count the fork.
  std::vector<char*> words;
  for (const std::string& word : command.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  started_ns_ = now_ns();
  pid_ = fork();
  if (pid_ != 0) return;
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0 || out_ < 0 || err_ < 0) _exit(127);
  dup2(nothing, STDIN_FILENO);
  dup2(out_, STDOUT_FILENO);
  dup2(err_, STDERR_FILENO);
  for (const auto& [name, value] : command.environment) setenv(name.c_str(), value.c_str(), 1);
  execv(words[0], words.data());
  _exit(127);
}

Child::~Child() {
  if (pid_ > 0) wait(0);
  if (out_ >= 0) close(out_);
  if (err_ >= 0) close(err_);
}

Outcome Child::wait(int timeout_s) {
  Outcome outcome;
  outcome.started_ns = started_ns_;
  if (pid_ < 0) {
    outcome.status = 127;
    return outcome;
  }
  bool late = false;
  if (!ends_within(pid_, timeout_s * 1000)) {
    late = true;
    kill(pid_, SIGTERM);  // the launcher forwards it and gives its members two seconds
    if (!ends_within(pid_, 4000)) kill(pid_, SIGKILL);
  }
  outcome.ended_ns = now_ns();
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  outcome.status = late ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = contents(out_);
  outcome.err = contents(err_);
  return outcome;
}

Outcome run(const Command& command, int timeout_s) { return Child(command).wait(timeout_s); }

std::string text_of(const Command& command) {
  std::string text;
  for (const auto& [name, value] : command.environment) text += name + "=" + value + " ";
  for (const std::string& word : command.words) text += (&word == &command.words[0] ? "" : " ") + word;
  return text;
}

std::string own_folder() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  if (n <= 0) return ".";
  const std::string whole(path, static_cast<std::size_t>(n));
  return whole.substr(0, whole.rfind('/'));
}

// Beside this program in a build, two folders up and in bin/ in an installation (libexec/ayatori).
std::string launcher_path() {
  const std::string beside = own_folder() + "/ayatori";
  return executable(beside) ? beside : own_folder() + "/../../bin/ayatori";
}

bool executable(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

void progress(const std::string& text) {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (terminal) std::fprintf(stderr, "\r\033[K%s", text.c_str());
}

}  // namespace bench
