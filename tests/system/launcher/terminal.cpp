// SPDX-License-Identifier: Apache-2.0
// The launcher on a terminal: a session of its own on a pseudo terminal, whose keys are pressed by writing to it. A
// shell is between, as for users: it gives the foreground to the launcher's group.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>

#include "harness.hpp"

namespace launcher_test {
namespace {

using Clock = std::chrono::steady_clock;

class Terminal {
 public:
  // `bash -i` runs this line and says "status S" after it.
  explicit Terminal(const std::string& command) {
    pid_ = forkpty(&fd_, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      setenv("PS1", "", 1);
      setenv("HISTFILE", "", 1);
      execlp("bash", "bash", "--norc", "--noprofile", "--noediting", "-i", nullptr);
      _exit(200);
    }
    if (pid_ < 0) {
      ADD_FAILURE() << "forkpty: " << std::strerror(errno) << " (is /dev/pts mounted?)";
      return;
    }
    fcntl(fd_, F_SETFD, FD_CLOEXEC);
    type("stty -echo\n");
    type(command + "; echo status $?\n");
  }
  ~Terminal() {
    if (pid_ < 0) return;
    close(fd_);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void type(const std::string& keys) {
    ASSERT_EQ(write(fd_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  // The shell has given the terminal to a job.
  bool await_foreground_job() {
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    while (tcgetpgrp(fd_) == pid_ && Clock::now() < deadline) usleep(1'000);
    return tcgetpgrp(fd_) != pid_;
  }
  // Reads until `part` has come `times` times; false after 10 s.
  bool await(const std::string& part, int times = 1) {
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    while (count_of(text, part) < times && Clock::now() < deadline) {
      pollfd poll_fd{fd_, POLLIN, 0};
      if (poll(&poll_fd, 1, 10) <= 0) continue;
      char room[4096];
      const ssize_t bytes = read(fd_, room, sizeof room);
      if (bytes <= 0) break;
      text.append(room, static_cast<std::size_t>(bytes));
    }
    return count_of(text, part) >= times;
  }

  std::string text;

 private:
  int fd_ = -1;
  pid_t pid_ = -1;
};

// As /proc/PID/stat has it: S sleeping, T stopped.
bool await_state(pid_t pid, char state) {
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  char found = '?';
  while (found != state && Clock::now() < deadline) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name;
    in >> number >> name >> found;
    if (found != state) usleep(1'000);
  }
  return found == state;
}

const std::string kRun = std::string(LAUNCHER) + " run -n 3 ";

TEST(LauncherTerminal, InterruptKeyArrivesOnceAtEachMember) {
  for (const std::string redirection : {"", " < /dev/null"}) {
    Terminal terminal(kRun + PROBE + " stubborn" + redirection);
    ASSERT_TRUE(terminal.await("pid ", 3)) << terminal.text;
    terminal.type("\x03");
    ASSERT_TRUE(terminal.await("status 130")) << terminal.text;
    for (const char* const line : {"signal 0 2", "signal 1 2", "signal 2 2"})
      EXPECT_EQ(count_of(terminal.text, line), 1) << terminal.text;
  }
}

TEST(LauncherTerminal, QuitKeyAsksEachMemberOnceAndTheJobGoesOn) {
  for (const std::string redirection : {"", " < /dev/null"}) {
    Terminal terminal(kRun + PROBE + " stubborn" + redirection);
    ASSERT_TRUE(terminal.await("pid ", 3)) << terminal.text;
    terminal.type("\x1c");
    ASSERT_TRUE(terminal.await(" 3\r\n", 3)) << terminal.text;
    for (const char* const line : {"signal 0 3", "signal 1 3", "signal 2 3"})
      EXPECT_EQ(count_of(terminal.text, line), 1) << terminal.text;
    terminal.type("\x03");
    ASSERT_TRUE(terminal.await("status 130")) << terminal.text;
  }
}

TEST(LauncherTerminal, Process0ReadsTheKeyboard) {
  Terminal terminal(kRun + PROBE + " reads");
  ASSERT_TRUE(terminal.await("read 1 0")) << terminal.text;
  ASSERT_TRUE(terminal.await("read 2 0")) << terminal.text;
  terminal.type("12345\n");
  terminal.type("\x04");
  EXPECT_TRUE(terminal.await("read 0 6")) << terminal.text;
  EXPECT_TRUE(terminal.await("status 0")) << terminal.text;
}

TEST(LauncherTerminal, StopKeyStopsTheJobAndItGoesOnInTheForeground) {
  for (const std::string redirection : {"", " < /dev/null"}) {
    Terminal terminal(kRun + PROBE + " waits" + redirection);
    ASSERT_TRUE(terminal.await("pid ", 3)) << terminal.text;
    int pid = 0;
    std::sscanf(terminal.text.c_str() + terminal.text.find("pid 1 "), "pid 1 %d", &pid);
    terminal.type("\x1a");
    ASSERT_TRUE(terminal.await("status 148")) << terminal.text;  // 128 + SIGTSTP, from bash
    ASSERT_TRUE(await_state(pid, 'T')) << terminal.text;
    terminal.type("bg\n");
    ASSERT_TRUE(await_state(pid, 'S')) << terminal.text;
    terminal.type("fg; echo status $?\n");
    ASSERT_TRUE(terminal.await_foreground_job()) << terminal.text;
    terminal.type("\x03");
    ASSERT_TRUE(terminal.await("status 130")) << terminal.text;
  }
}

TEST(LauncherTerminal, HangUpEndsTheJob) {
  int pid = 0;
  {
    Terminal terminal(kRun + PROBE + " waits");
    ASSERT_TRUE(terminal.await("pid ", 3)) << terminal.text;
    std::sscanf(terminal.text.c_str() + terminal.text.find("pid 2 "), "pid 2 %d", &pid);
  }
  EXPECT_TRUE(all_gone({{2, pid}}));
}

}  // namespace
}  // namespace launcher_test
