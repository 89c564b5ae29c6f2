// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace ayatori::sim {

namespace {
constexpr int kMaxRetries = 200;  // of one access: beyond it the fault path makes no progress
}

Machine::Machine(Scheduler& scheduler) : scheduler_(scheduler), tables_(kMaxProcesses) {
  const std::size_t bytes = std::size_t{kMaxProcesses} * kMaxPages * gas::kPageBytes;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(gas::kPageBytes, bytes)));
  twins_.reset(static_cast<std::byte*>(std::aligned_alloc(gas::kPageBytes, bytes)));
  std::memset(memory_.get(), 0, bytes);
  std::memset(touched_, 0, sizeof(touched_));
  held_.reserve(64);
}

void Machine::reset(const Shape& shape) {
  for (int p = 0; p < kMaxProcesses; ++p)
    for (PageIndex page = 0; page < kMaxPages; ++page)
      if (touched_[p][page] != 0) {
        std::memset(page_in(p, page), 0, gas::kPageBytes);
        touched_[p][page] = 0;
      }
  shape_ = shape;
  held_.clear();
  ticks_ = 0;
  for (int p = 0; p < kMaxProcesses; ++p) {
    Tables& t = tables_[static_cast<std::size_t>(p)];
    std::memset(t.table, 0, sizeof(t.table));
    std::memset(t.lost_mark, 0, sizeof(t.lost_mark));
    std::memset(may_[p], kMayNothing, sizeof(may_[p]));
    dsm::ProcessState& s = states_[p];
    s.lock.unlock();
    s.table = t.table;
    s.dirty = t.dirty;
    s.clean = t.clean;
    s.lost = t.lost;
    s.lost_mark = t.lost_mark;
    s.free_twins = t.free_twins;
    s.scratch = t.scratch;
    s.twins = twins_.get() + static_cast<std::size_t>(p) * kMaxPages * gas::kPageBytes;
    s.dirty_count = s.clean_count = s.lost_count = s.free_twin_count = s.twins_used = s.next_stream = 0;
    s.written_begin = s.written_end = s.behind = s.sent_ahead = s.regretted = 0;
    s.release_begun = s.release_done = s.acquire_begun = 0;
    s.idle_stack_pages = s.usual_stack_pages = 0;
    std::memset(s.streams, 0, sizeof(s.streams));
    s.counters = {};
    pointers_[p] = &s;
  }
  for (SlotIndex s = 0; s < kMaxSlots; ++s) {
    slots_[s].lock.unlock();
    slots_[s].owner.store(s % static_cast<std::uint32_t>(shape_.processes), std::memory_order_relaxed);
  }
  for (int& p : serves_) p = 0;
  coherence_ = std::make_unique<dsm::Coherence<Machine>>(*this, pointers_, shape_.processes, shape_.limits);
}

void Machine::fail(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  scheduler_.fail(text);
}

// ---------------------------------------------------------------- user accesses

void Machine::access(int p, PageIndex page, May wanted) {
  scheduler_.point();
  for (int tries = 0; may_[p][page] < wanted; ++tries) {
    if (tries == kMaxRetries) fail("livelock: process %d faults on page %u for ever", p, page);
    if (page < stack_end() && page % kSlotPages < kGuardPages) fail("process %d touches guard page %u", p, page);
    if (shape_.trace) std::printf("  p%d fault page %u %s\n", p, page, wanted == kMayWrite ? "write" : "read");
    coherence_->fault(p, page, wanted == kMayWrite);
    scheduler_.point();
  }
}

std::uint64_t Machine::load(int p, std::uint64_t address, int bytes) {
  const auto page = static_cast<PageIndex>(address / gas::kPageBytes);
  access(p, page, kMayRead);
  std::uint64_t value = 0;
  std::memcpy(&value, page_in(p, page) + address % gas::kPageBytes, static_cast<std::size_t>(bytes));
  return value;
}

void Machine::store(int p, std::uint64_t address, int bytes, std::uint64_t value) {
  const auto page = static_cast<PageIndex>(address / gas::kPageBytes);
  access(p, page, kMayWrite);
  std::memcpy(page_in(p, page) + address % gas::kPageBytes, &value, static_cast<std::size_t>(bytes));
}

// ---------------------------------------------------------------- locks

int Machine::rank_of(const base::SharedLock* l) const noexcept {
  for (int p = 0; p < shape_.processes; ++p)
    if (l == &states_[p].lock) return p;
  return kSlotRank;
}

