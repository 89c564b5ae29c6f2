// SPDX-License-Identifier: Apache-2.0
#include "net/shm/world.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "base/check.hpp"
#include "base/futex.hpp"
#include "net/letters.hpp"

namespace ayatori::net::shm {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kMapAlign = 4096;
constexpr std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

void* map_anonymous(std::size_t bytes) noexcept {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Has the process ended (zombies included)? A descriptor per look, not per peer: 64 members must fit into 256 of them.
bool has_ended(pid_t pid) noexcept {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return errno == ESRCH;  // anything else: cannot tell, the launcher will
  pollfd look{fd, POLLIN, 0};
  const bool ended = poll(&look, 1, 0) == 1 && (look.revents & POLLIN) != 0;
  close(fd);
  return ended;
}

}  // namespace

base::Status ShmWorld::create(const ShmConfig& wanted, std::unique_ptr<ShmWorld>* result) {
  ShmConfig config = wanted;
  if (config.processes < 1 || config.processes > kMaxProcesses)
    return base::error_status(base::Code::kInvalid, "{} processes; 1 to {} are possible on one machine",
                              config.processes, kMaxProcesses);
  AYT_CHECK(config.ring_units >= MpscRing::kUnitsMin && (config.ring_units & (config.ring_units - 1)) == 0,
            "ring of {} units", config.ring_units);
  AYT_CHECK(config.rpcs_max >= 1 && config.rpcs_max <= kRpcsLimit, "{} RPCs", config.rpcs_max);
  AYT_CHECK(config.nested_completions_max >= 1);
  const std::size_t ring_bytes = config.ring_units * MpscRing::kUnitBytes - sizeof(WireHeader);
  if (config.reply_bytes_max == 0) config.reply_bytes_max = config.payload_bytes_max;
  config.payload_bytes_max = std::min({config.payload_bytes_max, ring_bytes, kMessageBytesMax});

  std::unique_ptr<ShmWorld> world(new ShmWorld(config));
  const auto processes = static_cast<std::size_t>(config.processes);
  world->ring_stride_ = round_up(MpscRing::bytes_needed(config.ring_units), kLine);
  world->long_reply_stride_ = round_up(config.reply_bytes_max, kLine);
  const std::size_t members_at = alignof(Member);
  // W6
  const std::size_t rings_at = round_up(members_at + std::size_t{kMaxProcesses} * sizeof(Member), kMapAlign);
  const std::size_t replies_at = round_up(rings_at + processes * world->ring_stride_, kMapAlign);
  const std::size_t slots = processes * config.rpcs_max;
  const std::size_t long_replies_at = round_up(replies_at + slots * sizeof(ReplySlot), kMapAlign);
  const std::size_t letters_at = round_up(long_replies_at + slots * world->long_reply_stride_, kMapAlign);
  world->memory_bytes_ = round_up(letters_at + Letters::bytes_needed(config.processes), kMapAlign);
  world->memory_ = static_cast<std::byte*>(map_anonymous(world->memory_bytes_));
  if (world->memory_ == nullptr) return base::system_status(errno, "mapping the members' message rings");
  world->epoch_ = new (world->memory_) std::atomic<std::uint64_t>(0);
  world->members_ = reinterpret_cast<Member*>(world->memory_ + members_at);
  world->rings_ = world->memory_ + rings_at;
  // Zero pages are valid reply slots and letters: not touched before use.
  world->replies_ = reinterpret_cast<ReplySlot*>(world->memory_ + replies_at);
  world->long_replies_ = world->memory_ + long_replies_at;
  world->letters_ = world->memory_ + letters_at;
  for (std::size_t p = 0; p < processes; ++p) {
    Member& member = *new (&world->members_[p]) Member{};
    served::Descriptor bell;
    if ((config.members >> p & 1) == 0) {
      member.standing.store(static_cast<std::uint32_t>(Standing::kLeft), std::memory_order_relaxed);  // before the fork
    } else {
      MpscRing::format(world->rings_ + p * world->ring_stride_, config.ring_units);
      if (config.has_descriptors) bell = served::Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
      if (config.has_descriptors && !bell) return base::system_status(errno, "a descriptor for each member's doorbell");
    }
    if (config.has_descriptors) world->bells_.push_back(std::move(bell));
  }
  *result = std::move(world);
  return base::ok_status();
}

ShmWorld::~ShmWorld() {
  for (const Range& range : mapped_) munmap(const_cast<std::byte*>(range.base), range.bytes);
  if (memory_ != nullptr) munmap(memory_, memory_bytes_);
}

void ShmWorld::share(void* base, std::size_t bytes) {
  AYT_CHECK(!frozen_.load(std::memory_order_relaxed), "memory shared after the first attach");  // W1, one thread
  ranges_.push_back({static_cast<const std::byte*>(base), bytes});
}

void* ShmWorld::map_shared(std::size_t bytes) {
  const std::size_t rounded = round_up(std::max<std::size_t>(bytes, 1), kMapAlign);
  void* memory = map_anonymous(rounded);
  if (memory == nullptr) return nullptr;
  share(memory, rounded);
  mapped_.push_back({static_cast<const std::byte*>(memory), rounded});
  return memory;
}

bool ShmWorld::is_shared(const void* base, std::size_t bytes) const noexcept {
  if (config_.processes == 1) return true;
  const auto first = reinterpret_cast<std::uintptr_t>(base);
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    const auto start = reinterpret_cast<std::uintptr_t>(range.base);
    return first >= start && first - start <= range.bytes && bytes <= range.bytes - (first - start);
  });
}

