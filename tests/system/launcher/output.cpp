// SPDX-License-Identifier: Apache-2.0
// Standard input and output of members, labels, statistics.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>

#include "harness.hpp"

namespace launcher_test {
namespace {

std::string content(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(LauncherOutput, StandardInputGoesToProcess0) {
  Setting setting;
  setting.input = std::string(100'000, 'x');
  const Result result = run({"-n", "3"}, {"reads"}, setting);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(count_of(result.out, "read 0 100000\n"), 1);
  EXPECT_EQ(count_of(result.out, "read 1 0\n"), 1);
  EXPECT_EQ(count_of(result.out, "read 2 0\n"), 1);
}

TEST(LauncherOutput, LabelsStandBeforeWholeLines) {
  const Result result = run({"-n", "6", "--label"}, {"lines", "2000"});
  EXPECT_EQ(result.status, 0);
  std::map<int, int> next;
  for (const std::string& line : lines_of(result.out)) {
    int label = -1;
    int process = -1;
    int number = -1;
    ASSERT_EQ(std::sscanf(line.c_str(), "[%d] out %d %d", &label, &process, &number), 3) << line;
    ASSERT_EQ(label, process);
    ASSERT_EQ(number, next[process]++) << "order of one member's lines";
    ASSERT_TRUE(line.ends_with("wxyz"));
  }
  EXPECT_EQ(next.size(), 6u);
  EXPECT_EQ(lines_of(result.err).size(), 12'000u);
  for (const std::string& line : lines_of(result.err)) {
    ASSERT_TRUE(line.starts_with("[")) << line;
    ASSERT_TRUE(line.ends_with("in two writes")) << line;
  }
}

TEST(LauncherOutput, BothStreamsInOneFileKeepTheirOrder) {
  Setting setting;
  setting.merge = true;
  const Result result = run({"-n", "3", "--label"}, {"lines", "200"}, setting);
  EXPECT_EQ(result.status, 0);
  std::map<int, int> lines;
  for (const std::string& line : lines_of(result.out)) {
    int label = -1;
    char stream[4] = "";
    int process = -1;
    int number = -1;
    ASSERT_EQ(std::sscanf(line.c_str(), "[%d] %3s %d %d", &label, stream, &process, &number), 4) << line;
    EXPECT_STREQ(stream, lines[label] % 2 == 0 ? "out" : "err");
    EXPECT_EQ(number, lines[label]++ / 2);
  }
  EXPECT_EQ(lines.size(), 3u);
}

TEST(LauncherOutput, HugeLinesStayWhole) {
  for (const int bytes : {4'096, 65'536, 3'000'000}) {
    const Result result = run({"-n", "4", "--label"}, {"huge", std::to_string(bytes)});
    EXPECT_EQ(result.status, 0);
    const auto lines = lines_of(result.out);
    EXPECT_EQ(lines.size(), 8u);
    for (const std::string& line : lines) {
      ASSERT_EQ(line.size(), static_cast<std::size_t>(bytes) + 4);
      const int process = line[1] - '0';
      EXPECT_EQ(line.find_first_not_of(static_cast<char>('a' + process), 4), line.npos);
    }
  }
}

TEST(LauncherOutput, ReaderThatLeavesStopsTheMembers) {
  for (const bool label : {false, true}) {
    Launch launch(run_arguments({"-n", "2", label ? "--label" : "--check"}, {"lines", "1000000"}));
    launch.await_output("out", 1);
    launch.close_output();
    EXPECT_EQ(launch.wait(), 141) << launch.err.substr(0, 1'000);  // SIGPIPE
  }
}

TEST(LauncherOutput, ReaderThatDoesNotReadDoesNotKeepTheLauncher) {
  Launch launch(run_arguments({"-n", "2", "--label"}, {"lines", "1000000"}));
  launch.await_output("out", 1);
  usleep(300'000);  // all buffers are full now
  kill(launch.pid(), SIGTERM);
  launch.mark();
  EXPECT_EQ(launch.wait(), 143);
  EXPECT_LT(launch.seconds, 4);
}

TEST(LauncherOutput, ClosedStandardOutputStaysClosed) {
  Setting setting;
  setting.close_output = true;
  for (const std::string option : {"--label", "--check"}) {
    const Result result = run({"-n", "3", option}, {"descriptors"}, setting);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(run({"-n", "3", option}, {"run-status", "4"}, setting).status, 4);
  }
}

TEST(LauncherOutput, MembersHaveTheirStandardDescriptorsAndTheSocketOnly) {
  const Result plain = run({"-n", "4"}, {"descriptors"});
  const Result label = run({"-n", "4", "--label"}, {"descriptors"});
  for (int p = 0; p < 4; ++p) {
    EXPECT_EQ(count_of(plain.out, "descriptors " + std::to_string(p) + " 4\n"), 1) << plain.out;
    EXPECT_EQ(count_of(label.out, "descriptors " + std::to_string(p) + " 4\n"), 1) << label.out;
  }
}

TEST(LauncherOutput, SixtyFourMembersWithFewDescriptors) {
  Setting setting;
  setting.files = 256;
  const Result result = run({"-n", "64", "--label"}, {"hello"}, setting);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(lines_of(result.out).size(), 64u);

  setting.files = 24;
  EXPECT_EQ(count_of(run({"-n", "64"}, {"hello"}, setting).out, "hello"), 64);
  const Result failed = run({"-n", "64", "--label"}, {"hello"}, setting);
  EXPECT_EQ(failed.status, 125);
  EXPECT_EQ(lines_of(failed.err).size(), 1u) << failed.err;
}

TEST(LauncherOutput, EnvironmentOfMembers) {
  Setting setting;
  setting.environment = {{"AYATORI_PROCESSES", "2"}, {"AYATORI_WORKERS", "5"}, {"AYATORI_ENGINE", "uffd"}};
  const Result result = run({"-w", "3", "--engine", "mprotect"}, {"environment"}, setting);
  for (const std::string& line : lines_of(result.out)) {
    EXPECT_EQ(count_of(line, "AYATORI_PROCESSES"), 0);
    EXPECT_EQ(count_of(line, "AYATORI__BOOT"), 0);
    EXPECT_EQ(count_of(line, " AYATORI_WORKERS=3"), 1) << line;
    EXPECT_EQ(count_of(line, " AYATORI_ENGINE=mprotect"), 1) << line;
    EXPECT_EQ(count_of(line, "AYATORI_WORKERS=5"), 0);
    EXPECT_EQ(count_of(line, " workers=3"), 1);
  }
  EXPECT_EQ(lines_of(result.out).size(), 2u);
}

TEST(LauncherOutput, StatisticsAsJson) {
  char folder[] = "/tmp/ayatori-launcher-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string file = std::string(folder) + "/stats.json";
  EXPECT_EQ(run({"-n", "3", "--stats=" + file}, {"counts"}).status, 0);
  const std::string json = content(file);
  EXPECT_EQ(count_of(json, "\"schema\": 1"), 1) << json;
  EXPECT_EQ(count_of(json, "\"id\": 2"), 1);
  EXPECT_EQ(count_of(json, "\"threads_forked\": 300"), 1);
  EXPECT_EQ(count_of(json, "\"threads_forked\": 600"), 1);  // the total
  EXPECT_EQ(count_of(json, "\"steal_ns\": 318"), 1);
  std::remove(file.c_str());

  // Without the launcher the library writes the file itself, by the knob.
  Setting setting;
  setting.environment = {{"AYATORI_STATS", file}};
  EXPECT_EQ(ayatori({"run", "sh", "-c", std::string(PROBE) + " counts"}, setting).status, 0);
  EXPECT_EQ(count_of(content(file), "\"threads_forked\": 100"), 2) << content(file);
  std::remove(file.c_str());

  // A file that cannot be written is seen before the program starts; one that can comes with the counters only.
  const std::string bad = "AYATORI_STATS=" + std::string(folder) + "/none/x " PROBE " hello";
  const Result refused = ayatori({"run", "sh", "-c", bad});
  EXPECT_EQ(refused.status, 125);
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(count_of(refused.err, "AYATORI_STATS: cannot write"), 1) << refused.err;
  EXPECT_EQ(ayatori({"run", "sh", "-c", std::string(PROBE) + " hello"}, setting).status, 0);
  EXPECT_NE(access(file.c_str(), F_OK), 0);
  rmdir(folder);
}

TEST(LauncherOutput, StatisticsAsATable) {
  const Result result = run({"-n", "3", "--stats"}, {"counts"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(count_of(result.err, "threads_forked"), 1) << result.err;
  EXPECT_EQ(count_of(result.err, " 600"), 1) << result.err;
  EXPECT_EQ(run({"-n", "2", "--stats=/no-such-folder/x.json"}, {"counts"}).status, 125);
}

}  // namespace
}  // namespace launcher_test
