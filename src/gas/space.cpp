// SPDX-License-Identifier: Apache-2.0
// Mapping of the space and the owner look-ups. Invariants: space.hpp.
#include "gas/space.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ayatori::gas {

namespace detail {
constinit Layout layout;
constinit Tables tables;
}  // namespace detail

namespace {

constexpr Layout& lay = detail::layout;
constexpr std::size_t kCoreBytes = 1 << 20;  // larger tables are in no core file, but for what in_core() names
using detail::tables;

// Guards allocation in the large range. Lies in shared memory.
struct LargeState {
  base::SharedLock lock;
  std::uint32_t next_granule = 0;   // Guarded by lock: where the search for a placed segment starts.
  std::uint32_t next_unplaced = 0;  // Guarded by lock: granules of other segments handed out so far.
  std::uint32_t segments_used = 0;
  std::uint32_t free_segment = 0;  // Guarded by lock: number + 1 of the first free table row; linked through `first`.
};
constinit LargeState* large_state = nullptr;
constinit int view_fds[kMaxProcesses] = {};
constinit LargeHooks large_hooks;

[[noreturn]] void refuse(const char* what, std::size_t bytes) {
  const bool descriptors = errno == EMFILE || errno == ENFILE;
  std::fprintf(stderr, "ayatori: cannot map %zu bytes for %s: %s; %s\n", bytes, what, std::strerror(errno),
               descriptors ? "raise the limit on open files (ulimit -n)"
                           : "lower AYATORI_SPACE_SIZE or raise the limit on address space (ulimit -v)");
  std::_Exit(125);
}

std::size_t granules() { return (lay.large_end - lay.large_first) / kGranulePages; }

PageIndex round_down(std::size_t pages) { return static_cast<PageIndex>(pages - pages % kGranulePages); }

}  // namespace

constinit bool detail::is_apart = false;
void set_apart() noexcept { detail::is_apart = true; }
void set_large_hooks(const LargeHooks& hooks) noexcept { large_hooks = hooks; }

namespace {
bool dealt_out(PageIndex page) noexcept {
  return page >= lay.large_first && page < lay.placed_end && lay.place_pages == 0;
}
void note_owner(PageIndex page, int owner) noexcept {
  tables.granule_owner[(page - lay.large_first) / kGranulePages].store(static_cast<std::uint8_t>(owner + 1),
                                                                       std::memory_order_relaxed);  // for ever (G4)
}
}  // namespace

bool learn_owner(PageIndex page) {
  if (!dealt_out(page) || large_hooks.owner == nullptr) return false;
  const int owner = large_hooks.owner(page);
  if (owner != kNobody) note_owner(page, owner);
  return owner != kNobody;
}
bool learn_own(PageIndex page) noexcept {
  if (static_owner(page) == kNobody && dealt_out(page)) note_owner(page, lay.self);
  return static_owner(page) == lay.self;
}

void* shared_map(std::size_t bytes, const char* what) {
  const int flags = MAP_ANONYMOUS | MAP_NORESERVE | (apart() ? MAP_PRIVATE : MAP_SHARED);
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (p == MAP_FAILED) refuse(what, bytes);
  if (bytes > kCoreBytes) madvise(p, bytes, MADV_DONTDUMP);
  return p;
}

void in_core(const void* first_byte, std::size_t bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(first_byte) & ~(kPageBytes - 1);
  const auto end = (reinterpret_cast<std::uintptr_t>(first_byte) + bytes + kPageBytes - 1) & ~(kPageBytes - 1);
  madvise(reinterpret_cast<void*>(first), end - first, MADV_DODUMP);  // NOLINT: a hint, whether it works or not
}

namespace {
void make_view(int process) {
  const Layout& l = lay;
  const int fd = memfd_create("ayatori-space", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(l.bytes)) != 0) refuse("the memory of a process", l.bytes);
  void* view = mmap(nullptr, l.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (view == MAP_FAILED) refuse("the system view of a process", l.bytes);
  madvise(view, l.bytes, MADV_DONTDUMP);
  tables.system_view[process] = static_cast<std::byte*>(view);
  view_fds[process] = fd;
}
}  // namespace

