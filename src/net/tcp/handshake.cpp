// SPDX-License-Identifier: Apache-2.0
#include "net/tcp/handshake.hpp"

#include <sodium.h>

#include <cstring>

#include "base/check.hpp"

namespace ayatori::net::tcp {
namespace {

constexpr std::array<char, 8> kMagic{'a', 'y', 't', 'o', 'r', 'i', '-', 't'};
constexpr std::uint32_t kVersion = 1;

bool same_limits(const FrameLimits& a, const FrameLimits& b) noexcept {
  return a.payload_bytes_max == b.payload_bytes_max && a.inline_bytes_max == b.inline_bytes_max &&
         a.requests_max == b.requests_max;
}

}  // namespace

Handshake::Handshake(Role role, const JobTerms& terms, const Secret& secret, ProcessId self, ProcessId to)
    : role_(role), terms_(terms), secret_(&secret), self_(self), peer_(to) {
  AYT_CHECK(sodium_init() >= 0, "libsodium cannot be used here");
  mine_.magic = kMagic;
  mine_.version = kVersion;
  mine_.role = static_cast<std::uint32_t>(role);
  mine_.job = terms.job;
  mine_.from = self;
  mine_.to = to;
  mine_.processes = terms.processes;
  mine_.limits = terms.limits;
  randombytes_buf(mine_.nonce.data(), mine_.nonce.size());
  if (role == Role::kConnector) send(&mine_, sizeof mine_);
}

void Handshake::send(const void* bytes, std::size_t count) {
  AYT_CHECK(sent_ == out_bytes_, "the message before is not out");
  std::memcpy(out_.data(), bytes, count);
  out_bytes_ = count;
  sent_ = 0;
}

std::span<std::byte> Handshake::to_receive() noexcept {
  // Whoever still has to speak listens afterwards: so an answer never meets a message that is half out.
  if (state_ != State::kUnderWay || sent_ != out_bytes_) return {};
  switch (expects_) {
    case Expects::kHello: return {reinterpret_cast<std::byte*>(&theirs_) + in_bytes_, sizeof theirs_ - in_bytes_};
    case Expects::kProof: return std::as_writable_bytes(std::span(their_proof_)).subspan(in_bytes_);
    case Expects::kNothing: break;
  }
  return {};
}

void Handshake::received(std::size_t bytes) {
  in_bytes_ += bytes;
  if (expects_ == Expects::kHello && in_bytes_ == sizeof theirs_) {
    in_bytes_ = 0;
    if (const char* why = check_hello()) return refuse(why);
    expects_ = Expects::kProof;
    peer_ = theirs_.from;
    if (role_ == Role::kAcceptor) {
      mine_.to = peer_;
      send(&mine_, sizeof mine_);
    } else {
      const Proof mine = proof(Role::kConnector);
      send(mine.data(), mine.size());
    }
  } else if (expects_ == Expects::kProof && in_bytes_ == sizeof their_proof_) {
    const Proof expected = proof(role_ == Role::kConnector ? Role::kAcceptor : Role::kConnector);
    if (sodium_memcmp(expected.data(), their_proof_.data(), expected.size()) != 0)
      return refuse("it does not know the job's secret");
    expects_ = Expects::kNothing;
    state_ = State::kProved;
    if (role_ == Role::kAcceptor) {  // K3
      const Proof mine = proof(Role::kAcceptor);
      send(mine.data(), mine.size());
    }
  }
}

const char* Handshake::check_hello() const noexcept {
  if (theirs_.magic != kMagic) return "it does not speak this protocol";
  if (theirs_.version != kVersion) return "it speaks another version of this protocol";
  if (theirs_.role == mine_.role || (theirs_.role != 1 && theirs_.role != 2)) return "it plays a strange role";  // K2
  if (theirs_.job != terms_.job) return "it belongs to another job";
  if (theirs_.processes != terms_.processes || !same_limits(theirs_.limits, terms_.limits))
    return "it was started with other limits";
  if (theirs_.to != self_) return "it calls another process";
  const bool expected = role_ == Role::kConnector ? theirs_.from == peer_ : theirs_.from >= 0 && theirs_.from < self_;
  return expected ? nullptr : "it claims to be a process that does not call this one";
}

Proof Handshake::proof(Role prover) const {
  const Hello& connector = role_ == Role::kConnector ? mine_ : theirs_;
  const Hello& acceptor = role_ == Role::kConnector ? theirs_ : mine_;
  const auto role = static_cast<std::uint32_t>(prover);
  const auto bytes = [](const auto& object) { return reinterpret_cast<const unsigned char*>(&object); };
  Proof result;
  crypto_generichash_state state;
  crypto_generichash_init(&state, secret_->data(), secret_->size(), result.size());
  crypto_generichash_update(&state, bytes(role), sizeof role);
  crypto_generichash_update(&state, bytes(connector), sizeof connector);
  crypto_generichash_update(&state, bytes(acceptor), sizeof acceptor);
  crypto_generichash_final(&state, result.data(), result.size());
  return result;
}

void Handshake::refuse(const char* why) noexcept {
  state_ = State::kRefused;
  refusal_ = why;
}

}  // namespace ayatori::net::tcp
