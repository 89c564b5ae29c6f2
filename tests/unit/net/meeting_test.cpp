// SPDX-License-Identifier: Apache-2.0
// Processes that were started apart and meet (net/meeting.hpp): who comes shares the world, who does not or cannot is known to
// all others, strangers harm nobody. The members are children of the test that open their meetings one by one.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness.hpp"
#include "net/meeting.hpp"

namespace ayatori::net::testing {
namespace {

namespace boot = bootstrap;

constexpr std::int64_t kLongNs = 8'000'000'000;
constexpr std::int64_t kShortNs = 400'000'000;
constexpr std::size_t kSharedBytes = 3 * 4096;

// What the members would have told each other by their cards, and what they found.
struct Board {
  std::atomic<int> cards;
  char meetings[kMaxProcesses][sizeof(boot::Card::meeting)];
  std::uint64_t members[kMaxProcesses];  // of the world; 0: none
  bool is_error[kMaxProcesses];
  std::uint64_t met[kMaxProcesses];  // whose writing it found there
};

struct Member {
  boot::Membership job;
  Meeting meeting;
  shm::ShmConfig config;
  std::size_t shared_bytes = kSharedBytes;
  std::int64_t timeout_ns = kLongNs;
};

void wait_for(const std::atomic<int>& count, int wanted) {
  while (count.load() < wanted) ::poll(nullptr, 0, 1);
}

class Meetings : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = forks_missing()) GTEST_SKIP() << why;
    board_ =
        static_cast<Board*>(mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(board_, MAP_FAILED);
  }
  void TearDown() override {
    if (board_ != nullptr) munmap(board_, sizeof(Board));
  }

  // Each member changes what it likes before it meets: `before` may not return. Afterwards those that are in look for what all
  // of them write in shared memory.
  void run(int processes, const std::function<void(Member&)>& before,
           const std::function<void(const Board&)>& meanwhile = {}) {
    const std::vector<pid_t> members = fork_members(processes, [&](ProcessId self) {
      Member m;
      m.job.self = self;
      m.job.processes = processes;
      m.job.job = 77;
      m.job.secret.fill(5);
      m.job.cards.resize(static_cast<std::size_t>(processes));
      m.config.processes = processes;
      m.config.has_descriptors = true;
      m.config.reply_bytes_max = m.config.payload_bytes_max;
      m.meeting.open();
      std::memcpy(board_->meetings[self], m.meeting.name().c_str(), m.meeting.name().size() + 1);
      board_->cards.fetch_add(1);
      wait_for(board_->cards, processes);
      for (std::size_t p = 0; p < m.job.cards.size(); ++p) {
        std::memcpy(m.job.cards[p].meeting, board_->meetings[p], sizeof board_->meetings[p]);
        std::strcpy(m.job.cards[p].place, "here");
      }
      if (before) before(m);
      std::unique_ptr<shm::ShmWorld> world;
      board_->is_error[self] = !m.meeting.meet(m.job, m.config, m.shared_bytes, m.timeout_ns, &world).ok();
      if (world == nullptr) return;
      board_->members[self] = world->config().members;
      auto* const numbers = static_cast<std::atomic<std::uint64_t>*>(world->map_shared(kSharedBytes));
      if (numbers == nullptr || world->map_shared(1) != nullptr) _exit(9);
      numbers[self].store(7);
      world->ring_doorbell(self);  // its own descriptor, which all have
      world->freeze(self);
      const auto found = [&] {
        std::uint64_t met = 0;
        for (int p = 0; p < processes; ++p) met |= std::uint64_t{numbers[p].load() == 7 ? 1U : 0U} << p;
        return met;
      };
      while (found() != world->config().members) ::poll(nullptr, 0, 1);
      board_->met[self] = found();
      for (int p = 0; p < processes; ++p)
        if (((world->standing(p) == shm::Standing::kMember) ? 1U : 0U) != (world->config().members >> p & 1)) _exit(8);
    });
    if (meanwhile) meanwhile(*board_);
    for (const pid_t member : members) {
      int status = 0;
      ASSERT_EQ(waitpid(member, &status, 0), member);
      EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << status;
    }
  }

