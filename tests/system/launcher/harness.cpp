// SPDX-License-Identifier: Apache-2.0
#include "harness.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace launcher_test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{30};

int file_with(const std::string& text) {
  const int fd = memfd_create("input", MFD_CLOEXEC);
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
  lseek(fd, 0, SEEK_SET);
  return fd;
}

}  // namespace

Launch::Launch(std::vector<std::string> arguments, const Setting& setting) : since_(Clock::now()) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int out_pipe[2];
  int err_pipe[2];
  if (pipe2(out_pipe, O_CLOEXEC) != 0 || pipe2(err_pipe, O_CLOEXEC) != 0) std::abort();
  const int input = file_with(setting.input);
  arguments.insert(arguments.begin(), LAUNCHER);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    dup2(input, STDIN_FILENO);
    if (setting.close_output) {
      close(STDOUT_FILENO);
    } else {
      dup2(out_pipe[1], STDOUT_FILENO);
    }
    dup2(setting.merge ? out_pipe[1] : err_pipe[1], STDERR_FILENO);
    close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);  // what the test's own caller has left open
    if (setting.files != 0) {
      const rlimit limit{static_cast<rlim_t>(setting.files), static_cast<rlim_t>(setting.files)};
      setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (setting.ignored_signal != 0) signal(setting.ignored_signal, SIG_IGN);
    // Members that exit do so at once, and a crash is one.
    setenv("TSAN_OPTIONS", "atexit_sleep_ms=0:handle_segv=0:handle_sigbus=0", 1);
    for (const auto& [name, value] : setting.environment) setenv(name.c_str(), value.c_str(), 1);
    execv(LAUNCHER, pointers.data());
    _exit(200);
  }
  if (pid_ < 0) std::abort();
  close(input);
  close(out_pipe[1]);
  close(err_pipe[1]);
  out_fd_ = out_pipe[0];
  err_fd_ = err_pipe[0];
}

Launch::~Launch() {
  if (!ended_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (out_fd_ >= 0) close(out_fd_);
  if (err_fd_ >= 0) close(err_fd_);
}

bool Launch::pump(int timeout_ms) {
  pollfd polls[2] = {{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}};
  poll(polls, 2, timeout_ms);
  for (int i = 0; i < 2; ++i) {
    if (polls[i].revents == 0) continue;
    char room[65536];
    const ssize_t bytes = read(polls[i].fd, room, sizeof room);
    if (bytes > 0) {
      (i == 0 ? out : err).append(room, static_cast<std::size_t>(bytes));
    } else if (bytes == 0) {
      close(polls[i].fd);
      (i == 0 ? out_fd_ : err_fd_) = -1;
    }
  }
  return out_fd_ >= 0 || err_fd_ >= 0;
}

void Launch::close_output() {
  close(out_fd_);
  out_fd_ = -1;
}

std::map<int, pid_t> Launch::read_pids(std::size_t count) {
  const auto deadline = Clock::now() + kPatience;
  std::map<int, pid_t> pids;
  while (pids.size() < count && Clock::now() < deadline) {
    pump(10);
    pids.clear();
    for (const std::string& line : lines_of(out)) {
      int process = 0;
      int pid = 0;
      if (std::sscanf(line.c_str(), "pid %d %d", &process, &pid) == 2) pids[process] = pid;
    }
  }
  return pids;
}

void Launch::await_output(const std::string& text, int times) {
  const auto deadline = Clock::now() + kPatience;
  while (count_of(out, text) < times && Clock::now() < deadline) pump(10);
}

int Launch::wait() {
  const auto deadline = Clock::now() + kPatience;
  int status = 0;
  while (Clock::now() < deadline) {
    const bool open = pump(2);
    if (waitpid(pid_, &status, open ? WNOHANG : 0) == pid_) {
      ended_ = true;
      seconds = std::chrono::duration<double>(Clock::now() - since_).count();
      // What the launcher has left behind keeps the pipes open: that is not waited for.
      for (int i = 0; i < 20 && pump(5); ++i) {
      }
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
  }
  return -1;
}

Result ayatori(std::vector<std::string> arguments, const Setting& setting) {
  Launch launch(std::move(arguments), setting);
  const int status = launch.wait();
  return {status, launch.out, launch.err, launch.seconds};
}

std::vector<std::string> run_arguments(std::vector<std::string> options, std::vector<std::string> act) {
  options.insert(options.begin(), "run");
  options.push_back(PROBE);
  options.insert(options.end(), act.begin(), act.end());
  return options;
}

Result run(std::vector<std::string> options, std::vector<std::string> act, const Setting& setting) {
  return ayatori(run_arguments(std::move(options), std::move(act)), setting);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

bool all_gone(const std::map<int, pid_t>& pids) {
  const auto deadline = Clock::now() + std::chrono::seconds(2);
  for (;;) {
    bool any = false;
    for (const auto& [process, pid] : pids) {
      waitpid(pid, nullptr, WNOHANG);  // orphans come to us
      any = any || kill(pid, 0) == 0;
    }
    if (!any) return true;
    if (Clock::now() > deadline) return false;
    usleep(1'000);
  }
}

}  // namespace launcher_test
