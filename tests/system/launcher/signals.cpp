// SPDX-License-Identifier: Apache-2.0
// Signals to the launcher, and members and launchers that are killed at any moment.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "harness.hpp"

namespace launcher_test {
namespace {

TEST(LauncherSignals, AreForwardedOnceAndEndTheJob) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Launch launch(run_arguments({"-n", "4"}, {"stubborn"}));
    const auto pids = launch.read_pids(4);
    launch.mark();
    kill(launch.pid(), signal);
    EXPECT_EQ(launch.wait(), 128 + signal);
    EXPECT_TRUE(all_gone(pids));
    for (const auto& [process, pid] : pids)
      EXPECT_EQ(count_of(launch.out, "signal " + std::to_string(process) + " " + std::to_string(signal)), 1);
    EXPECT_GE(launch.seconds, 1.9);  // they were given their two seconds
    EXPECT_LT(launch.seconds, 3.5);
    EXPECT_EQ(lines_of(launch.err).size(), 1u) << launch.err;
  }
}

TEST(LauncherSignals, MembersThatObeyEndTheJobAtOnce) {
  for (const char* const act : {"waits", "spins", "polite"}) {
    Launch launch(run_arguments({"-n", "4"}, {act}));
    const auto pids = launch.read_pids(4);
    launch.mark();
    kill(launch.pid(), SIGTERM);
    EXPECT_EQ(launch.wait(), 143);
    EXPECT_TRUE(all_gone(pids));
    EXPECT_LT(launch.seconds, 1.5);
  }
}