  void expect_members(int processes, std::uint64_t members) const {
    for (int p = 0; p < processes; ++p) {
      EXPECT_FALSE(board_->is_error[p]) << "process " << p;
      const bool is_in = (members >> p & 1) != 0;
      EXPECT_EQ(board_->members[p], is_in ? members : 0) << "process " << p;
      EXPECT_EQ(board_->met[p], is_in ? members : 0) << "process " << p;
    }
  }

  Board* board_ = nullptr;
};

int call(const char* meeting) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path + 1, meeting);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + std::strlen(meeting));
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), bytes), 0);
  return fd;
}

TEST_F(Meetings, AllShareOneWorld) {
  run(4, {});
  expect_members(4, 0b1111);
}

TEST_F(Meetings, AsManyAsAJobMayHave) {
  run(kMaxProcesses, [](Member& m) { m.config.ring_units = 256; });
  expect_members(kMaxProcesses, ~std::uint64_t{0});
}

TEST_F(Meetings, OnlyThoseOfOnePlaceAndWithAMeeting) {
  run(6, [](Member& m) {
    std::strcpy(m.job.cards[1].place, "there");
    std::strcpy(m.job.cards[4].place, "there");
    m.job.cards[3].meeting[0] = '\0';
    m.job.cards[5].meeting[0] = '\0';
  });
  EXPECT_EQ(board_->members[0], 0b000101u);
  EXPECT_EQ(board_->members[2], 0b000101u);
  EXPECT_EQ(board_->members[1], 0b010010u);
  EXPECT_EQ(board_->members[4], 0b010010u);
  EXPECT_EQ(board_->members[3] | board_->members[5], 0u);
}

TEST_F(Meetings, WhoIsAloneSharesNothing) {
  run(2, [](Member& m) { m.job.cards[1].meeting[0] = '\0'; });
  expect_members(2, 0);
}

TEST_F(Meetings, OneThatEndsIsDoneWithout) {
  run(4, [](Member& m) {
    if (m.job.self == 2) raise(SIGKILL);
    m.timeout_ns = kShortNs;
  });
  expect_members(4, 0b1011);
}

TEST_F(Meetings, OneWhoseAddressesAreTakenStaysOut) {
  run(3, [](Member& m) {
    if (m.job.self != 1) return;
    for (int i = 0; i < shm::ShmWorld::kApartTries; ++i)
      mmap(reinterpret_cast<void*>(shm::ShmWorld::kApartAt + static_cast<std::uint64_t>(i) * shm::ShmWorld::kApartStep),
           4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    // Should the first have found all of these taken: what is free where the kernel looks first, in pieces of 256 KiB.
    for (int i = 0; i < 4096; ++i)
      mmap(nullptr, 256 * 1024, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  });
  expect_members(3, 0b101);
}

TEST_F(Meetings, OneWithOtherSettingsStaysOut) {
  run(3, [](Member& m) {
    if (m.job.self == 2) m.shared_bytes *= 2;
  });
  expect_members(3, 0b011);
}

TEST_F(Meetings, OneWithAnotherSecretStaysOut) {
  run(3, [](Member& m) {
    m.timeout_ns = kShortNs;
    if (m.job.self == 1) m.job.secret.fill(6);
  });
  expect_members(3, 0b101);
}

TEST_F(Meetings, AFirstThatEndsLeavesTheOthersAlone) {
  run(3, [](Member& m) {
    if (m.job.self == 0) raise(SIGKILL);
  });
  expect_members(3, 0);
}

TEST_F(Meetings, StrangersAreDropped) {
  std::vector<int> strangers;
  run(
      3,
      [](Member& m) {
        if (m.job.self == 2) ::poll(nullptr, 0, 200);  // the strangers come first
      },
      [&strangers](const Board& board) {
        wait_for(board.cards, 3);
        for (int i = 0; i < 20; ++i) strangers.push_back(call(board.meetings[0]));
        char junk[500] = {1, 2, 3};
        for (std::size_t i = 5; i < strangers.size(); ++i)
          static_cast<void>(send(strangers[i], junk, i * 25, MSG_NOSIGNAL));  // the others are silent
        for (std::size_t i = 15; i < strangers.size(); ++i) close(strangers[i]);
      });
  for (std::size_t i = 0; i < 15; ++i) close(strangers[i]);
  expect_members(3, 0b111);
}

}  // namespace
}  // namespace ayatori::net::testing
