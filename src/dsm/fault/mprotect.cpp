// SPDX-License-Identifier: Apache-2.0
// The mprotect engine: protection of the user view by mprotect(2), faults come as SIGSEGV. For kernels and containers
// without userfaultfd. Called by the coherence core under the process lock (engine.hpp), which guards all state here.
//
// M1. `access` holds one byte a page, equal to the page's protection; `edges` counts the places in the space where it
//     changes, which is what the kernel needs mappings for. Neighbours of one protection are one mapping.
// M2. Pages that this process owns are mapped writable by whole owner runs (arena, large block, stack slot without its
//     guard): the owner's accesses are not tracked, and a run is one mapping. Who loses a slot must zap all of it.
// M3. edges stays below a limit (half of vm.max_map_count): before a call would pass it, whole regions are made
//     inaccessible, in turn. A state of the core never implies a mapping (P5), so their pages only fault again.
// M4. ENOMEM (others use up the mappings) is answered by dropping all access; it is fatal when that does not help.
// M5. With one process the view stays accessible; slots get lightweight guards, else mprotect guards, a bounded number.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/check.hpp"
#include "base/format.hpp"
#include "dsm/fault/engines.hpp"

namespace ayatori::dsm::fault {
namespace {

enum Access : std::uint8_t { kNone = 0, kRead = 1, kWrite = 2 };
constexpr int kProtection[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
constexpr std::size_t kRegionPages = std::size_t{1} << 13;  // 32 MiB, the unit of M3
constexpr std::size_t kLeastEdges = 64;

struct MprotectState {
  // Constant after start_mprotect().
  std::size_t pages = 0;
  std::size_t regions = 0;
  bool light_guards = false;
  // Guarded by the process lock.
  std::uint8_t* access = nullptr;         // M1; sparse
  std::uint32_t* region_edges = nullptr;  // edges at the pages of each region
  std::size_t edges = 0;
  std::size_t edge_limit = 0;
  std::size_t hand = 0;  // the region that M3 looks at next
  std::size_t guard_pages = 0;
  // Counters of any thread.
  std::atomic<std::size_t> hard_guards{0};  // M5
};
constinit MprotectState state;

void* sparse_zeroes(std::size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

bool kernel_protect(std::size_t first, std::size_t pages, int protection) {
  return mprotect(pointer_to(static_cast<gas::PageIndex>(first)), bytes_of(pages), protection) == 0;
}

// Books [first, first + pages) as `to` (M1).
void book(std::size_t first, std::size_t pages, Access to) {
  std::uint8_t* access = state.access;
  const std::size_t end = first + pages;
  const auto count = [&](std::size_t p, std::size_t by) {
    if (p == 0 || p >= state.pages || access[p] == access[p - 1]) return;
    state.edges += by;
    state.region_edges[p / kRegionPages] += static_cast<std::uint32_t>(by);
  };
  constexpr auto kMinusOne = ~std::size_t{0};
  for (std::size_t p = first; p <= end; ++p) count(p, kMinusOne);
  std::memset(access + first, to, pages);
  count(first, 1);
  if (pages != 0) count(end, 1);
}

// M4: one call that needs no mapping but the one there is.
void drop_all() {
  AYT_CHECK(kernel_protect(0, state.pages, PROT_NONE), "cannot take access to the space away: {}",
            std::strerror(errno));
  madvise(state.access, state.pages, MADV_DONTNEED);  // private memory: reads as kNone
  std::memset(state.region_edges, 0, state.regions * sizeof *state.region_edges);
  state.edges = 0;
}

void drop_regions(std::size_t keep) {
  for (std::size_t i = 0; i < state.regions && state.edges > keep; ++i) {
    const std::size_t region = state.hand;
    state.hand = (state.hand + 1) % state.regions;
    if (state.region_edges[region] < 3) continue;  // one run: nothing to gain
    const std::size_t first = region * kRegionPages;
    const std::size_t pages = std::min(kRegionPages, state.pages - first);
    if (!kernel_protect(first, pages, PROT_NONE)) return drop_all();
    book(first, pages, kNone);
  }
  if (state.edges > keep) drop_all();
}

void protect(std::size_t first, std::size_t pages, Access to) {
  if (state.edges + 2 > state.edge_limit) drop_regions(state.edge_limit / 2);  // M3
  if (!kernel_protect(first, pages, kProtection[to])) {
    const int error = errno;
    drop_all();
    AYT_CHECK(
        error == ENOMEM && kernel_protect(first, pages, kProtection[to]),
        "cannot change the protection of {} pages of the space: {} (raise vm.max_map_count, or allow userfaultfd)",
        pages, std::strerror(error));
    state.edge_limit = std::max(kLeastEdges, state.edge_limit / 2);
  }
  book(first, pages, to);
}

// M2: the run to make accessible when this process owns `page`; {page, 0} when it does not.
struct Run {
  std::size_t first, pages;
};
Run own_run(gas::PageIndex page) {
  const gas::Layout& l = gas::layout();
  if (gas::owner_of(page) != l.self) return {page, 0};
  if (gas::is_stack(page)) {
    const std::size_t slot = gas::slot_first(gas::slot_of(page));
    if (page < slot + state.guard_pages) return {page, 0};
    const std::size_t guard = state.light_guards ? 0 : state.guard_pages;
    return {slot + guard, l.slot_pages - guard};
  }
  if (page >= l.arena_first && page < l.arena_end) {
    const std::size_t first = page - (page - l.arena_first) % l.arena_pages;
    return {first, l.arena_pages};
  }
  return {page, gas::owner_run(page)};  // forward only; runs found from other pages merge
}

// Calls each(first, pages, access) for the runs of equal access in the range.
template <class Each>
void for_runs(std::size_t first, std::size_t pages, Each&& each) {
  const std::size_t end = first + pages;
  while (first < end) {
    const std::uint8_t access = state.access[first];
    std::size_t stop = first + 1;
    while (stop < end && state.access[stop] == access) ++stop;
    each(first, stop - first, access);
    first = stop;
  }
}

bool map_own(gas::PageIndex first, std::size_t pages) {
  const Run run = own_run(first);
  if (run.pages == 0 || first + pages > run.first + run.pages) return false;
  if (state.access[first] != kWrite) {
    // The stack may have come from a process that alone has guarded it, in its own view.
    if (state.light_guards && gas::is_stack(first))
      light_guard(static_cast<gas::PageIndex>(run.first), state.guard_pages);
    protect(run.first, run.pages, kWrite);
  }
  for (std::size_t p = first; p < first + pages; ++p)
    if (state.access[p] != kWrite) return false;
  return true;
}

void map_read(gas::PageIndex first, std::size_t pages) {
  if (pages == 0 || map_own(first, pages)) return;
  // Runs are looked up one at a time: protect() may drop what came before (M3), which then only faults again.
  for_runs(first, pages, [](std::size_t at, std::size_t n, std::uint8_t access) {
    if (access == kNone) protect(at, n, kRead);
  });
}

void map_write(gas::PageIndex first, std::size_t pages) {
  if (pages == 0 || map_own(first, pages)) return;
  protect(first, pages, kWrite);
}

void zap(gas::PageIndex first, std::size_t pages) {
  bool any = false;
  for_runs(first, pages, [&](std::size_t, std::size_t, std::uint8_t access) { any = any || access != kNone; });
  if (any) protect(first, pages, kNone);
}

void guard(gas::PageIndex slot_first, std::size_t guard_pages, std::size_t) {
  state.guard_pages = guard_pages;  // equal for all slots
  if (state.light_guards) light_guard(slot_first, guard_pages);
}

bool pressure() noexcept { return state.edges > state.edge_limit / 4 * 3; }

void nothing(gas::PageIndex, std::size_t) {}
bool no_pressure() noexcept { return false; }
void guard_alone(gas::PageIndex slot_first, std::size_t guard_pages, std::size_t) {
  if (state.light_guards) {
    light_guard(slot_first, guard_pages);
    return;
  }
  // A guard is two mappings. Beyond the limit a stack has none; kernels of this century have userfaultfd or light guards.
  if (state.hard_guards.fetch_add(1, std::memory_order_relaxed) < state.edge_limit / 2)
    kernel_protect(slot_first, guard_pages, PROT_NONE);
}

constexpr Engine kShared{"mprotect", map_read, map_write, map_write, zap, guard, pressure};
constexpr Engine kAlone{"mprotect", nothing, nothing, nothing, nothing, guard_alone, no_pressure};

}  // namespace

const Engine* start_mprotect(int processes, std::string* refusal) {
  state.pages = gas::layout().pages;
  state.light_guards = light_guards_work();
  state.edge_limit = std::max(kLeastEdges, map_count_limit() / 2);
  if (processes == 1) return &kAlone;
  state.regions = (state.pages + kRegionPages - 1) / kRegionPages;
  state.access = static_cast<std::uint8_t*>(sparse_zeroes(state.pages));
  state.region_edges = static_cast<std::uint32_t*>(sparse_zeroes(state.regions * sizeof(std::uint32_t)));
  if (!state.access || !state.region_edges || !kernel_protect(0, state.pages, PROT_NONE)) {
    *refusal = fmt::format("mprotect of the space: {}", std::strerror(errno));
    return nullptr;
  }
  return &kShared;
}

}  // namespace ayatori::dsm::fault