TEST(LauncherSignals, RepeatedSignalsChangeNothing) {
  Launch launch(run_arguments({"-n", "3"}, {"stubborn"}));
  const auto pids = launch.read_pids(3);
  for (int i = 0; i < 5; ++i) {
    kill(launch.pid(), i % 2 == 0 ? SIGINT : SIGTERM);
    usleep(20'000);
  }
  EXPECT_EQ(launch.wait(), 130);
  EXPECT_EQ(count_of(launch.out, "signal 1 "), 1);
}

// A script's background job has SIGINT ignored; one that is sent to the launcher is meant nevertheless.
TEST(LauncherSignals, InterruptReachesAJobInTheBackground) {
  Setting setting;
  setting.ignored_signal = SIGINT;
  Launch launch(run_arguments({"-n", "2"}, {"waits"}), setting);
  const auto pids = launch.read_pids(2);
  launch.mark();
  kill(launch.pid(), SIGINT);
  EXPECT_EQ(launch.wait(), 130);
  EXPECT_LT(launch.seconds, 1.5);
}

TEST(LauncherSignals, HangUpIsIgnoredUnderNohup) {
  Setting setting;
  setting.ignored_signal = SIGHUP;
  Launch launch(run_arguments({"-n", "2"}, {"waits"}), setting);
  const auto pids = launch.read_pids(2);
  kill(launch.pid(), SIGHUP);
  usleep(50'000);
  kill(launch.pid(), SIGTERM);
  EXPECT_EQ(launch.wait(), 143);
}

// Where SIGCHLD is ignored the kernel reaps children itself, and their statuses would be lost.
TEST(LauncherSignals, StatusesAreSeenWithSigchldIgnored) {
  Setting setting;
  setting.ignored_signal = SIGCHLD;
  EXPECT_EQ(run({"-n", "4"}, {"status", "0", "0", "0", "3"}, setting).status, 3);
}

TEST(LauncherSignals, SignalToTheWholeGroupArrivesOnce) {
  Launch launch(run_arguments({"-n", "3"}, {"stubborn"}));
  const auto pids = launch.read_pids(3);
  kill(-launch.pid(), SIGTERM);
  EXPECT_EQ(launch.wait(), 143);
  EXPECT_EQ(count_of(launch.out, "signal 2 15"), 1);
}

TEST(LauncherSignals, StoppedMemberDoesNotKeepTheJob) {
  Launch launch(run_arguments({"-n", "3"}, {"waits"}));
  const auto pids = launch.read_pids(3);
  kill(pids.at(1), SIGSTOP);
  launch.mark();
  kill(launch.pid(), SIGTERM);
  EXPECT_EQ(launch.wait(), 143);
  EXPECT_TRUE(all_gone(pids));
  EXPECT_LT(launch.seconds, 3.5);

  Launch other(run_arguments({"-n", "3"}, {"waits"}));
  const auto others = other.read_pids(3);
  kill(others.at(1), SIGSTOP);
  other.mark();
  kill(others.at(2), SIGKILL);
  EXPECT_EQ(other.wait(), 137);
  EXPECT_TRUE(all_gone(others));
  EXPECT_LT(other.seconds, 1.5);
}

TEST(LauncherSignals, QuitIsARequestToMembersInTheRun) {
  Launch launch(run_arguments({"-n", "3"}, {"stubborn"}));
  const auto pids = launch.read_pids(3);
  kill(launch.pid(), SIGQUIT);
  launch.await_output(" 3\n", 3);
  for (const char* const line : {"signal 0 3", "signal 1 3", "signal 2 3"}) EXPECT_EQ(count_of(launch.out, line), 1);
  EXPECT_EQ(ayatori({"dump", std::to_string(pids.at(2))}).status, 0);
  launch.await_output(" 3\n", 6);
  EXPECT_EQ(ayatori({"dump", std::to_string(launch.pid())}).status, 0);
  launch.await_output(" 3\n", 9);
  EXPECT_EQ(count_of(launch.out, "signal 1 3"), 3);
  kill(launch.pid(), SIGKILL);
  EXPECT_EQ(launch.wait(), 137);
  EXPECT_TRUE(all_gone(pids));
}

// The guard's pid; 0: there is none within 5 s. Members may run before it does.
pid_t guard_of(pid_t launcher) {
  const std::string task = "/proc/" + std::to_string(launcher) + "/task/" + std::to_string(launcher);
  for (int i = 0; i < 1'000; ++i) {
    std::ifstream children(task + "/children");
    for (pid_t pid = 0; children >> pid;) {
      std::ifstream in("/proc/" + std::to_string(pid) + "/comm");
      std::string name;
      if (std::getline(in, name) && name == "ayatori-guard") return pid;
    }
    usleep(5'000);
  }
  return 0;
}

std::string line_of_killed(pid_t launcher) {
  return "ayatori: the launcher (pid " + std::to_string(launcher) + ") was killed; the job is ended\n";
}

TEST(LauncherSignals, KilledMembersAndLaunchersLeaveNothing) {
  std::mt19937 random(7);
  for (int round = 0; round < 30; ++round) {
    const int n = 1 + static_cast<int>(random() % 8);
    Launch launch(run_arguments({"-n", std::to_string(n)}, {round % 3 == 0 ? "spins" : "waits"}));
    const auto pids = launch.read_pids(static_cast<std::size_t>(n));
    ASSERT_EQ(pids.size(), static_cast<std::size_t>(n));
    const bool launcher = random() % 2 == 0;
    const pid_t guard = guard_of(launch.pid());
    ASSERT_GT(guard, 1);
    launch.mark();
    kill(launcher ? launch.pid() : pids.at(static_cast<int>(random() % static_cast<unsigned>(n))), SIGKILL);
    EXPECT_EQ(launch.wait(), 137);
    EXPECT_TRUE(all_gone(pids));
    EXPECT_TRUE(all_gone({{0, guard}}));
    EXPECT_LT(launch.seconds, 2);
    EXPECT_EQ(lines_of(launch.err).size(), 1u) << launch.err;
    if (launcher) {
      EXPECT_EQ(launch.err, line_of_killed(launch.pid()));
    }
  }
}

// A guard that is killed, stopped or interrupted is no event for the job, and is gone when the launcher is.
TEST(LauncherSignals, NothingThatHappensToTheGuardMattersToTheJob) {
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTSTP}) {
    Launch launch(run_arguments({"-n", "3"}, {"waits"}));
    const auto pids = launch.read_pids(3);
    const pid_t guard = guard_of(launch.pid());
    ASSERT_GT(guard, 1);
    kill(guard, signal);
    usleep(20'000);
    for (const auto& [process, pid] : pids) EXPECT_EQ(kill(pid, 0), 0) << "signal " << signal;
    launch.mark();
    kill(launch.pid(), SIGTERM);
    EXPECT_EQ(launch.wait(), 143);
    EXPECT_EQ(kill(guard, 0), -1) << "signal " << signal;
    EXPECT_EQ(errno, ESRCH);
    EXPECT_LT(launch.seconds, 1.5);
    EXPECT_EQ(lines_of(launch.err).size(), 1u) << launch.err;
  }
}

TEST(LauncherSignals, OrdinaryEndsLeaveNoGuard) {
  for (const char* const act : {"hello", "lines", "aborts", "no-such-act"}) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {  // orphans of earlier tests
    }
    const Result result = run({"-n", "2"}, {act, "1"});
    EXPECT_EQ(count_of(result.err, "the launcher"), 0) << result.err;
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << act;
  }
}

// It has standard error alone, and no signal of the job's group reaches it.
TEST(LauncherSignals, GuardKeepsNothingOpenButStandardError) {
  Launch launch(run_arguments({"-n", "2"}, {"waits"}));
  const auto pids = launch.read_pids(2);
  const pid_t guard = guard_of(launch.pid());
  ASSERT_GT(guard, 1);
  EXPECT_EQ(getpgid(guard), guard);
  std::set<std::string> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(guard) + "/fd"))
    open.insert(entry.path().filename());
  EXPECT_EQ(open, (std::set<std::string>{"0", "2"}));
  kill(-launch.pid(), SIGKILL);
  EXPECT_EQ(launch.wait(), 137);
  EXPECT_TRUE(all_gone(pids));
  EXPECT_TRUE(all_gone({{0, guard}}));
  EXPECT_EQ(launch.err, line_of_killed(launch.pid()));
}

