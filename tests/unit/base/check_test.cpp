// SPDX-License-Identifier: Apache-2.0
// Claims about checks and fatal errors. Method: death tests look at the line, the hook runs in the dying child.
#include "base/check.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "base/identity.hpp"

namespace ayatori::base {
namespace {

TEST(CheckDeath, FailedCheckAbortsWithExpressionMessageAndPlace) {
  const int answer = 41;
  EXPECT_EXIT(AYT_CHECK(answer == 42, "got {} at {:#x}", answer, 255), testing::KilledBySignal(SIGABRT),
              "^ayatori: fatal: check failed: answer == 42: got 41 at 0xff \\(check_test.cpp:[0-9]+\\)\n$");
}

TEST(CheckDeath, FailedCheckWithoutMessageNamesItsExpression) {
  EXPECT_EXIT(AYT_CHECK(1 > 2), testing::KilledBySignal(SIGABRT), "check failed: 1 > 2 \\(check_test.cpp:");
}

TEST(CheckDeath, FatalNamesProcessAndWorker) {
  EXPECT_EXIT(
      {
        set_identity(3, 8);
        set_worker(1);
        fatal("no more {}", "slots");
      },
      testing::KilledBySignal(SIGABRT), "^ayatori\\[3\\.1\\]: fatal: no more slots \\(check_test.cpp:[0-9]+\\)\n$");
}

TEST(CheckDeath, MessageIsOneLineWhateverItsTextAndLength) {
  EXPECT_EXIT(fatal("two\nlines"), testing::KilledBySignal(SIGABRT), "fatal: two lines \\(");
  EXPECT_EXIT(fatal("{}", std::string(10'000, 'x')), testing::KilledBySignal(SIGABRT), "^ayatori: fatal: x+\n$");
}

TEST(CheckDeath, HookReplacesTheLineAndSeesTheParts) {
  const auto hook = [](const Failure& failure) {
    std::fprintf(stderr, "hooked %.*s|%.*s|%s", static_cast<int>(failure.message.size()), failure.message.data(),
                 static_cast<int>(failure.line.size()), failure.line.data(), failure.expression);
  };
  EXPECT_EXIT(
      {
        set_fatal_hook(hook);
        AYT_CHECK(false, "n = {}", 7);
      },
      testing::KilledBySignal(SIGABRT), "^hooked n = 7\\|ayatori: fatal: check failed: false: n = 7 \\(.*\\)\\|false$");
}

TEST(CheckDeath, FailureInsideTheHookDoesNotRunItAgain) {
  const auto hook = [](const Failure&) { fatal("inner"); };
  EXPECT_EXIT(
      {
        set_fatal_hook(hook);
        fatal("outer");
      },
      testing::KilledBySignal(SIGABRT), "^ayatori: fatal: inner \\([^\n]*\n$");
}

TEST(CheckDeath, RawFatalWritesItsTextAndAborts) {
  EXPECT_EXIT(fatal_raw("stack overflow"), testing::KilledBySignal(SIGABRT), "^ayatori: fatal: stack overflow\n$");
}

TEST(Check, PassedCheckEvaluatesItsConditionOnceAndItsArgumentsNever) {
  int conditions = 0, arguments = 0;
  AYT_CHECK(++conditions == 1, "{}", ++arguments);
  EXPECT_EQ(conditions, 1);
  EXPECT_EQ(arguments, 0);
}

TEST(Check, SetHookReturnsTheOneBefore) {
  const FatalHook hook = [](const Failure&) {};
  EXPECT_EQ(set_fatal_hook(hook), nullptr);
  EXPECT_EQ(set_fatal_hook(nullptr), hook);
}

}  // namespace
}  // namespace ayatori::base
