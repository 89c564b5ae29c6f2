// SPDX-License-Identifier: Apache-2.0
// What UCX does with the memory of a peer by itself: reads, writes and atomics of which the target's processes know nothing.
// Plain data; ucx_memory.cpp is UCX.
//
// M1. Whether it does is tried when a wire opens (try_reach): between two workers of this process, over the devices that the
//     wire uses, of which the target's then stands still. Over UCX's TCP, and over its shared memory where it has not
//     allocated the memory, it does not (UCX's software serves there, when the target polls); adapters with RDMA would.
// M2. Atomics are UCX's only where they are the CPU's own (UCX_ATOMIC_MODE=cpu): processes work on the same words by their CPU.
//     Each is tried, on words of 8 and 4 bytes, and has to be right: UCX 1.13 leaves the word as it was in a fetch-or over its
//     shared memory.
// M3. What UCX was given is its own, the local memory too, until it says that it is over: an operation is neither taken back nor
//     forgotten. break_off() of the wire makes all of a peer end soon.
// M4. Keys of peers, and the addresses that come with them, are believed like their UCX addresses: UCX parses them. Over its shared
//     memory UCX 1.13 crashes with the key of a process that has just died; whose connection is seen to be closed, his key is
//     not taken.
#pragma once

#include <cstddef>
#include <cstdint>

#include <ayatori/net/types.hpp>

namespace ayatori::net::ucx {

// What memory UCX reaches without its process. None: `moves` false.
struct Reach {
  bool moves = false;
  std::uint8_t atomics = 0;  // mask_of(AtomicOp)
};

constexpr std::uint8_t mask_of(AtomicOp op) noexcept {
  return static_cast<std::uint8_t>(1u << static_cast<unsigned>(op));
}

struct Reaches {
  Reach registered;  // memory of the program
  Reach allocated;   // by UCX itself (Wire::allocate)
};

// A key says where a peer finds memory. UCX reads as much as it says itself: kKeyRoomBytes are there, zeros behind it, and hold
// the longest that it can say.
inline constexpr std::size_t kKeyBytesMax = 512;
inline constexpr std::size_t kKeyRoomBytes = 20 * 1024;

struct MemoryOp {
  enum class Kind : std::uint8_t { kRead, kWrite, kAtomic };
  Kind kind = Kind::kRead;
  AtomicOp atomic = AtomicOp::kFetchAdd;
  std::uint8_t width_bytes = 8;
  std::byte* local = nullptr;  // not of an atomic
  std::uint64_t bytes = 0;     // not 0
  std::uint64_t remote = 0;    // address there
  void* key = nullptr;         // Wire::learn
  std::uint64_t operand = 0;
  std::uint64_t value = 0;  // of an atomic: what is expected; when it is over, what was there
  std::uint32_t slot = 0;   // the caller's
  std::uint64_t serial = 0;
  ProcessId process = 0;
  MemoryOp* next = nullptr;  // in a list of the caller's, then of those that are over

  // The wire's.
  int waits = 0;  // for so many reports of UCX
  bool failed = false;
  MemoryOp* next_flushed = nullptr;
  void* owner = nullptr;
};

}  // namespace ayatori::net::ucx