// At any moment of the start, too: whatever has been forked by then is a child of the launcher or dies with it.
TEST(LauncherSignals, LauncherKilledWhileMembersAreBorn) {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    Launch launch(run_arguments({"-n", "16"}, {"waits"}));
    usleep(static_cast<useconds_t>(random() % 30'000));
    kill(launch.pid(), SIGKILL);
    EXPECT_EQ(launch.wait(), 137);
    // Orphans are given to this process; after that, it has no child left.
    bool left = true;
    for (int i = 0; i < 2'000 && left; ++i) {
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      left = waitpid(-1, nullptr, WNOHANG) == 0;
      if (left) usleep(1'000);
    }
    ASSERT_FALSE(left) << "round " << round;
    EXPECT_LE(lines_of(launch.err).size(), 1u) << launch.err;  // none: before anything of the job was there
  }
}

TEST(LauncherSignals, TerminationWhileMembersAreBorn) {
  std::mt19937 random(13);
  for (int round = 0; round < 30; ++round) {
    Launch launch(run_arguments({"-n", "16"}, {"waits"}));
    usleep(static_cast<useconds_t>(random() % 30'000));
    kill(launch.pid(), SIGTERM);
    const int status = launch.wait();
    EXPECT_EQ(status, 143) << launch.err;
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  }
}

// A member's wild store over the pids in the memory shared with the launcher: no stranger is signalled, all members end.
TEST(LauncherSignals, NoWildStoreMakesTheLauncherSignalAStranger) {
  for (const bool dies : {false, true}) {
    const pid_t stranger = fork();
    ASSERT_GE(stranger, 0);
    if (stranger == 0) {
      for (;;) pause();
    }
    Launch launch(run_arguments({"-n", "3"}, {"lies", std::to_string(stranger), dies ? "1" : "0"}));
    const auto pids = launch.read_pids(3);
    ASSERT_EQ(pids.size(), 3u);
    usleep(100'000);
    if (!dies) kill(launch.pid(), SIGTERM);
    EXPECT_EQ(launch.wait(), dies ? 137 : 143) << launch.err;
    EXPECT_TRUE(all_gone(pids));
    EXPECT_EQ(waitpid(stranger, nullptr, WNOHANG), 0) << "the stranger was killed";
    kill(stranger, SIGKILL);
    waitpid(stranger, nullptr, 0);
  }
}

TEST(LauncherSignals, JobsAtOnceDoNotKnowOfEachOther) {
  std::vector<std::unique_ptr<Launch>> jobs;
  for (int i = 0; i < 8; ++i)
    jobs.push_back(std::make_unique<Launch>(run_arguments({"-n", "4", "--label"}, {"rounds", "50"})));
  for (const auto& job : jobs) EXPECT_EQ(job->wait(), 0) << job->err;
}

}  // namespace
}  // namespace launcher_test