void reserve(int processes, const Sizes& sizes) {
  tables = {};
  lay = {};
  Layout& l = lay;
  l.base = sizes.base;
  l.bytes = sizes.space_bytes;
  l.pages = sizes.space_bytes >> kPageShift;
  l.processes = processes;
  l.slot_pages = sizes.stack_bytes >> kPageShift;
  const auto n = static_cast<SlotIndex>(processes);
  l.slots_per_process = static_cast<SlotIndex>(l.pages / 2 / l.slot_pages / n);
  l.slots = l.slots_per_process * n;
  l.stack_end = static_cast<PageIndex>(l.slots * l.slot_pages);
  l.globals_first = round_down(l.pages / 2);
  const std::size_t globals_pages = std::min<std::size_t>(l.pages / 64, (std::size_t{1} << 30) >> kPageShift);
  l.globals_end = round_down(l.globals_first + std::max<std::size_t>(globals_pages, kGranulePages));
  l.arena_first = l.globals_end;
  l.arena_pages = round_down(l.pages / 4 / n);
  l.arena_end = static_cast<PageIndex>(l.arena_first + l.arena_pages * n);
  l.large_first = l.arena_end;
  l.large_end = round_down(l.pages);
  l.placed_end = static_cast<PageIndex>(l.large_first + round_down((l.large_end - l.large_first) / 4 * 3));
  l.place_pages = sizes.place_bytes == 0 ? 0 : std::max<std::size_t>(1, sizes.place_bytes >> kPageShift);
  if (l.slots_per_process < 4 || l.arena_pages == 0 || l.large_first >= l.large_end) {
    std::fprintf(stderr, "ayatori: AYATORI_SPACE_SIZE of %zu bytes is too small for %d processes\n", l.bytes,
                 processes);
    std::_Exit(125);
  }

  for (int p = 0; p < processes && !apart(); ++p) make_view(p);
  tables.slots = static_cast<SlotEntry*>(shared_map(sizeof(SlotEntry) * l.slots, "the slot directory"));
  tables.granule_segment =
      static_cast<std::atomic<std::uint32_t>*>(shared_map(sizeof(std::uint32_t) * granules(), "the segment table"));
  tables.granule_owner =
      static_cast<std::atomic<std::uint8_t>*>(shared_map(granules(), "the owners of large allocations"));
  tables.segments = static_cast<Segment*>(shared_map(sizeof(Segment) * granules(), "the segment table"));
  large_state = static_cast<LargeState*>(shared_map(sizeof(LargeState), "the segment table"));
  // Slot s belongs to process s / slots_per_process at first (G5). Only rows other than 0's need writing; they are
  // written when the slot is first taken (tasks), so that start-up does not grow with the space.
}

void attach(int self) {
  lay.self = self;
  if (apart()) {
    make_view(self);
    // Who holds a slot at first is known to all (G5).
    for (SlotIndex slot = lay.slots_per_process; slot < lay.slots; ++slot)
      tables.slots[slot].owner.store(slot / lay.slots_per_process, std::memory_order_relaxed);
  }
  void* want = reinterpret_cast<void*>(lay.base);
  void* got = mmap(want, lay.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
                   view_fds[self], 0);
  if (got != want) {
    if (got != MAP_FAILED) errno = EEXIST;
    std::fprintf(stderr, "ayatori: process %d cannot map the space (%zu bytes) at %p: %s; set AYATORI_SPACE_BASE\n",
                 self, lay.bytes, want, std::strerror(errno));
    std::_Exit(125);
  }
  madvise(got, lay.bytes, MADV_DONTDUMP);  // in_core()
  for (int p = 0; p < lay.processes && !apart(); ++p)
    if (p != self) close(view_fds[p]);
  tables.user_fd = view_fds[self];  // a forked child of the program maps it privately (dsm/fault/process.cpp)
}

