// SPDX-License-Identifier: Apache-2.0
// The memory that the members of one machine share, made before they are forked from one image (so that pointers into it
// are equal everywhere and nothing has a name in /dev/shm). Made on the start-up thread of the first image; afterwards
// each member calls ShmTransport (transport.hpp) with its number.
//
// W1. Everything shared is mapped before the first attach; the ranges list is constant from then on.
// W2. Registered memory lies in a shared range, or peers would read their private copies of it.
// W3. standing[p] moves once, from kMember to kLeft or kFailed; then `epoch` grows, then every doorbell rings.
// W4. Members may also be threads of one process (tests, sanitizers): nothing here assumes one member per process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <ayatori/net/types.hpp>
#include "base/status.hpp"
#include "net/shm/ring.hpp"

namespace ayatori::net::shm {

struct ShmConfig {
  int processes = 1;
  std::size_t ring_units = 512;             // of MpscRing::kUnitBytes, per process; a power of two, >= kUnitsMin
  std::size_t payload_bytes_max = 4096;     // of one message; is cut to what the ring can hold
  std::uint32_t rpcs_max = 128;             // under way per process, <= kRpcsLimit
  std::size_t nested_completions_max = 64;  // completions that one completion may cause before try_* says "no room"
};

inline constexpr std::uint32_t kRpcsLimit = 1024;
inline constexpr std::size_t kRegionsMax = 64;

enum class Standing : std::uint32_t { kMember, kLeft, kFailed };

// What lies in front of a message's payload in the ring.
struct WireHeader {
  std::uint16_t handler;
  std::uint16_t source;
  std::uint32_t bytes;
  std::uint32_t reply_slot;  // kNoReply: one-way
  std::uint32_t padding;
  std::uint64_t serial;
  std::uint64_t padding2;
};
static_assert(sizeof(WireHeader) == 32);
inline constexpr std::uint32_t kNoReply = ~std::uint32_t{0};

// Where the answer to one RPC is written, in the asker's part of the world.
struct alignas(64) ReplySlot {
  std::atomic<std::uint64_t> serial;  // of the RPC that waits here; the answer must carry it
  std::uint32_t bytes;
  std::uint32_t padding;
  // payload_bytes_max bytes follow
  std::byte* payload() noexcept { return reinterpret_cast<std::byte*>(this) + sizeof(ReplySlot); }
};

struct alignas(32) RegionEntry {
  std::atomic<std::uint32_t> rights;  // 0: not registered. release at registration pairs with acquire at use
  std::uint32_t padding;
  std::byte* base;
  std::size_t bytes;
  std::size_t word_offsets;  // a word of 8 bytes at an offset below this lies inside
};

// One process' part, in shared memory. Its size is a power of two: a shift finds it.
struct alignas(4096) Member {
  alignas(64) std::atomic<std::uint32_t> doorbell;                   // futex; grows with each ring
  std::atomic<std::uint32_t> standing;                               // Standing
  std::atomic<std::int32_t> pid;                                     // 0: not attached yet
  std::atomic<std::uint64_t> collective_calls;                       // valid when it left
  alignas(64) std::atomic<std::uint64_t> answered[kRpcsLimit / 64];  // bit: reply slot filled
  RegionEntry regions[kRegionsMax];
};
static_assert(sizeof(Member) == 4096);

class ShmWorld {
 public:
  static base::Status create(const ShmConfig& config, std::unique_ptr<ShmWorld>* world);
  ~ShmWorld();
  ShmWorld(const ShmWorld&) = delete;
  ShmWorld& operator=(const ShmWorld&) = delete;

  // Declares memory that is mapped MAP_SHARED at one address in all members (W2). Before the first attach.
  void share(void* base, std::size_t bytes);
  // Maps zeroed, lazily backed memory and shares it; nullptr when the machine refuses. Before the first attach.
  void* map_shared(std::size_t bytes);

  // Says that a member is gone; by the launcher, or by a member that noticed. Its process runs no more (or never again
  // touches this world). Idempotent, any process, any thread; async-signal-safe.
  void mark_failed(ProcessId process) noexcept { change_standing(process, Standing::kFailed); }
  void mark_left(ProcessId process, std::uint64_t collective_calls) noexcept;

  const ShmConfig& config() const noexcept { return config_; }
  Standing standing(ProcessId process) const noexcept {
    // seq_cst: after an RPC's Pending was published (transport.cpp); pairs with W3
    return static_cast<Standing>(member(process).standing.load(std::memory_order_seq_cst));
  }
  std::uint64_t epoch() const noexcept { return epoch_->load(std::memory_order_acquire); }  // pairs with W3
  bool is_shared(const void* base, std::size_t bytes) const noexcept;

  // For ShmTransport.
  void freeze(ProcessId attaching);
  Member& member(ProcessId process) const noexcept { return members_[process]; }
  MpscRing ring(ProcessId process) const noexcept {
    return {rings_ + static_cast<std::size_t>(process) * ring_stride_, config_.ring_units};
  }
  ReplySlot& reply_slot(ProcessId process, std::uint32_t slot) const noexcept {
    return *reinterpret_cast<ReplySlot*>(replies_ +
                                         (static_cast<std::size_t>(process) * config_.rpcs_max + slot) * reply_stride_);
  }
  void ring_doorbell(ProcessId process) noexcept;
  // Marks failed whichever members after `self` in the circle have ended without a word, up to the first that lives: each
  // member watches its neighbour, so a look costs the same at any number of processes.
  void look_for_dead(ProcessId self) noexcept;

 private:
  struct Range {
    const std::byte* base;
    std::size_t bytes;
  };
  explicit ShmWorld(const ShmConfig& config) : config_(config) {}
  void change_standing(ProcessId process, Standing standing) noexcept;

  // Constant after create().
  ShmConfig config_;
  std::byte* memory_ = nullptr;
  std::size_t memory_bytes_ = 0;
  std::atomic<std::uint64_t>* epoch_ = nullptr;
  Member* members_ = nullptr;
  std::byte* rings_ = nullptr;
  std::byte* replies_ = nullptr;
  std::size_t ring_stride_ = 0;
  std::size_t reply_stride_ = 0;

  // Constant after the first attach (W1).
  std::vector<Range> ranges_;
  std::vector<Range> mapped_;
  std::atomic<bool> frozen_{false};
};

}  // namespace ayatori::net::shm
