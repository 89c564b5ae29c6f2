// SPDX-License-Identifier: Apache-2.0
// The memory that the members of one machine share, made before they are forked from one image (so that pointers into it
// are equal everywhere and nothing has a name in /dev/shm), or handed from one process to the others (W9). Made on the
// start-up thread; afterwards each member calls ShmTransport (transport.hpp) with its number.
//
// W1. Everything shared is mapped before the first attach; the ranges list is constant from then on.
// W2. Registered memory lies in a shared range, or peers would read their private copies of it.
// W3. standing[p] moves once, from kMember to kLeft or kFailed; then `epoch` grows, then every doorbell rings.
// W4. Members may also be threads of one process (tests, sanitizers): nothing here assumes one member per process.
// W5. The bounds of words in a member's regions say at one look what else takes four: the region is there, has the right, is
//     aligned, its process stands. They are 0 wherever one of these fails, also before standing[p] moves. A word beyond them
//     is judged by the other fields.
// W6. There are parts of kMaxProcesses members; those of processes that the job has not are zero, and cost no memory.
// W7. Below another transport (net/served) a world has some of the job's processes only, under the job's numbers; the others
//     have left from the start. A member of such a kind is rung by a descriptor, on which it sleeps among others.
// W8. In such a world other memory than shared may be registered, too: neighbours read it through the kernel, if that lets them
//     (process_vm_readv(2)), and do nothing else with it.
// W9. Members that were started apart (net/meeting.hpp): one makes a world of kind W7 as a memory file, the others adopt it at
//     the same address or not at all. What map_shared() gives lies in it, too: all ask for the same in the same order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <ayatori/net/types.hpp>
#include "base/status.hpp"
#include "net/served/descriptor.hpp"
#include "net/shm/ring.hpp"

namespace ayatori::net::shm {

struct ShmConfig {
  int processes = 1;
  std::size_t ring_units = 512;               // of MpscRing::kUnitBytes, per process; a power of two, >= kUnitsMin
  std::size_t payload_bytes_max = 4096;       // of one message; is cut to what the ring can hold
  std::uint32_t rpcs_max = 128;               // under way per process, <= kRpcsLimit
  std::size_t nested_completions_max = 64;    // completions that one completion may cause before try_* says "no room"
  std::size_t reply_bytes_max = 0;            // of one answer; 0: payload_bytes_max
  std::uint64_t members = ~std::uint64_t{0};  // bit: process; not one: W7
  bool has_descriptors = false;               // W7 is possible
};

// What else a process has to know that adopts a world, beside its descriptors. Plain data.
struct ShmPlan {
  ShmConfig config;
  std::uint64_t shared_bytes = 0;  // for map_shared(), in all
  std::uint64_t address = 0;
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
};
static_assert(sizeof(WireHeader) == 24);
inline constexpr std::uint32_t kNoReply = ~std::uint32_t{0};
inline constexpr std::size_t kMessageBytesMax =
    255 * MpscRing::kUnitBytes - sizeof(WireHeader);  // a claim's most units

// Where the answer to one RPC is written, in the asker's part of the world: a line, so that a short answer is one.
struct alignas(64) ReplySlot {
  static constexpr std::size_t kSmallBytes = 48;