int static_owner(PageIndex page) noexcept {
  const Layout& l = lay;
  if (page < l.arena_first) return 0;  // globals
  if (page < l.arena_end) return static_cast<int>((page - l.arena_first) / l.arena_pages);
  const auto n = static_cast<std::uint32_t>(l.processes);
  if (page < l.placed_end) {  // by address (G4)
    if (l.place_pages != 0) return static_cast<int>((page - l.large_first) / l.place_pages % n);
    // relaxed: whoever has an address there got it from the allocation
    return tables.granule_owner[(page - l.large_first) / kGranulePages].load(std::memory_order_relaxed) - 1;
  }
  if (page >= l.large_end) return kNobody;
  const std::uint32_t number =
      tables.granule_segment[(page - l.large_first) / kGranulePages].load(std::memory_order_acquire);
  if (number == 0) return kNobody;
  const Segment& s = tables.segments[number - 1];
  if (s.distribution == Distribution::kOnProcess) return static_cast<int>(s.process);
  return static_cast<int>(((page - s.first) / s.block_pages + s.process) % n);
}

std::size_t owner_run(PageIndex page) noexcept {
  const Layout& l = lay;
  if (page < l.globals_first) return l.slot_pages - page % l.slot_pages;
  if (page < l.globals_end) return l.globals_end - page;
  if (page < l.arena_end) return l.arena_pages - (page - l.arena_first) % l.arena_pages;
  if (page < l.placed_end && l.place_pages == 0) return kGranulePages - (page - l.large_first) % kGranulePages;
  if (page < l.placed_end)
    return std::min<std::size_t>(l.placed_end - page, l.place_pages - (page - l.large_first) % l.place_pages);
  if (page >= l.large_end) return 1;
  const std::uint32_t number =
      tables.granule_segment[(page - l.large_first) / kGranulePages].load(std::memory_order_acquire);
  if (number == 0) return 1;
  const Segment& s = tables.segments[number - 1];
  const std::size_t left = s.first + s.pages - page;
  if (s.distribution == Distribution::kOnProcess) return left;
  return std::min<std::size_t>(left, s.block_pages - (page - s.first) % s.block_pages);
}

namespace {

// The process that should own granule i of a placed segment of `count` granules: blocks of equal length, or, where there
// are fewer granules than processes, one after the other from `first` on.
int wanted_owner(std::size_t i, std::size_t count, int first) {
  const auto n = static_cast<std::size_t>(lay.processes);
  if (count < n) return static_cast<int>((static_cast<std::size_t>(first) + i) % n);
  return static_cast<int>(i * n / count);
}

// Where `want` free granules of the placed range lie in [from, end), or `end`. `exact`: only where each granule has the
// owner that it should have, or none yet. Under the large range's lock, which also orders what it reads.
std::size_t find_placed(std::size_t from, std::size_t end, std::size_t want, bool exact, int first_owner) {
  constexpr int kTries = 4096;  // places that are free and differ in their owners
  int tries = 0;
  for (std::size_t start = from; start + want <= end;) {
    std::size_t g = start;
    while (g < start + want && tables.granule_segment[g].load(std::memory_order_relaxed) == 0) ++g;
    if (g < start + want) {
      start = g + 1;
      continue;
    }
    if (!exact) return start;
    for (g = start; g < start + want; ++g) {
      const int owner = tables.granule_owner[g].load(std::memory_order_relaxed);
      if (owner != 0 && owner - 1 != wanted_owner(g - start, want, first_owner)) break;
    }
    if (g == start + want) return start;
    if (++tries == kTries) return end;
    ++start;
  }
  return end;
}

}  // namespace

