// SPDX-License-Identifier: Apache-2.0
// How two processes prove to each other that they know the job's secret, before the first frame: a state machine over bytes,
// without sockets; mesh.cpp moves the bytes. One per connection, one thread.
//
//   connector -> acceptor   hello: magic, version, role, job, both process numbers, limits, 32 fresh random bytes
//   acceptor -> connector   hello of the same form
//   connector -> acceptor   proof: keyed BLAKE2b (libsodium) under the secret, over the role and both hellos
//   acceptor -> connector   proof
//
// K1. A proof covers both fresh hellos: one that was recorded proves nothing later, nor elsewhere (job, numbers).
// K2. A proof covers its prover's role: sent back to its maker it proves nothing.
// K3. The acceptor says nothing that depends on the secret before the connector has proved it; nobody says anything about
//     why it refuses.
// K4. Both sides read exactly the bytes of the next message: what follows is the first frame. A connection under way costs
//     the bytes of this object and nothing more.
// The secret authenticates; the traffic is neither encrypted nor signed: who can write into the network between the
// processes can write into the job (docs/design/tcp-transport.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <ayatori/net/types.hpp>
#include "net/served/frame.hpp"

namespace ayatori::net::tcp {

using served::FrameLimits;

using Secret = std::array<unsigned char, 32>;

// What both ends must agree on.
struct JobTerms {
  std::uint64_t job = 0;
  std::int32_t processes = 0;
  FrameLimits limits;
};

struct Hello {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t role;
  std::uint64_t job;
  std::int32_t from;
  std::int32_t to;
  std::int32_t processes;
  FrameLimits limits;
  std::array<unsigned char, 32> nonce;
};
static_assert(sizeof(Hello) == 80);
using Proof = std::array<unsigned char, 32>;

class Handshake {
 public:
  enum class Role : std::uint32_t { kConnector = 1, kAcceptor = 2 };
  enum class State : std::uint8_t { kUnderWay, kProved, kRefused };

  // The connector knows whom it calls; the acceptor is called by a process below itself that `to` leaves open (-1).
  Handshake(Role role, const JobTerms& terms, const Secret& secret, ProcessId self, ProcessId to);

  std::span<const std::byte> to_send() const noexcept { return {out_.data() + sent_, out_bytes_ - sent_}; }
  void sent(std::size_t bytes) noexcept { sent_ += bytes; }
  std::span<std::byte> to_receive() noexcept;  // empty: nothing is expected now
  void received(std::size_t bytes);

  // kProved: by the peer; the connection is usable once to_send() is empty too.
  State state() const noexcept { return state_; }
  ProcessId peer() const noexcept { return peer_; }
  const char* refusal() const noexcept { return refusal_; }

 private:
  enum class Expects : std::uint8_t { kHello, kProof, kNothing };

  void send(const void* bytes, std::size_t count);
  const char* check_hello() const noexcept;
  Proof proof(Role prover) const;
  void refuse(const char* why) noexcept;

  Role role_;
  JobTerms terms_;
  const Secret* secret_;
  ProcessId self_;
  ProcessId peer_;
  Hello mine_{};
  Hello theirs_{};
  Proof their_proof_{};
  Expects expects_ = Expects::kHello;
  std::size_t in_bytes_ = 0;
  State state_ = State::kUnderWay;
  const char* refusal_ = nullptr;
  std::array<std::byte, sizeof(Hello)> out_{};
  std::size_t out_bytes_ = 0;
  std::size_t sent_ = 0;
};

}  // namespace ayatori::net::tcp
