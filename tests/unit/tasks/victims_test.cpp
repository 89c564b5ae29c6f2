// SPDX-License-Identifier: Apache-2.0
// Whom an idle worker asks: its own machine before others, all of them in the end, other machines less often while they have
// nothing.
#include "tasks/victims.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>

namespace {

using ayatori::tasks::Peers;
using ayatori::tasks::Victims;

bool is_in(std::uint64_t set, int process) { return (set >> process & 1) != 0; }

TEST(Victims, NobodyIsAskedInAJobOfOne) { EXPECT_EQ(Victims().next({}, 12345), -1); }

TEST(Victims, ThoseOfTheMachineAreAskedBeforeOthersAndAllAreAsked) {
  for (const Peers peers : {Peers{0b1110, 0xf0}, Peers{0x2, 0xfffffffffffffffc}, Peers{0xfffffffffffffffc, 0x2}}) {
    Victims victims;
    std::mt19937_64 random(1);
    std::array<int, 64> asked{};
    int near = 0, beyond = 0, near_since = 0;
    for (int i = 0; i < 200'000; ++i) {
      const int p = victims.next(peers, random());
      ASSERT_TRUE(is_in(peers.here | peers.beyond, p));
      ++asked[static_cast<std::size_t>(p)];
      if (is_in(peers.here, p)) {
        ++near;
        ++near_since;
      } else {
        if (++beyond > 1) {
          ASSERT_GE(near_since, std::popcount(peers.here));
          ASSERT_LT(near_since, std::popcount(peers.here) + static_cast<int>(Victims::kMost));
        }
        near_since = 0;
      }
      victims.asked(peers, p, false);
    }
    EXPECT_GT(near, 0);
    EXPECT_GT(beyond, 0);
    for (int p = 0; p < 64; ++p)
      EXPECT_EQ(asked[static_cast<std::size_t>(p)] > 0, is_in(peers.here | peers.beyond, p)) << p;
  }
}

TEST(Victims, OtherMachinesAreAskedMoreRarelyWhileTheyHaveNothing) {
  const Peers peers{0b10, 0b1100};
  std::mt19937_64 random(2);
  const auto share = [&](bool found) {
    Victims victims;
    int beyond = 0;
    for (int i = 0; i < 10'000; ++i) {
      const int p = victims.next(peers, random());
      if (is_in(peers.beyond, p)) ++beyond;
      victims.asked(peers, p, found && is_in(peers.beyond, p));
    }
    return beyond;
  };
  EXPECT_EQ(share(true), 5'000);  // every other one: one here, one beyond
  EXPECT_LT(share(false), 2'000);
  EXPECT_GT(share(false), 10'000 / (2 + static_cast<int>(Victims::kMost)));
}

TEST(Victims, WhoGivesSomethingIsFollowedByOthersOfTheMachine) {
  const Peers peers{0b1110, 0b10000};
  Victims victims;
  std::mt19937_64 random(3);
  for (int i = 0; i < 10'000; ++i) {
    const int p = victims.next(peers, random());
    ASSERT_TRUE(i == 0 || is_in(peers.here, p)) << i;  // they always have something
    victims.asked(peers, p, true);
  }
}

TEST(Victims, WhereNobodyElseIsHereTheOthersAreAskedAtOnce) {
  Victims victims;
  const Peers peers{0, 0b110};
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    const int p = victims.next(peers, i);
    ASSERT_TRUE(is_in(peers.beyond, p));
    victims.asked(peers, p, false);
  }
}

}  // namespace