void Machine::lock(base::SharedLock& l) {
  const int rank = rank_of(&l);
  const int fiber = scheduler_.current();
  for (const Held& h : held_)
    if (h.fiber == fiber && h.rank >= rank)
      fail("M2: lock of rank %d taken while one of rank %d is held", rank, h.rank);
  scheduler_.point();
  while (!l.try_lock()) scheduler_.block(&l);
  held_.push_back({&l, fiber, rank});
}

void Machine::unlock(base::SharedLock& l) {
  const int fiber = scheduler_.current();
  std::size_t i = 0;
  while (i < held_.size() && (held_[i].lock != &l || held_[i].fiber != fiber)) ++i;
  if (i == held_.size()) fail("a lock is let go by somebody who does not hold it");
  const int rank = held_[i].rank;
  if (rank != kSlotRank && shape_.invariants) check(rank);
  held_[i] = held_.back();
  held_.pop_back();
  l.unlock();
  scheduler_.point();
}

void Machine::lock_both(int a, int b) {
  lock(states_[std::min(a, b)].lock);
  lock(states_[std::max(a, b)].lock);
}

void Machine::unlock_both(int a, int b) {
  unlock(states_[std::max(a, b)].lock);
  unlock(states_[std::min(a, b)].lock);
}

bool Machine::quiet() const noexcept {
  if (!held_.empty()) return false;
  for (int p = 0; p < shape_.processes; ++p)
    if (states_[p].lock.held()) return false;
  for (std::size_t s = 0; s < shape_.slots; ++s)
    if (slots_[s].lock.held()) return false;
  return true;
}

// ---------------------------------------------------------------- invariants

void Machine::check(int p) {  // M3
  if (const char* what = coherence_->broken(p)) fail("process %d: %s", p, what);
  const dsm::ProcessState& s = states_[p];
  if (s.clean_count > shape_.limits.clean_pages) fail("process %d: more clean pages than the table holds", p);
  for (PageIndex page = 0; page < pages(); ++page) {
    const May may = may_[p][page];
    if (may == kMayNothing || owner_of(page) == p) continue;
    if (page < stack_end() && s.lost_mark[slot_of(page)] != 0) continue;
    const std::uint32_t state = coherence_->state(s, page);
    if (may == kMayWrite && state != dsm::Coherence<Machine>::kDirty)
      fail("process %d may write page %u, which it neither owns nor has dirty", p, page);
    if (may == kMayRead && state == dsm::Coherence<Machine>::kInvalid)
      fail("process %d may read page %u, which it neither owns nor has cached", p, page);
  }
}

void Machine::set_owner(SlotIndex s, int p) {
  const int fiber = scheduler_.current();
  const int before = slot_owner(s);
  int locks = 0;
  for (const Held& h : held_)
    if (h.fiber == fiber && (h.rank == before || h.rank == p || h.lock == &slots_[s].lock)) ++locks;
  if (locks != 3) fail("slot %u moves from %d to %d without all three locks", s, before, p);
  if (shape_.trace) std::printf("  slot %u moves from p%d to p%d\n", s, before, p);
  slots_[s].owner.store(static_cast<std::uint32_t>(p), std::memory_order_relaxed);
}

void Machine::check_mapping_change(int p) {  // M4
  const int fiber = scheduler_.current();
  if (serves_[fiber] != p) fail("M4: process %d changes the mappings of process %d", serves_[fiber], p);
  for (const Held& h : held_)
    if (h.fiber == fiber && h.rank == p) return;
  fail("M4: the mappings of process %d change without its lock", p);
}

// ---------------------------------------------------------------- mappings

void Machine::map_read(int p, PageIndex first, std::size_t count) {
  check_mapping_change(p);
  for (std::size_t i = 0; i < count; ++i)
    if (may_[p][first + i] == kMayNothing) may_[p][first + i] = kMayRead;
}

void Machine::map_write(int p, PageIndex first, std::size_t count) {
  check_mapping_change(p);
  for (std::size_t i = 0; i < count; ++i) may_[p][first + i] = kMayWrite;
}

void Machine::zap(int p, PageIndex first, std::size_t count) {
  check_mapping_change(p);
  if (shape_.trace) std::printf("  p%d zap pages %u-%zu\n", p, first, first + count - 1);
  for (std::size_t i = 0; i < count; ++i) may_[p][first + i] = kMayNothing;
}

void Machine::discard(int p, PageIndex page) {
  check_mapping_change(p);
  if (owner_of(page) == p) fail("process %d discards page %u, which it owns", p, page);
  std::memset(page_in(p, page), 0, gas::kPageBytes);
}

}  // namespace ayatori::sim