void* allocate_segment(std::size_t bytes, Distribution distribution, std::size_t block_bytes, int process) noexcept {
  const bool placed = distribution == Distribution::kPlaced;
  const std::size_t pages = (bytes + kPageBytes - 1) >> kPageShift;
  const std::size_t want = (pages + kGranulePages - 1) / kGranulePages;
  const std::size_t placed_granules = (lay.placed_end - lay.large_first) / kGranulePages;
  if (bytes == 0 || want > granules()) return nullptr;
  LargeState& state = *large_state;
  state.lock.lock();
  std::size_t found = granules();
  if (placed) {
    // Next fit: from where the last search ended, from the start; then whoever owns what is free.
    const bool exact = lay.place_pages == 0;
    found = find_placed(state.next_granule, placed_granules, want, exact, process);
    if (found == placed_granules) found = find_placed(0, placed_granules, want, exact, process);
    if (found == placed_granules && exact) found = find_placed(0, placed_granules, want, false, process);
    if (found == placed_granules) {
      found = granules();
    } else {
      state.next_granule = static_cast<std::uint32_t>(found + want);
      for (std::size_t g = found; exact && g < found + want; ++g) {
        if (tables.granule_owner[g].load(std::memory_order_relaxed) == 0)
          tables.granule_owner[g].store(static_cast<std::uint8_t>(wanted_owner(g - found, want, process) + 1),
                                        std::memory_order_relaxed);
      }
    }
  } else if (placed_granules + state.next_unplaced + want <= granules()) {
    found = placed_granules + state.next_unplaced;
    state.next_unplaced += static_cast<std::uint32_t>(want);
  }
  if (found == granules()) {
    state.lock.unlock();
    return nullptr;
  }
  std::uint32_t number = state.free_segment;
  if (number != 0)
    state.free_segment = tables.segments[number - 1].first;
  else
    number = ++state.segments_used;
  Segment& s = tables.segments[number - 1];
  s.first = static_cast<PageIndex>(lay.large_first + found * kGranulePages);
  s.pages = static_cast<std::uint32_t>(want * kGranulePages);
  s.distribution = distribution;
  s.process = static_cast<std::uint32_t>(process);
  const auto n = static_cast<std::size_t>(lay.processes);
  std::size_t block = std::max<std::size_t>(1, (block_bytes + kPageBytes - 1) >> kPageShift);
  if (placed) block = lay.place_pages != 0 ? lay.place_pages : kGranulePages;
  if (distribution == Distribution::kBlock) block = (pages + n - 1) / n;
  if (distribution == Distribution::kCyclic) block = 1;
  s.block_pages = static_cast<std::uint32_t>(block);
  for (std::size_t g = found; g < found + want; ++g)
    tables.granule_segment[g].store(number, std::memory_order_release);  // pairs with the look-ups' acquire
  state.lock.unlock();
  return user_view() + (std::size_t{s.first} << kPageShift);
}

const Segment* find_segment(const void* address) noexcept {
  if (!contains(address)) return nullptr;
  const PageIndex page = page_of(address);
  if (page < lay.large_first || page >= lay.large_end) return nullptr;
  const std::uint32_t number =
      tables.granule_segment[(page - lay.large_first) / kGranulePages].load(std::memory_order_acquire);
  return number == 0 ? nullptr : &tables.segments[number - 1];
}

void free_segment(void* first_byte) noexcept {
  const Segment* found = find_segment(first_byte);
  if (!found) return;
  const Segment s = *found;
  for (std::size_t at = 0; at < s.pages;) {
    const auto page = static_cast<PageIndex>(s.first + at);
    const std::size_t run = std::min<std::size_t>(owner_run(page), s.pages - at);
    punch(static_owner(page), page, run);
    at += run;
  }
  if (s.distribution != Distribution::kPlaced) return;  // its addresses keep their owners (G4)
  LargeState& state = *large_state;
  state.lock.lock();
  const auto number = static_cast<std::uint32_t>(found - tables.segments) + 1;
  const std::size_t g0 = (s.first - lay.large_first) / kGranulePages;
  for (std::size_t g = g0; g < g0 + s.pages / kGranulePages; ++g)
    tables.granule_segment[g].store(0, std::memory_order_release);
  tables.segments[number - 1].first = state.free_segment;
  state.free_segment = number;
  state.lock.unlock();
}

void punch(int process, PageIndex first, std::size_t pages) noexcept {
  if (apart() && process != lay.self) return large_hooks.punch(process, first, pages);
  madvise(page_in(process, first), pages << kPageShift, MADV_REMOVE);
}

void populate(int process, PageIndex first, std::size_t pages) noexcept {
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;  // newer than the headers of some systems
#endif
  madvise(page_in(process, first), pages << kPageShift, MADV_POPULATE_WRITE);
}

}  // namespace ayatori::gas