void ShmWorld::freeze(ProcessId attaching) {
  frozen_.store(true, std::memory_order_relaxed);  // for the check in share() only
  const int before = member(attaching).pid.exchange(getpid(), std::memory_order_acq_rel);  // pairs with look_for_dead
  AYT_CHECK(before == 0, "process {} attaches twice", attaching);
}

void ShmWorld::ring_doorbell(ProcessId process) noexcept {
  // relaxed: who does not see it yet rings a member that has not slept yet
  if (member(process).by_descriptor.load(std::memory_order_relaxed) != 0) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(doorbell_descriptor(process), &one, sizeof one);
    return;
  }
  std::atomic<std::uint32_t>& doorbell = member(process).doorbell;
  doorbell.fetch_add(1, std::memory_order_seq_cst);  // pairs with the load before a sleep
  base::futex_wake(doorbell, base::kAllWaiters);
}

void ShmWorld::mark_left(ProcessId process, std::uint64_t collective_calls) noexcept {
  member(process).collective_calls.store(collective_calls, std::memory_order_relaxed);  // released by standing
  change_standing(process, Standing::kLeft);
}

void ShmWorld::close_words(ProcessId process) noexcept {
  for (RegionEntry& entry : member(process).regions) {
    // seq_cst: pairs with register_memory(), which opens them and then looks at the standing
    entry.readable_words.store(0, std::memory_order_seq_cst);
    entry.writable_words.store(0, std::memory_order_seq_cst);
  }
}

void ShmWorld::change_standing(ProcessId process, Standing standing) noexcept {
  close_words(process);  // W5
  auto expected = static_cast<std::uint32_t>(Standing::kMember);
  // W3. release: what the process did before it left; seq_cst: pairs with standing()
  if (!member(process).standing.compare_exchange_strong(expected, static_cast<std::uint32_t>(standing),
                                                        std::memory_order_seq_cst))
    return;
  close_words(process);                             // what it registered meanwhile
  epoch_->fetch_add(1, std::memory_order_seq_cst);  // pairs with epoch() and with the look before a sleep
  for (int p = 0; p < config_.processes; ++p) ring_doorbell(p);
}

bool ShmWorld::mark_if_ended(ProcessId process) noexcept {
  const pid_t pid = member(process).pid.load(std::memory_order_acquire);  // pairs with freeze()
  if (standing(process) == Standing::kMember && pid != 0 && pid != getpid() && has_ended(pid)) mark_failed(process);
  return standing(process) == Standing::kFailed;
}

void ShmWorld::look_for_dead(ProcessId self) noexcept {
  const pid_t own = getpid();
  for (int i = 1; i < config_.processes; ++i) {
    const int p = (self + i) % config_.processes;
    if (standing(p) != Standing::kMember) continue;
    const pid_t pid = member(p).pid.load(std::memory_order_acquire);  // pairs with freeze()
    if (pid == 0) continue;
    if (pid == own || !has_ended(pid)) return;
    mark_failed(p);  // no effect when it left in between
  }
}

}  // namespace ayatori::net::shm
