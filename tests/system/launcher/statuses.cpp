// SPDX-License-Identifier: Apache-2.0
// Exit statuses and the one line that explains an abnormal end: every way in which a member can leave.
#include <gtest/gtest.h>
#include <signal.h>

#include "harness.hpp"

namespace launcher_test {
namespace {

TEST(Launcher, RunsOneMemberAProcess) {
  for (const int n : {1, 2, 4, 8, 64}) {
    const Result result = run({"-n", std::to_string(n)}, {"hello"});
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(count_of(result.out, "hello from"), n);
    for (int p = 0; p < n; ++p)
      EXPECT_EQ(count_of(result.out, "hello from " + std::to_string(p) + " of " + std::to_string(n) + "\n"), 1);
    EXPECT_EQ(result.err, "");
  }
}

TEST(Launcher, ProgramWithoutLauncherIsAJobOfOneProcess) {
  // The launcher execs sh, which is not linked and gets no hand-over; sh starts the program.
  const Result result = ayatori({"run", "sh", "-c", std::string(PROBE) + " hello; " PROBE " counts; exit 3"});
  EXPECT_EQ(result.out, "hello from 0 of 1\n");
  EXPECT_EQ(result.status, 3);
}

TEST(Launcher, StatusIsThatOfTheRun) {
  for (const int status : {0, 3, 255}) {
    const Result result = run({"-n", "4"}, {"run-status", std::to_string(status)});
    EXPECT_EQ(result.status, status);
    EXPECT_EQ(result.err, "");
  }
}

TEST(Launcher, StatusWithoutARunIsProcess0sOrTheFirstNonZeroOne) {
  EXPECT_EQ(run({"-n", "3"}, {"status", "0", "0", "0"}).status, 0);
  EXPECT_EQ(run({"-n", "3"}, {"status", "0", "0", "5"}).status, 5);
  EXPECT_EQ(run({"-n", "3"}, {"status", "4", "5", "5"}).status, 4);
  EXPECT_EQ(run({"-n", "3"}, {"status", "2", "2", "2"}).err, "");
}

TEST(Launcher, ExitInsideTheRunEndsTheJob) {
  for (const char* const act : {"exits", "quick-exits"}) {
    Launch launch(run_arguments({"-n", "4"}, {act, "2", "7"}));
    const auto pids = launch.read_pids(4);
    EXPECT_EQ(launch.wait(), 7);
    EXPECT_TRUE(all_gone(pids));
    EXPECT_EQ(lines_of(launch.err).size(), 1u);
    EXPECT_NE(launch.err.find("process 2 (pid " + std::to_string(pids.at(2)) + ")"), launch.err.npos) << launch.err;
    EXPECT_LT(launch.seconds, 2);
  }
  const Result zero = run({"-n", "4"}, {"exits", "1", "0"});
  EXPECT_EQ(zero.status, 0);
  EXPECT_EQ(zero.err, "");
}

TEST(Launcher, ExitThatHangsInAHandlerIsCutShort) {
  const Result result = run({"-n", "3"}, {"exits-then-hangs", "1", "9"});
  EXPECT_EQ(result.status, 9);
  EXPECT_EQ(lines_of(result.err).size(), 1u);
  EXPECT_LT(result.seconds, 5);
}

TEST(Launcher, DeathBySignalEndsTheJobWithOneLine) {
  for (const int signal : {SIGSEGV, SIGKILL, SIGTERM, SIGBUS, SIGPIPE}) {
    Setting setting;
    setting.environment = {{"ASAN_OPTIONS", "handle_segv=0:handle_sigbus=0"}};
    Launch launch(run_arguments({"-n", "4"}, {"raises", "1", std::to_string(signal)}), setting);
    const auto pids = launch.read_pids(4);
    EXPECT_EQ(launch.wait(), 128 + signal);
    EXPECT_TRUE(all_gone(pids));
    EXPECT_EQ(lines_of(launch.err).size(), 1u) << launch.err;
    EXPECT_NE(launch.err.find("ayatori: process 1 (pid " + std::to_string(pids.at(1)) + ") was killed by signal " +
                              std::to_string(signal)),
              launch.err.npos)
        << launch.err;
  }
}

TEST(Launcher, AbortAndTerminateAre134) {
  EXPECT_EQ(run({"-n", "2"}, {"aborts", "0"}).status, 134);
  EXPECT_EQ(run({}, {"aborts", "0"}).status, 134);
  EXPECT_EQ(run({"-n", "3"}, {"terminates", "2"}).status, 134);
}

TEST(Launcher, TheFirstRecordedReasonIsToldOnce) {
  const Result one = run({"-n", "4"}, {"ends", "3", "42"});
  EXPECT_EQ(one.status, 42);
  EXPECT_EQ(lines_of(one.err).size(), 1u);
  EXPECT_NE(one.err.find("process 3 (pid "), one.err.npos) << one.err;
  EXPECT_NE(one.err.find("the reason"), one.err.npos) << one.err;
  const Result all = run({"-n", "8"}, {"all-end"});
  EXPECT_EQ(all.status, 40);
  EXPECT_EQ(lines_of(all.err).size(), 1u) << all.err;
}

TEST(Launcher, MemberThatNeverComesToTheRunEndsTheJob) {
  for (const char* const act : {"leaves-early", "comes-late"}) {
    const Result result = run({"-n", "3"}, {act, "1", "6"});
    EXPECT_EQ(result.status, 6) << act;
    EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
    EXPECT_NE(result.err.find("without calling ayatori::run"), result.err.npos) << result.err;
    EXPECT_LT(result.seconds, 2);
  }
  EXPECT_EQ(run({"-n", "3"}, {"leaves-early", "2", "0"}).status, 125);
}

TEST(Launcher, UsageErrorOfAllMembersIsNoAbnormalEnd) {
  const Result result = run({"-n", "3"}, {"no-such-act"});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(count_of(result.err, "usage of"), 3);
  EXPECT_EQ(count_of(result.err, "ayatori:"), 0);
}

TEST(Launcher, StrayProcessesOfTheProgramAreNoMembers) {
  const Result result = run({"-n", "3"}, {"forks-stray"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
}

TEST(Launcher, OrphansOfAJobThatFailedAreKilled) {
  Launch launch(run_arguments({"-n", "3"}, {"leaves-orphan"}));
  const auto orphans = launch.read_pids(3);
  EXPECT_EQ(launch.wait(), 134);
  EXPECT_EQ(orphans.size(), 3u);
  EXPECT_TRUE(all_gone(orphans));
}

TEST(Launcher, ProgramsThatCannotBeRun) {
  EXPECT_EQ(ayatori({"run", "no-such-program"}).status, 127);
  EXPECT_EQ(ayatori({"run", "./no-such-program"}).status, 127);
  EXPECT_EQ(ayatori({"run", "/"}).status, 126);
  EXPECT_EQ(ayatori({"run", "/etc/passwd"}).status, 126);
  const Result unlinked = ayatori({"run", "-n", "2", "/bin/true"});
  EXPECT_EQ(unlinked.status, 125);
  EXPECT_NE(unlinked.err.find("/bin/true: not linked with Ayatori"), unlinked.err.npos);
  EXPECT_EQ(ayatori({"run", "/bin/false"}).status, 1);
  EXPECT_EQ(ayatori({"run", "true"}).status, 0);
}

TEST(Launcher, NumberOfProcessesIsChecked) {
  for (const char* const bad : {"65", "0", "-1", "abc", "", "4x", "99999999999999999999"}) {
    const Result result = run({"-n", bad}, {"hello"});
    EXPECT_EQ(result.status, 125) << bad;
    EXPECT_NE(result.err.find("1..64"), result.err.npos) << result.err;
    EXPECT_EQ(lines_of(result.err).size(), 1u);
  }
  Setting knob;
  knob.environment = {{"AYATORI_PROCESSES", "3"}};
  EXPECT_EQ(count_of(run({}, {"hello"}, knob).out, "hello"), 3);
  EXPECT_EQ(count_of(run({"-n", "2"}, {"hello"}, knob).out, "hello"), 2);
  knob.environment = {{"AYATORI_PROCESSES", "many"}};
  const Result result = run({}, {"hello"}, knob);
  EXPECT_EQ(result.status, 125);
  EXPECT_NE(result.err.find("AYATORI_PROCESSES=many"), result.err.npos);
}

TEST(Launcher, BarrierOfAllMembers) {
  for (const char* const n : {"2", "3", "8"}) EXPECT_EQ(run({"-n", n}, {"rounds", "500"}).status, 0);
  EXPECT_EQ(run({"-n", "4"}, {"barrier-timeout"}).status, 0);
}

}  // namespace
}  // namespace launcher_test
