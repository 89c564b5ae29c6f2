// SPDX-License-Identifier: Apache-2.0
// Threads that sleep until somebody rings (net/served/sleepers.hpp).
#include "net/served/sleepers.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include "base/clock.hpp"

namespace ayatori::net::served {
namespace {

constexpr std::int64_t kSleepNs = 2'000'000;

std::set<int> event_descriptors() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own
    if (std::filesystem::read_symlink(entry.path(), gone) == "anon_inode:[eventfd]")
      found.insert(std::stoi(entry.path().filename()));
  }
  return found;
}

// Whether a sleep of kSleepNs that nobody ends was over before.
bool ends_early(Sleepers& sleepers) {
  const std::int64_t start_ns = base::real_now_ns();
  sleepers.sleep(-1, kSleepNs, [](void*) { return false; }, nullptr);
  return base::real_now_ns() - start_ns < kSleepNs;
}

// Z3, as ring() does it when the sleeper that it saw has gone before it writes.
TEST(Sleepers, ARingThatComesTooLateEndsOneSleep) {
  Sleepers sleepers;
  const std::set<int> before = event_descriptors();
  ASSERT_FALSE(ends_early(sleepers));  // makes its bell
  int bell = -1;
  for (const int each : event_descriptors())
    if (before.count(each) == 0) bell = each;
  ASSERT_GE(bell, 0);
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(bell, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  ends_early(sleepers);
  EXPECT_FALSE(ends_early(sleepers));
}

}  // namespace
}  // namespace ayatori::net::served
