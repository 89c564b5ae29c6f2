// SPDX-License-Identifier: Apache-2.0
// Claims about log lines and message formatting. Method: a sink that keeps the lines; gtest's capture for the default.
#include "base/log.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/identity.hpp"

namespace ayatori::base {
namespace {

std::vector<std::string>& kept_lines() {
  static std::vector<std::string> lines;
  return lines;
}

class Log : public testing::Test {
 protected:
  void SetUp() override {
    kept_lines().clear();
    set_log_sink([](LogLevel, std::string_view line) { kept_lines().emplace_back(line); });
    level_before_ = set_log_level(LogLevel::kInfo);
  }
  void TearDown() override {
    set_log_sink(nullptr);
    set_log_level(level_before_);
    set_identity(-1, 0);
    set_worker(-1);
  }
  LogLevel level_before_ = LogLevel::kWarn;
};

TEST_F(Log, LineHasPrefixLevelAndText) {
  log_warn("{} of {}", 1, "two");
  set_identity(2, 4);
  log_error("alone");
  set_worker(3);
  log_info("working");
  EXPECT_EQ(kept_lines(), (std::vector<std::string>{"ayatori: warning: 1 of two", "ayatori[2]: error: alone",
                                                    "ayatori[2.3]: info: working"}));
}

TEST_F(Log, BelowTheLevelNothingReachesTheSink) {
  log_debug("quiet");
  EXPECT_TRUE(kept_lines().empty());
  set_log_level(LogLevel::kDebug);
  log_debug("loud");
  EXPECT_EQ(kept_lines().size(), 1u);
}

TEST_F(Log, LongAndBrokenLinesAreCutToOneLine) {
  log_info("{}\n{}", "a", std::string(3 * kLineBytes, 'b'));
  ASSERT_EQ(kept_lines().size(), 1u);
  EXPECT_EQ(kept_lines()[0].size(), kLineBytes - 1);
  EXPECT_EQ(kept_lines()[0].find('\n'), std::string::npos);
}

TEST_F(Log, DefaultSinkWritesWholeLinesToStandardError) {
  set_log_sink(nullptr);
  testing::internal::CaptureStderr();
  log_warn("x = {:.2f}", 1.5);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "ayatori: warning: x = 1.50\n");
}

TEST_F(Log, WorkerNumberBelongsToItsOsThread) {
  set_identity(0, 1);
  set_worker(0);
  std::thread([] {
    EXPECT_EQ(identity().worker, -1);
    set_worker(5);
    EXPECT_EQ(identity().worker, 5);
  }).join();
  EXPECT_EQ(identity().worker, 0);
}

TEST(Format, PrintToNeverWritesBeyondItsRoom) {
  char room[8] = "1234567";
  EXPECT_EQ(print_to(std::span(room, 4), "{}", "abcdef"), 4u);
  EXPECT_EQ(std::string_view(room), "abcd567");
}

TEST(Format, PrintToWhatFmtRefusesAtRunTimePrintsTheFormat) {
  char room[32];
  const int negative_width = -3;
  const std::size_t bytes = print_to(room, "{:{}}", 1, negative_width);
  EXPECT_EQ(std::string_view(room, bytes), "{:{}}");
}

}  // namespace
}  // namespace ayatori::base
