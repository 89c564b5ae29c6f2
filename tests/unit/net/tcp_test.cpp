// SPDX-License-Identifier: Apache-2.0
// Addresses that cannot be listened on. What the tcp transport promises otherwise: served_test.cpp.
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "net/tcp/socket.hpp"

namespace ayatori::net {
namespace {

TEST(TcpSocket, AddressesThatCannotBeListenedOnAreAStatus) {
  tcp::Socket first, second;
  tcp::SocketAddress address, other;
  EXPECT_FALSE(tcp::listen_on("localhost", 0, &first, &address).ok());
  EXPECT_FALSE(tcp::listen_on("0.0.0.0", 0, &first, &address).ok());
  EXPECT_FALSE(tcp::listen_on("::", 0, &first, &address).ok());
  EXPECT_FALSE(tcp::listen_on("192.0.2.1", 0, &first, &address).ok()) << "no interface has this address";
  ASSERT_TRUE(tcp::listen_on(tcp::kLoopback, 0, &first, &address).ok());
  const std::uint16_t port = ntohs(reinterpret_cast<const sockaddr_in&>(address.storage).sin_port);
  const base::Status taken = tcp::listen_on(tcp::kLoopback, port, &second, &other);
  EXPECT_FALSE(taken.ok());
  EXPECT_NE(taken.message().find(tcp::address_text(address)), std::string::npos) << taken.message();
}

}  // namespace
}  // namespace ayatori::net
