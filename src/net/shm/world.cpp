// SPDX-License-Identifier: Apache-2.0
#include "net/shm/world.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <utility>

#include "base/check.hpp"
#include "base/futex.hpp"
#include "net/letters.hpp"
#include "net/process_set.hpp"

namespace ayatori::net::shm {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kMapAlign = 4096;
constexpr std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

void* map_anonymous(std::size_t bytes) noexcept {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// At one of ShmWorld's sparse addresses, or anywhere.
void* map_apart(int file, std::size_t bytes) noexcept {
#ifndef __SANITIZE_THREAD__  // which knows no memory there
  for (int i = 0; i < ShmWorld::kApartTries; ++i) {
    void* const wanted =
        reinterpret_cast<void*>(ShmWorld::kApartAt + static_cast<std::uint64_t>(i) * ShmWorld::kApartStep);
    void* const memory = ::mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0);
    if (memory == wanted) return memory;
    if (memory != MAP_FAILED) ::munmap(memory, bytes);  // a kernel that does not know the flag
  }
#endif
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
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

base::Status ShmWorld::begin(const ShmConfig& wanted, std::unique_ptr<ShmWorld>* result) {
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
  result->reset(new ShmWorld(config));
  (*result)->place(nullptr);
  return base::ok_status();
}

void ShmWorld::place(void* memory) noexcept {
  const auto processes = static_cast<std::size_t>(config_.processes);
  const std::size_t slots = processes * config_.rpcs_max;
  ring_stride_ = round_up(MpscRing::bytes_needed(config_.ring_units), kLine);
  long_reply_stride_ = round_up(config_.reply_bytes_max, kLine);
  const std::size_t members_at = alignof(Member);
  // W6
  const std::size_t rings_at = round_up(members_at + std::size_t{kMaxProcesses} * sizeof(Member), kMapAlign);
  const std::size_t replies_at = round_up(rings_at + processes * ring_stride_, kMapAlign);
  const std::size_t long_replies_at = round_up(replies_at + slots * sizeof(ReplySlot), kMapAlign);
  const std::size_t letters_at = round_up(long_replies_at + slots * long_reply_stride_, kMapAlign);
  memory_bytes_ = round_up(letters_at + Letters::bytes_needed(config_.processes), kMapAlign);
  memory_ = static_cast<std::byte*>(memory);
  if (memory_ == nullptr) return;
  epoch_ = reinterpret_cast<std::atomic<std::uint64_t>*>(memory_);
  members_ = reinterpret_cast<Member*>(memory_ + members_at);
  rings_ = memory_ + rings_at;
  // Zero pages are valid reply slots and letters: not touched before use.
  replies_ = reinterpret_cast<ReplySlot*>(memory_ + replies_at);
  long_replies_ = memory_ + long_replies_at;
  letters_ = memory_ + letters_at;
}

base::Status ShmWorld::fill() {
  new (epoch_) std::atomic<std::uint64_t>(0);
  for (std::size_t p = 0; p < static_cast<std::size_t>(config_.processes); ++p) {
    Member& member = *new (&members_[p]) Member{};
    served::Descriptor bell;
    if ((config_.members >> p & 1) == 0) {
      // relaxed: before the fork, or before it is handed over
      member.standing.store(static_cast<std::uint32_t>(Standing::kLeft), std::memory_order_relaxed);
    } else {
      MpscRing::format(rings_ + p * ring_stride_, config_.ring_units);
      if (config_.has_descriptors) bell = served::Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
      if (config_.has_descriptors && !bell)
        return base::system_status(errno, "a descriptor for each member's doorbell");
    }
    if (config_.has_descriptors) bells_.push_back(std::move(bell));
  }
  return base::ok_status();
}

base::Status ShmWorld::create(const ShmConfig& wanted, std::unique_ptr<ShmWorld>* result) {
  std::unique_ptr<ShmWorld> world;
  if (base::Status status = begin(wanted, &world); !status.ok()) return status;
  world->place(map_anonymous(world->memory_bytes_));
  if (world->memory_ == nullptr) return base::system_status(errno, "mapping the members' message rings");
  if (base::Status status = world->fill(); !status.ok()) return status;
  *result = std::move(world);
  return base::ok_status();
}

base::Status ShmWorld::create_apart(const ShmConfig& wanted, std::size_t shared_bytes,
                                    std::unique_ptr<ShmWorld>* result) {
  AYT_CHECK(wanted.has_descriptors);  // W7
  std::unique_ptr<ShmWorld> world;
  if (base::Status status = begin(wanted, &world); !status.ok()) return status;
  world->shared_bytes_ = round_up(shared_bytes, kMapAlign);
  const std::size_t bytes = world->memory_bytes_ + world->shared_bytes_;
  rlimit files{};  // beyond it the kernel sends a signal
  if (::getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < bytes)
    return base::error_status(base::Code::kUnavailable, "files may have {} bytes (ulimit -f), and it takes {}",
                              files.rlim_cur, bytes);
  world->file_ = served::Descriptor(::memfd_create("ayatori-world", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!world->file_ || ::ftruncate(world->file_.fd(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(world->file_.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return base::system_status(errno, "a memory file for the processes of this machine");
  void* const memory = map_apart(world->file_.fd(), bytes);
  if (memory == MAP_FAILED) return base::system_status(errno, "mapping the members' message rings");
  world->place(memory);
  if (base::Status status = world->fill(); !status.ok()) return status;
  *result = std::move(world);
  return base::ok_status();
}

base::Status ShmWorld::adopt(const ShmPlan& plan, std::vector<served::Descriptor> descriptors,
                             std::unique_ptr<ShmWorld>* result) {
  std::unique_ptr<ShmWorld> world;
  if (base::Status status = begin(plan.config, &world); !status.ok()) return status;
  world->shared_bytes_ = plan.shared_bytes;
  const std::size_t bytes = world->memory_bytes_ + world->shared_bytes_;
  const std::uint64_t here = plan.config.members & first_processes(plan.config.processes);
  struct stat file{};
  if (descriptors.size() != 1 + static_cast<std::size_t>(std::popcount(here)) ||
      ::fstat(descriptors.front().fd(), &file) != 0 || static_cast<std::size_t>(file.st_size) != bytes)
    return base::error_status(base::Code::kUnavailable, "what the others share has another size");
  void* const wanted = reinterpret_cast<void*>(plan.address);
  void* const memory =
      ::mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, descriptors.front().fd(), 0);
  if (memory == MAP_FAILED && errno != EEXIST) return base::system_status(errno, "mapping what the others share");
  if (memory != wanted) {
    if (memory != MAP_FAILED) ::munmap(memory, bytes);  // a kernel that does not know the flag
    return base::error_status(base::Code::kUnavailable,
                              "other memory of this process lies where the others share theirs");
  }
  world->place(memory);
  auto next = descriptors.begin();
  world->file_ = std::move(*next++);
  for (int p = 0; p < plan.config.processes; ++p)
    world->bells_.push_back((here >> p & 1) != 0 ? std::move(*next++) : served::Descriptor());
  *result = std::move(world);
  return base::ok_status();
}

std::vector<int> ShmWorld::descriptors() const {
  std::vector<int> all{file_.fd()};
  for (const served::Descriptor& bell : bells_)
    if (bell) all.push_back(bell.fd());
  return all;
}

void ShmWorld::keep_members(std::uint64_t members) noexcept {
  config_.members &= members;
  for (int p = 0; p < config_.processes; ++p)
    if ((config_.members >> p & 1) == 0)
      // relaxed: before the first attach, and all store the same
      member(p).standing.store(static_cast<std::uint32_t>(Standing::kLeft), std::memory_order_relaxed);
}

ShmWorld::~ShmWorld() {
  for (const Range& range : mapped_) munmap(const_cast<std::byte*>(range.base), range.bytes);
  if (memory_ != nullptr) munmap(memory_, memory_bytes_ + shared_bytes_);
}

void ShmWorld::share(void* base, std::size_t bytes) {
  AYT_CHECK(!frozen_.load(std::memory_order_relaxed), "memory shared after the first attach");  // W1, one thread
  ranges_.push_back({static_cast<const std::byte*>(base), bytes});
}

void* ShmWorld::map_shared(std::size_t bytes) {
  const std::size_t rounded = round_up(std::max<std::size_t>(bytes, 1), kMapAlign);
  if (file_) {  // W9
    if (rounded > shared_bytes_ - shared_used_) return nullptr;
    std::byte* const memory = memory_ + memory_bytes_ + std::exchange(shared_used_, shared_used_ + rounded);
    share(memory, rounded);
    return memory;
  }
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
