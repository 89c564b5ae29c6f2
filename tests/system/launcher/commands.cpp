// SPDX-License-Identifier: Apache-2.0
// The command line itself: options, help, info, dump.
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness.hpp"

namespace launcher_test {
namespace {

TEST(LauncherCommands, HelpAndVersion) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--help"}, {"run", "--help"}, {"info", "--help"}, {"bench", "--help"}, {"dump", "--help"}}) {
    const Result result = ayatori(words);
    EXPECT_EQ(result.status, 0) << words[0];
    EXPECT_GT(result.out.size(), 50u);
    EXPECT_EQ(result.err, "");
  }
  EXPECT_TRUE(ayatori({"--version"}).out.starts_with("ayatori "));
}

TEST(LauncherCommands, MistakesAre125WithOneLine) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"walk"},
                                             {"--what"},
                                             {"run"},
                                             {"run", "--"},
                                             {"run", "-n"},
                                             {"run", "--what", PROBE},
                                             {"run", "-x", PROBE},
                                             {"run", "-w", "many", PROBE},
                                             {"run", "-w", "-3", PROBE},
                                             {"run", "--engine", "steam", PROBE},
                                             {"run", "--transport", "pigeon", PROBE},
                                             {"info", "--what"},
                                             {"dump"},
                                             {"dump", "x"},
                                             {"dump", "999999999"},
                                             {"dump", std::to_string(getpid())}}) {
    const Result result = ayatori(words);
    EXPECT_EQ(result.status, 125) << words.back();
    EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST(LauncherCommands, OptionsEndAtTheProgram) {
  const Result result = ayatori({"run", "-n", "1", "echo", "-n", "--stats", "--help", "--", "run"});
  EXPECT_EQ(result.out, "--stats --help -- run");
  EXPECT_EQ(ayatori({"run", "--", "echo", "--label"}).out, "--label\n");
  EXPECT_EQ(run({"-n2"}, {"hello"}).status, 0);
  EXPECT_EQ(count_of(run({"--processes=3"}, {"hello"}).out, "hello"), 3);
}

TEST(LauncherCommands, OfARepeatedOptionTheLastOneCounts) {
  const Result result = run({"-n", "3", "-n", "2", "-w1", "--workers=2", "--label", "--label"}, {"hello"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(count_of(result.out, "hello"), 2) << result.out;
  const Result table = run({"--stats=/no-such-folder/x", "--stats"}, {"counts"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_EQ(count_of(table.err, "threads_forked"), 1) << table.err;
}

TEST(LauncherCommands, EmptyProgramIsCalledSo) {
  const Result result = ayatori({"run", ""});
  EXPECT_EQ(result.status, 127);
  EXPECT_EQ(result.err, "ayatori: run: the name of PROGRAM is empty\n");
}

TEST(LauncherCommands, WhatTellsNothingOfAProgramIsSaidAndLeavesNoFile) {
  const std::string file = "/tmp/ayatori-launcher-test-" + std::to_string(getpid()) + ".json";
  for (const std::string& option : {"--stats=" + file, std::string("--check")}) {
    const Result result = ayatori({"run", option, "true"});
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
    EXPECT_EQ(count_of(result.err, "not linked with Ayatori"), 1) << result.err;
    EXPECT_NE(access(file.c_str(), F_OK), 0);
  }
}

TEST(LauncherCommands, BadKnobIsNamedWithItsRange) {
  Setting setting;
  setting.environment = {{"AYATORI_BLOCK_SIZE", "lots"}};
  const Result result = run({"-n", "3"}, {"hello"}, setting);
  EXPECT_EQ(result.status, 125);
  EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
  EXPECT_EQ(count_of(result.err, "AYATORI_BLOCK_SIZE"), 2) << result.err;
}

TEST(LauncherCommands, InfoTellsEnginesAndKnobs) {
  Setting setting;
  setting.environment = {{"AYATORI_STACK_SIZE", "256K"}};
  const Result text = ayatori({"info"}, setting);
  EXPECT_EQ(text.status, 0);
  EXPECT_EQ(count_of(text.out, "*256K"), 1) << text.out;
  EXPECT_EQ(count_of(text.out, "AYATORI_WORKERS"), 1);
  EXPECT_GE(count_of(text.out, "AYATORI_STATS          (unset) "), 1) << text.out;
  const Result json = ayatori({"info", "--json"}, setting);
  EXPECT_EQ(json.status, 0);
  EXPECT_EQ(count_of(json.out, "\"mprotect\": {"), 1) << json.out;
}

TEST(LauncherCommands, GdbRunsProcess0) {
  if (access("/usr/bin/gdb", X_OK) != 0) GTEST_SKIP() << "no gdb here";
  Setting setting;
  setting.input = "run\nprint 6 * 7\nquit\n";
  const Result result = run({"-n", "3", "--gdb"}, {"hello"}, setting);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(count_of(result.out, "hello from"), 3) << result.out;
  EXPECT_EQ(count_of(result.out, "= 42"), 1) << result.out;
  setting.input = "run\nquit\n";  // stops at the abort
  Launch launch(run_arguments({"-n", "3", "--gdb"}, {"aborts", "0"}), setting);
  const auto pids = launch.read_pids(3);
  EXPECT_GE(launch.wait(), 0);
  EXPECT_TRUE(all_gone(pids));
}

}  // namespace
}  // namespace launcher_test
