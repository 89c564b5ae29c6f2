// SPDX-License-Identifier: Apache-2.0
// The proof of the job's secret (net/tcp/handshake.hpp), without sockets: who knows the secret gets in, nobody else does, by
// whatever changed, recorded or reflected bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "net/tcp/handshake.hpp"

namespace ayatori::net::tcp {
namespace {

using Bytes = std::vector<std::byte>;
using Role = Handshake::Role;
using State = Handshake::State;

constexpr JobTerms kTerms{42, 4, {4096, 16384, 128}};

Secret secret_of(unsigned char seed) {
  Secret secret;
  secret.fill(seed);
  return secret;
}

Bytes take(Handshake& from) {
  const auto out = from.to_send();
  Bytes bytes(out.begin(), out.end());
  from.sent(bytes.size());
  return bytes;
}

void give(Handshake& to, const Bytes& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const auto room = to.to_receive();
    if (room.empty()) return;
    const std::size_t here = std::min({room.size(), bytes.size() - at, std::size_t{33}});
    std::memcpy(room.data(), bytes.data() + at, here);
    to.received(here);
    at += here;
  }
}

// Hello, hello, proof, proof; change(message number, bytes) may meddle.
template <class Change>
std::pair<State, State> play(Handshake& connector, Handshake& acceptor, Change&& change) {
  for (int message = 0; message < 4; ++message) {
    Handshake& from = message % 2 == 0 ? connector : acceptor;
    Handshake& to = message % 2 == 0 ? acceptor : connector;
    Bytes bytes = take(from);
    change(message, bytes);
    give(to, bytes);
  }
  return {connector.state(), acceptor.state()};
}
const auto kNoChange = [](int, Bytes&) {};

TEST(TcpHandshake, TwoWhoKnowTheSecretProveItToEachOther) {
  const Secret secret = secret_of(7);
  Handshake connector(Role::kConnector, kTerms, secret, 1, 3);
  Handshake acceptor(Role::kAcceptor, kTerms, secret, 3, -1);
  EXPECT_EQ(play(connector, acceptor, kNoChange), (std::pair{State::kProved, State::kProved}));
  EXPECT_EQ(acceptor.peer(), 1);
  EXPECT_TRUE(connector.to_send().empty() && acceptor.to_send().empty());
  EXPECT_TRUE(connector.to_receive().empty() && acceptor.to_receive().empty());  // K4: what follows are frames
}

TEST(TcpHandshake, AnyChangedBitIsRefused) {
  const Secret secret = secret_of(7);
  for (int changed = 0; changed < 4; ++changed) {
    const std::size_t bytes = changed < 2 ? sizeof(Hello) : sizeof(Proof);
    for (std::size_t bit = 0; bit < bytes * 8; ++bit) {
      Handshake connector(Role::kConnector, kTerms, secret, 1, 3);
      Handshake acceptor(Role::kAcceptor, kTerms, secret, 3, -1);
      const auto [caller, called] = play(connector, acceptor, [&](int message, Bytes& sent) {
        if (message == changed && !sent.empty()) sent[bit / 8] ^= std::byte{1} << (bit % 8);
      });
      EXPECT_NE(caller, State::kProved) << "message " << changed << " bit " << bit;
      if (changed < 3) {
        EXPECT_NE(called, State::kProved) << "message " << changed << " bit " << bit;
      }
    }
  }
}

TEST(TcpHandshake, OthersAreRefusedAndHearNothingOfTheSecret) {
  const Secret secret = secret_of(7);
  const Secret wrong = secret_of(8);
  JobTerms other_job = kTerms;
  other_job.job = 43;
  JobTerms other_limits = kTerms;
  other_limits.limits.payload_bytes_max = 4095;
  struct Stranger {
    JobTerms terms;
    const Secret& secret;
    ProcessId self, to;
  };
  const Stranger strangers[] = {
      {kTerms, wrong, 1, 3},         // wrong secret
      {other_job, secret, 1, 3},     // wrong job
      {other_limits, secret, 1, 3},  // other limits
      {kTerms, secret, 3, 3},        // claims to be the acceptor itself
      {kTerms, secret, 2, 1},        // calls another
      {kTerms, secret, -1, 3},       // nobody
  };
  for (const Stranger& stranger : strangers) {
    Handshake connector(Role::kConnector, stranger.terms, stranger.secret, stranger.self, stranger.to);
    Handshake acceptor(Role::kAcceptor, kTerms, secret, 3, -1);
    std::size_t heard = 0;
    const auto [caller, called] =
        play(connector, acceptor, [&](int message, Bytes& sent) { heard += message % 2 == 1 ? sent.size() : 0; });
    EXPECT_NE(caller, State::kProved);
    EXPECT_EQ(called, State::kRefused);
    EXPECT_LE(heard, sizeof(Hello));  // K3: no proof of the acceptor
  }
}

TEST(TcpHandshake, ARecordedHandshakeProvesNothingLater) {
  const Secret secret = secret_of(7);
  Handshake connector(Role::kConnector, kTerms, secret, 1, 3);
  Handshake first(Role::kAcceptor, kTerms, secret, 3, -1);
  Bytes record[4];
  play(connector, first, [&](int message, Bytes& sent) { record[message] = sent; });
  ASSERT_EQ(first.state(), State::kProved);
  Handshake again(Role::kAcceptor, kTerms, secret, 3, -1);
  give(again, record[0]);
  EXPECT_EQ(take(again).size(), sizeof(Hello));
  give(again, record[2]);
  EXPECT_EQ(again.state(), State::kRefused);
  EXPECT_TRUE(again.to_send().empty());
  Handshake caller(Role::kConnector, kTerms, secret, 1, 3);  // and an impostor behind the acceptor's address
  take(caller);
  give(caller, record[1]);
  take(caller);
  give(caller, record[3]);
  EXPECT_EQ(caller.state(), State::kRefused);
}

TEST(TcpHandshake, WhatOneSaysReflectedProvesNothing) {
  const Secret secret = secret_of(7);
  Handshake caller(Role::kConnector, kTerms, secret, 1, 3);
  give(caller, take(caller));  // its own hello
  EXPECT_EQ(caller.state(), State::kRefused);
  Handshake second(Role::kConnector, kTerms, secret, 1, 3);
  Handshake acceptor(Role::kAcceptor, kTerms, secret, 3, -1);
  give(acceptor, take(second));
  give(second, take(acceptor));
  give(second, take(second));  // its own proof
  EXPECT_EQ(second.state(), State::kRefused);
}

}  // namespace
}  // namespace ayatori::net::tcp
