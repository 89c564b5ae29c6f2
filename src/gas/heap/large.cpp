// SPDX-License-Identifier: Apache-2.0
#include "gas/heap/large.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/shared_lock.hpp"

namespace ayatori::gas::heap {
namespace {

constexpr std::size_t kGranuleBytes = kGranulePages << kPageShift;

enum : std::uint32_t { kNone, kLive, kRetired };

// Of a granule of the large range; the first three of the segment's first granule.
struct LargeRow {
  std::atomic<std::uint32_t> state;
  std::uint32_t address_page;       // of the allocation; constant while live
  std::atomic<std::uint32_t> next;  // in the list of posted ones: granule + 1
  std::atomic<bool> used_before;    // S2
};

// Freed segments whose memory is kept for a while (S3).
constexpr std::size_t kKeptSegments = 16;
constexpr std::size_t kKeptGranules = 64;     // in all: 64 MiB
constexpr std::size_t kKeptGranulesOne = 32;  // longest

struct LargeShared {
  std::atomic<std::uint32_t> posted;  // granule + 1, 0: none
  base::SharedLock kept_lock;
  std::uint32_t kept_count;                  // Guarded by kept_lock.
  std::uint32_t kept_granules;               // Guarded by kept_lock: sum of their lengths.
  std::uint32_t kept[kKeptSegments];         // Guarded by kept_lock: first granules, the oldest first.
  std::uint32_t kept_length[kKeptSegments];  // Guarded by kept_lock.
};

struct LargeState {  // Constant after reserve_large().
  LargeRow* rows = nullptr;
  LargeShared* shared = nullptr;
  int processes = 1;
};
constinit LargeState large_state;
constexpr LargeState& large = large_state;

std::size_t granule_of(PageIndex page) noexcept { return (page - layout().large_first) / kGranulePages; }

// The row of the live allocation at `address`; null: there is none.
LargeRow* find_row(const void* address) noexcept {
  const Segment* const segment = find_segment(address);
  if (segment == nullptr || offset_of(address) % kPageBytes != 0) return nullptr;
  LargeRow& row = large.rows[granule_of(segment->first)];
  if (row.state.load(std::memory_order_relaxed) != kLive || row.address_page != page_of(address)) return nullptr;
  return &row;
}

std::byte* granule_address(std::size_t granule) noexcept {
  return user_view() + ((layout().large_first + granule * kGranulePages) << kPageShift);
}

void remove_kept(std::uint32_t i) noexcept {
  LargeShared& shared = *large.shared;
  shared.kept_granules -= shared.kept_length[i];
  --shared.kept_count;
  for (; i < shared.kept_count; ++i) {
    shared.kept[i] = shared.kept[i + 1];
    shared.kept_length[i] = shared.kept_length[i + 1];
  }
}

// A kept segment of `wanted` granules or a quarter more; null: none.
std::byte* take_kept(std::size_t wanted) noexcept {
  LargeShared& shared = *large.shared;
  const std::lock_guard guard(shared.kept_lock);
  for (std::uint32_t i = shared.kept_count; i-- > 0;) {
    const std::size_t granule = shared.kept[i], length = shared.kept_length[i];
    if (length < wanted || length > wanted + wanted / 4) continue;
    remove_kept(i);
    return granule_address(granule);
  }
  return nullptr;
}

// The oldest segments that have to go so that `length` granules more may be kept; returns how many.
std::size_t evict_kept(std::size_t length, std::uint32_t (&out)[kKeptSegments]) noexcept {
  LargeShared& shared = *large.shared;
  std::size_t count = 0;
  while (shared.kept_count > 0 &&
         (shared.kept_count == kKeptSegments || shared.kept_granules + length > kKeptGranules)) {
    out[count++] = shared.kept[0];
    remove_kept(0);
  }
  return count;
}

void release_segment(std::size_t granule) noexcept {
  large.rows[granule].state.store(kNone, std::memory_order_relaxed);  // ordered by the locks
  const std::size_t length = find_segment(granule_address(granule))->pages / kGranulePages;
  if (length > kKeptGranulesOne) return free_segment(granule_address(granule));
  LargeShared& shared = *large.shared;
  std::uint32_t evicted[kKeptSegments];
  std::size_t count;
  {
    const std::lock_guard guard(shared.kept_lock);
    count = evict_kept(length, evicted);
    shared.kept[shared.kept_count] = static_cast<std::uint32_t>(granule);
    shared.kept_length[shared.kept_count++] = static_cast<std::uint32_t>(length);
    shared.kept_granules += static_cast<std::uint32_t>(length);
  }
  for (std::size_t i = 0; i < count; ++i) free_segment(granule_address(evicted[i]));
}

// Returns whether there was one.
bool drop_kept() noexcept {
  std::uint32_t evicted[kKeptSegments];
  std::size_t count;
  {
    const std::lock_guard guard(large.shared->kept_lock);
    count = evict_kept(kKeptGranules + 1, evicted);
  }
  for (std::size_t i = 0; i < count; ++i) free_segment(granule_address(evicted[i]));
  return count > 0;
}

std::byte* new_segment(int process, std::size_t bytes) noexcept {
  return static_cast<std::byte*>(allocate_segment(bytes, Distribution::kPlaced, 0, process));
}

}  // namespace

void reserve_large(int processes) {
  const std::size_t granules = granule_of(layout().large_end);
  large.rows = static_cast<LargeRow*>(shared_map(sizeof(LargeRow) * granules, "the tables of the heap"));
  large.shared = static_cast<LargeShared*>(shared_map(sizeof(LargeShared), "the tables of the heap"));
  large.processes = processes;
}

void* take_large(int process, std::size_t bytes, std::size_t align, void (*forget)(PageIndex first, std::size_t pages),
                 bool& zero) noexcept {
  if (large_posted()) collect_large();
  const std::size_t extra = align > kGranuleBytes ? align : 0;  // segments are aligned to granules
  if (bytes > layout().bytes || extra > layout().bytes) return nullptr;
  std::byte* first = extra == 0 ? take_kept((bytes + kGranuleBytes - 1) / kGranuleBytes) : nullptr;
  const bool kept = first != nullptr;
  if (!kept) first = new_segment(process, bytes + extra);
  if (first == nullptr && drop_kept()) first = new_segment(process, bytes + extra);
  if (first == nullptr) return nullptr;
  const Segment& segment = *find_segment(first);
  const std::size_t granule = granule_of(segment.first);
  bool reused = false;
  for (std::size_t g = granule; g < granule + segment.pages / kGranulePages; ++g) {
    reused |= large.rows[g].used_before.load(std::memory_order_relaxed);  // ordered by the segment table's lock
    large.rows[g].used_before.store(true, std::memory_order_relaxed);
  }
  // What was freed reads as zero at its owners unless it was kept; this process may still have copies of it (S2).
  if (reused && large.processes > 1 && forget != nullptr) forget(segment.first, segment.pages);
  zero = !kept && (large.processes == 1 || !reused || forget != nullptr);
  const auto begin = reinterpret_cast<std::uintptr_t>(first);
  auto* const address = reinterpret_cast<std::byte*>((begin + (align - 1)) & ~(std::uintptr_t{align} - 1));
  LargeRow& row = large.rows[granule];
  row.address_page = page_of(address);
  row.state.store(kLive, std::memory_order_release);  // pairs with nothing but the program's own hand-over
  return address;
}

std::size_t large_bytes(const void* address) noexcept {
  if (find_row(address) == nullptr) return 0;
  const Segment& segment = *find_segment(address);
  return (std::size_t{segment.first + segment.pages} << kPageShift) - offset_of(address);
}

bool retire_large(void* address) noexcept {
  LargeRow* const row = find_row(address);
  std::uint32_t live = kLive;
  return row != nullptr && row->state.compare_exchange_strong(live, kRetired, std::memory_order_relaxed);
}

void post_large(void* address) noexcept {
  const std::size_t granule = granule_of(find_segment(address)->first);
  LargeRow& row = large.rows[granule];
  std::uint32_t top = large.shared->posted.load(std::memory_order_relaxed);
  do row.next.store(top, std::memory_order_relaxed);
  while (!large.shared->posted.compare_exchange_weak(top, static_cast<std::uint32_t>(granule) + 1,
                                                     std::memory_order_release, std::memory_order_relaxed));
}

bool large_posted() noexcept { return large.shared->posted.load(std::memory_order_relaxed) != 0; }

void collect_large() noexcept {
  // acquire: pairs with post_large
  std::uint32_t at = large.shared->posted.exchange(0, std::memory_order_acquire);
  while (at != 0) {
    const std::size_t granule = at - 1;
    at = large.rows[granule].next.load(std::memory_order_relaxed);  // before the segment is anybody else's
    release_segment(granule);
  }
}

}  // namespace ayatori::gas::heap
