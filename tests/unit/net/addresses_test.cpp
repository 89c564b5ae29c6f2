// SPDX-License-Identifier: Apache-2.0
// Which address AYATORI_NET_INTERFACE means. Loopback is the one interface that every machine has.
#include "net/bootstrap/addresses.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ayatori::net::bootstrap {
namespace {

std::string chosen(const char* wanted) {
  ChosenAddress address;
  const base::Status status = choose_address(wanted, "", &address);
  return status.ok() ? address.number + " of " + address.interface : "refused: " + status.message();
}

TEST(Addresses, AreChosenByNameNumberOrNetwork) {
  EXPECT_EQ(chosen("lo"), "127.0.0.1 of lo");
  EXPECT_EQ(chosen("127.0.0.1"), "127.0.0.1 of lo");
  EXPECT_EQ(chosen("127.0.0.0/8"), "127.0.0.1 of lo");
  EXPECT_EQ(chosen("127.0.0.1/32"), "127.0.0.1 of lo");
  EXPECT_EQ(chosen("112.0.0.0/4"), "127.0.0.1 of lo");
}

TEST(Addresses, WhatIsNotHereIsRefusedWithWhatIs) {
  for (const char* wanted :
       {"no-such-interface", "240.0.0.1", "240.0.0.0/24", "127.0.0.1/33", "127.0.0.1/", "/8", "127.0.0.0/8x"}) {
    const std::string line = chosen(wanted);
    EXPECT_TRUE(line.starts_with(std::string("refused: AYATORI_NET_INTERFACE=") + wanted + ":")) << line;
    EXPECT_NE(line.find("lo (127.0.0.1)"), line.npos) << line;
  }
}

TEST(Addresses, AHostThatIsNotThisOneChangesNothing) {
  ChosenAddress with, without;
  const bool found = choose_address("", "", &without).ok();
  EXPECT_EQ(choose_address("", "240.0.0.1", &with).ok(), found);
  EXPECT_EQ(with.number, without.number);
  // Loopback is no answer to "how do others reach this machine".
  EXPECT_EQ(choose_address("", "127.0.0.1", &with).ok(), found);
  EXPECT_EQ(with.number, without.number);
}

}  // namespace
}  // namespace ayatori::net::bootstrap