  std::atomic<std::uint64_t> done;  // serial of the last RPC that was answered here; grows
  std::uint32_t bytes;
  std::uint32_t padding;
  std::byte small[kSmallBytes];  // a longer answer lies elsewhere (reply_memory())
};
static_assert(sizeof(ReplySlot) == 64);

struct alignas(64) RegionEntry {
  std::atomic<std::uint32_t> rights;      // 0: not registered. release at registration pairs with acquire at use
  std::atomic<std::uint32_t> own_rights;  // of memory that is not shared (W8); likewise
  std::byte* base;
  std::size_t bytes;
  // For words of 8 bytes at offsets that are multiples of 8 (W5): offsets below may be read, written. release at registration
  // pairs with acquire at use.
  std::atomic<std::size_t> readable_words;
  std::atomic<std::size_t> writable_words;
};

// One process' part, in shared memory. Its size is a power of two: a shift finds it.
struct alignas(4096) Member {
  alignas(64) std::atomic<std::uint32_t> doorbell;  // futex; grows with each ring
  std::atomic<std::uint32_t> by_descriptor;         // instead (W7); before it attaches
  std::atomic<std::uint32_t> standing;              // Standing
  std::atomic<std::int32_t> pid;                    // 0: not attached yet
  std::atomic<std::uint64_t> collective_calls;      // valid when it left
  RegionEntry regions[kRegionsMax];
};
static_assert(sizeof(Member) == 8192);

class ShmWorld {
 public:
  static base::Status create(const ShmConfig& config, std::unique_ptr<ShmWorld>* world);
  // W9. The memory file, and each member's doorbell, are descriptors(). Mapped at one of a few addresses where processes have
  // nothing else, so that it is free in the others, too.
  static constexpr std::uint64_t kApartAt = 0x3000'0000'0000;
  static constexpr std::uint64_t kApartStep = 0x0100'0000'0000;
  static constexpr int kApartTries = 8;
  static base::Status create_apart(const ShmConfig& config, std::size_t shared_bytes, std::unique_ptr<ShmWorld>* world);
  // kUnavailable: other memory lies there in this process, or these are not the descriptors of such a world.
  static base::Status adopt(const ShmPlan& plan, std::vector<served::Descriptor> descriptors,
                            std::unique_ptr<ShmWorld>* world);
  ShmPlan plan() const noexcept { return {config_, shared_bytes_, reinterpret_cast<std::uintptr_t>(memory_)}; }
  std::vector<int> descriptors() const;
  // Before the first attach, in all members alike: the others have not come.
  void keep_members(std::uint64_t members) noexcept;
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
    return replies_[static_cast<std::size_t>(process) * config_.rpcs_max + slot];
  }
  // Where an answer of `bytes` lies.
  std::byte* reply_memory(ProcessId process, std::uint32_t slot, std::size_t bytes) const noexcept {
    if (bytes <= ReplySlot::kSmallBytes) return reply_slot(process, slot).small;
    return long_replies_ + (static_cast<std::size_t>(process) * config_.rpcs_max + slot) * long_reply_stride_;
  }
  void* letters() const noexcept { return letters_; }  // of all members
  void ring_doorbell(ProcessId process) noexcept;
  int doorbell_descriptor(ProcessId process) const noexcept { return bells_[static_cast<std::size_t>(process)].fd(); }
  bool mark_if_ended(ProcessId process) noexcept;  // whether it is failed
  // Marks failed whichever members after `self` in the circle have ended without a word, up to the first that lives: each
  // member watches its neighbour, so a look costs the same at any number of processes.
  void look_for_dead(ProcessId self) noexcept;

 private:
  struct Range {
    const std::byte* base;
    std::size_t bytes;
  };
  explicit ShmWorld(const ShmConfig& config) : config_(config) {}
  static base::Status begin(const ShmConfig& wanted, std::unique_ptr<ShmWorld>* world);
  void place(void* memory) noexcept;
  base::Status fill();
  void change_standing(ProcessId process, Standing standing) noexcept;
  void close_words(ProcessId process) noexcept;

  // Constant after create().
  ShmConfig config_;
  std::byte* memory_ = nullptr;
  std::size_t memory_bytes_ = 0;
  std::size_t shared_bytes_ = 0;  // W9: behind it
  served::Descriptor file_;       // W9
  std::atomic<std::uint64_t>* epoch_ = nullptr;
  Member* members_ = nullptr;
  std::byte* rings_ = nullptr;
  ReplySlot* replies_ = nullptr;
  std::byte* long_replies_ = nullptr;
  std::byte* letters_ = nullptr;
  std::size_t ring_stride_ = 0;
  std::size_t long_reply_stride_ = 0;

  // Constant after the first attach (W1).
  std::vector<Range> ranges_;
  std::vector<Range> mapped_;
  std::size_t shared_used_ = 0;
  std::vector<served::Descriptor> bells_;  // W7; by process, none of those that are not here
  std::atomic<bool> frozen_{false};
};

}  // namespace ayatori::net::shm
