// SPDX-License-Identifier: Apache-2.0
// Claims about statuses and start-up failures.
#include "base/status.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace ayatori::base {
namespace {

TEST(Status, DefaultIsOkWithoutMessage) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(code_name(status.code()), "ok");
}

TEST(Status, ErrorKeepsCodeAndFormattedMessage) {
  const Status status = error_status(Code::kTimeout, "peer {} after {} ms", 3, 20);
  EXPECT_FALSE(status);
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_EQ(status.message(), "peer 3 after 20 ms");
}

TEST(Status, SystemErrorsAreSortedByWhatOneCanDoAboutThem) {
  EXPECT_EQ(system_status(ENOMEM, "mmap").code(), Code::kExhausted);
  EXPECT_EQ(system_status(ENOSYS, "userfaultfd").code(), Code::kUnavailable);
  EXPECT_EQ(system_status(EPIPE, "send").code(), Code::kPeerLost);
  EXPECT_EQ(system_status(ENOENT, "open f").code(), Code::kSystem);
  EXPECT_EQ(system_status(ENOENT, "open f").message(), "open f: No such file or directory");
}

TEST(StatusDeath, StartFailureExits125WithOneLine) {
  EXPECT_EXIT(exit_start_failure(error_status(Code::kInvalid, "bad {}", "value")), testing::ExitedWithCode(125),
              "^ayatori: bad value\n$");
}

}  // namespace
}  // namespace ayatori::base
