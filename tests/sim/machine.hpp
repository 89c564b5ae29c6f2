// SPDX-License-Identifier: Apache-2.0
// The simulated machine: a page array and a permission map per process, locks, mappings. It is the Env that the
// protocol templates of src/dsm/coherence.hpp and src/tasks/protocol.hpp run on.
//
// Who uses it: the protocol code and the simulated runtime, on fibers of one OS thread.
// M1. A user access is one atomic step: the permission check and the load or store of one aligned word cannot be
//     parted, as behind a processor's TLB. Before the check anything may happen.
// M2. Process locks are taken in rank order, a slot lock last, at most one (P7 of the design); anything else fails.
// M3. Checked when a process's lock is let go: its tables (Coherence::broken); what it may write it owns, has dirty, or
//     lost since its last acquire; what it may read it owns, has an entry for, or lost.
// M4. Under its lock a process zaps, maps and discards only its own pages, on behalf of its own workers: no process
//     changes another one's mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "dsm/coherence.hpp"
#include "scheduler.hpp"
#include "tasks/protocol.hpp"

namespace ayatori::sim {

using dsm::Bug;
using dsm::PageIndex;
using dsm::SlotIndex;

inline constexpr int kMaxProcesses = 5;
inline constexpr std::size_t kMaxSlots = 40, kSlotPages = 16, kMaxHeapPages = 12;
inline constexpr std::size_t kGuardPages = 1;
inline constexpr std::size_t kMaxPages = kMaxSlots * kSlotPages + kMaxHeapPages;
inline constexpr std::uint64_t kSlotBytes = kSlotPages * gas::kPageBytes;

struct Shape {  // drawn from the seed, constant in a run
  int processes = 2, workers = 1;
  std::size_t slots = 8, heap_pages = 4, heap_block = 1;
  bool pressure = false;   // the fault engine sometimes runs out of mappings
  bool invariants = true;  // check M3; off: only what programs read counts
  Bug bug = Bug::kNone;
  bool trace = false;
  dsm::Limits limits;
};

class Machine {
 public:
  static constexpr bool kWholePages = false;  // what happens between the words of a page is looked at
  explicit Machine(Scheduler& scheduler);
  void reset(const Shape& shape);
  const Shape& shape() const noexcept { return shape_; }
  Scheduler& scheduler() noexcept { return scheduler_; }
  dsm::Coherence<Machine>& coherence() noexcept { return *coherence_; }

  // ---- what user code does: `address` counts bytes from the start of the space; size 1, 2, 4 or 8, aligned
  std::uint64_t load(int p, std::uint64_t address, int bytes);
  void store(int p, std::uint64_t address, int bytes, std::uint64_t value);
  std::uint64_t slot_end(SlotIndex slot) const noexcept { return (std::uint64_t{slot} + 1) * kSlotBytes; }
  std::uint64_t heap_first() const noexcept { return shape_.slots * kSlotBytes; }
  void lock_both(int a, int b);
  void unlock_both(int a, int b);
  // Which process works on this fiber, for M4.
  void serve(int p) noexcept { serves_[scheduler_.current()] = p; }
  // No lock is held by anybody.
  bool quiet() const noexcept;

  // ---- Env of the protocol
  void lock(base::SharedLock& l);
  void unlock(base::SharedLock& l);
  std::byte* page_in(int p, PageIndex page) noexcept {
    touched_[p][page] = 1;
    return memory_.get() + (static_cast<std::size_t>(p) * kMaxPages + page) * gas::kPageBytes;
  }
  int owner_of(PageIndex page) noexcept {
    if (page < stack_end()) return slot_owner(slot_of(page));
    return static_cast<int>((page - stack_end()) / shape_.heap_block) % shape_.processes;
  }
  SlotIndex slot_of(PageIndex page) noexcept {
    return page < stack_end() ? static_cast<SlotIndex>(page / kSlotPages) : gas::kNoSlot;
  }
  gas::SlotEntry& slot(SlotIndex s) noexcept { return slots_[s]; }
  int slot_owner(SlotIndex s) noexcept { return static_cast<int>(slots_[s].owner.load(std::memory_order_relaxed)); }
  void set_owner(SlotIndex s, int p);
  PageIndex slot_first(SlotIndex s) noexcept { return static_cast<PageIndex>(s * kSlotPages); }
  std::size_t slot_pages() noexcept { return kSlotPages; }
  std::size_t pages() const noexcept { return shape_.slots * kSlotPages + shape_.heap_pages; }
  std::size_t guard_pages() noexcept { return kGuardPages; }
  void map_read(int p, PageIndex first, std::size_t pages);
  void map_write(int p, PageIndex first, std::size_t pages);
  void zap(int p, PageIndex first, std::size_t pages);
  void populate(int, PageIndex, std::size_t) noexcept {}
  void discard(int p, PageIndex page);
  bool pressure() noexcept { return shape_.pressure && scheduler_.random().one_in(60); }
  void relieved() noexcept {}
  void table_full() { fail("more clean pages than the table holds"); }
  void releasing(int) noexcept {}
  void released(int) noexcept {}
  std::uint64_t tick() noexcept { return ++ticks_; }
  void point() { scheduler_.point(); }
  bool bug(Bug b) const noexcept { return shape_.bug == b; }

 private:
  enum May : std::uint8_t { kMayNothing, kMayRead, kMayWrite };
  struct Held {
    base::SharedLock* lock;
    int fiber, rank;  // rank: of a process, or kSlotRank
  };
  static constexpr int kSlotRank = kMaxProcesses;

  PageIndex stack_end() const noexcept { return static_cast<PageIndex>(shape_.slots * kSlotPages); }
  int rank_of(const base::SharedLock* l) const noexcept;
  void access(int p, PageIndex page, May wanted);
  void check(int p);
  void check_mapping_change(int p);
  void fail(const char* format, ...) __attribute__((format(printf, 2, 3)));

  struct Tables {  // of one process: what ProcessState points to
    std::uint32_t table[kMaxPages];
    dsm::ProcessState::Dirty dirty[kMaxPages];
    dsm::ProcessState::Clean clean[kMaxPages];
    SlotIndex lost[kMaxSlots];
    std::uint8_t lost_mark[kMaxSlots];
    std::uint32_t free_twins[kMaxPages];
    PageIndex scratch[2 * kMaxPages];
  };
  struct Free {
    void operator()(std::byte* p) const noexcept { std::free(p); }
  };
  using Pages = std::unique_ptr<std::byte, Free>;

  Scheduler& scheduler_;
  Shape shape_;
  Pages memory_, twins_;
  std::vector<Tables> tables_;
  dsm::ProcessState states_[kMaxProcesses];
  dsm::ProcessState* pointers_[kMaxProcesses];
  gas::SlotEntry slots_[kMaxSlots];
  std::uint8_t touched_[kMaxProcesses][kMaxPages];
  May may_[kMaxProcesses][kMaxPages];
  std::vector<Held> held_;
  std::uint64_t ticks_ = 0;
  int serves_[Scheduler::kMaxFibers];
  std::unique_ptr<dsm::Coherence<Machine>> coherence_;
};

}  // namespace ayatori::sim
