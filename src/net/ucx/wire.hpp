// SPDX-License-Identifier: Apache-2.0
// UCX as far as the transport needs it: batches of bytes to and from other processes, as eager active messages. No header of
// UCX is included here: wire.cpp is UCX, absent.cpp stands in for it where the build found none.
//
// L1. All of it but open() and descriptor() belongs to one thread at a time, the one that holds the transport's poll lock.
// L2. UCX is loaded when the first wire is opened (library.hpp), so a program that is built with it starts without it too.
// L3. What UCX reports is a Status, a reason in words or a bit in a set; it neither prints nor catches signals nor aborts.
// L4. UCX keeps memory of the wire's own only: a batch that does not go during the call is copied, and what arrived lies in
//     UCX's memory until somebody who has checked it copies it. So a peer that is broken or gone neither reads nor writes the
//     process' memory, and no request has to be taken back from UCX before its memory is given back.
// L5. UCX 1.13 corrupts its memory when a TCP endpoint whose peer still lives is closed by force, and aborts when one fails
//     while data is sent without a copy (docs/design/ucx-transport.md). So endpoints are closed only after UCX has reported
//     them broken, or (break_off) where no TCP is, others end with the wire; and everything is sent eagerly, by copy or (UCX's short protocol, to the socket
//     straight from where it lies) at once.
// L6. Over UCX's shared memory a process that is killed in the midst of posting a message blocks its receiver's queue for
//     everybody, and one that is stopped there does until it goes on. It is used only where WireConfig::transports names it.
// L7. Before the first message of the usual kind UCX (1.13, and later ones too) agrees with the peer's upon the endpoint, by a
//     request and a reply. A reply that still waits for its connection when that fails aborts the process. So the first
//     message over an endpoint is a greeting, of which UCX keeps nothing: once it went, the connection stands, and a reply
//     would not wait. Only a process that has both greeted and been greeted sends a first batch, and only one of the two (U5
//     of transport.hpp): thus the reply is the only one and finds room.
// L8. What UCX does with peers' memory by itself is told by reaches() (memory.hpp), if the wire was to try it. Only then it is
//     used, and L4 does not hold for what is used so: M3 does.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <ayatori/net/types.hpp>
#include "base/status.hpp"
#include "net/ucx/memory.hpp"

namespace ayatori::net::ucx {

struct WireConfig {
  int processes = 1;
  std::string devices;        // one at least
  std::string transports;     // empty: UCX's choice
  bool tries_memory = false;  // L8
};

// A batch as it arrives: the stream of its parts, cut where one of them went from where it lay.
struct Batch {
  std::span<const std::byte> head;
  std::span<const std::byte> rest;  // without the zeros that pad the last part
};

class Arrivals {
 public:
  virtual ~Arrivals() = default;
  virtual void on_batch(const Batch& batch) = 0;  // valid during the call, at any address
};

class Wire {
 public:
  enum class Sent : std::uint8_t { kDone, kUnderWay, kNoRoom, kFailed };

  static base::Status open(const WireConfig& config, std::unique_ptr<Wire>* wire);
  virtual ~Wire() = default;

  virtual std::span<const std::byte> address() const noexcept = 0;  // what peers connect to
  virtual int descriptor() const noexcept = 0;                      // readable when armed and something is there

  // nullptr, or why there is no way to that address.
  virtual const char* connect(ProcessId peer, std::span<const std::byte> address) = 0;
  virtual bool connected(ProcessId peer) const noexcept = 0;
  // A few bytes to a peer to whom no batch was sent yet, at once or (kNoRoom) not at all: then try again after progress(). L7
  virtual Sent greet(ProcessId to, std::span<const std::byte> greeting) = 0;
  // The parts, one behind the other, as one batch. A last one of less than 8 bytes is padding. kUnderWay: the next one has to
  // wait until take_sent() names the peer.
  virtual Sent send(ProcessId to, std::span<const iovec> parts) = 0;
  virtual std::size_t progress(Arrivals& arrivals) = 0;
  virtual bool arm() = 0;  // false: something is there already
  // Sets of processes (bits): the next batch may be sent; the connection broke, for good. What is taken is told once.
  virtual std::uint64_t take_sent() noexcept = 0;
  virtual std::uint64_t take_broken() noexcept = 0;
  virtual const char* trouble(ProcessId peer) const noexcept = 0;  // in words

  // --- memory (L8) ---
  virtual const Reaches& reaches() const noexcept = 0;
  // Any thread, and so the next two. Zeroed, the wire's; nullptr: there is none.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  // The length of the region's key; 0: UCX does not reach that memory.
  virtual std::size_t expose(RegionId region, void* base, std::size_t bytes, std::span<std::byte> key,
                             Reach* reach) = 0;
  virtual void conceal(RegionId region) = 0;
  // Of a connected peer; kKeyRoomBytes. nullptr: no key. drop() it before the wire ends.
  virtual void* learn(ProcessId of, const std::byte* key) = 0;
  virtual void drop(void* key) = 0;
  virtual void operate(ProcessId on, MemoryOp* first) = 0;  // a list; each ends by take_ended(), perhaps at once
  virtual bool has_ended() const noexcept = 0;
  virtual MemoryOp* take_ended() noexcept = 0;  // a list
  // Ends what is under way on its memory, and its connection, which is not to be used again.
  virtual void break_off(ProcessId peer) = 0;
};

}  // namespace ayatori::net::ucx
