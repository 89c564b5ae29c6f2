// SPDX-License-Identifier: Apache-2.0
// The coherence protocol where no process reaches another one's memory: the same tables, pages and rules as coherence.hpp,
// with owners that are asked (docs/design/between-machines.md). Every function works on this process; what is ordered on
// another one is asked of it (tasks).
//
// Who calls it: workers, the fetching and the serving thread, on native stacks. Not the fault handler: what it does takes
// memory and waits for messages.
//
// M1. The process's lock is held while it waits for owners, whose answers take no process lock: so no two processes wait
//     for each other.
// M2. What belongs to a slot that is on its way (peers.hpp R1) is tried again without the lock: it may be on its way here.
//     A diff that found no holder is taken back: its bytes in the twin are again those that the slot's holder has.
// M3. An acquire drops all clean pages; dirty ones are sent and compared, many at a time, or sent and dropped.
// M4. A slot that leaves is held by nobody until it has arrived: what its new holder gets is the copy that stays here as
//     the twin (C7).
#pragma once

#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/waiter.hpp"
#include "dsm/coherence.hpp"
#include "dsm/peers.hpp"

namespace ayatori::dsm {

template <class Env>
class RemoteCoherence {
  using Core = Coherence<Env>;

 public:
  RemoteCoherence(Env& env, Core& core, Peers& peers, int self)
      : env_(env), core_(core), peers_(peers), self_(self), s_(core.process(self)) {}

  // As Coherence::fault(). Returns when the access may be repeated.
  void fault(PageIndex page, bool write) {
    env_.lock(s_.lock);
    ++(write ? s_.counters.write_faults : s_.counters.read_faults);
    make_room();
    const bool done = fault_locked(page, write);
    env_.unlock(s_.lock);
    if (!done) base::SpinThenSleep(0).wait();  // M2; the access is repeated
  }

  // What needs no other process: called in the fault handler. False: nothing was done.
  bool fault_here(PageIndex page, bool write) {
    env_.lock(s_.lock);
    const int owner = env_.owner_of(page);
    const std::uint32_t state = core_.state(s_, page);
    const bool room = s_.dirty_count + core_.limits_.run_pages <= core_.limits_.dirty_pages;
    const bool done = owner == self_ || state == Core::kDirty || (state == Core::kClean && (!write || room));
    if (owner == self_) {
      core_.map_owned(self_, page, env_.slot_of(page));
    } else if (state == Core::kDirty) {
      env_.map_write(self_, page, 1);  // C3
    } else if (done && !write) {
      env_.map_read(self_, page, 1);
    } else if (done) {
      write_run(run_to_write(page, owner));
    }
    if (done) ++(write ? s_.counters.write_faults : s_.counters.read_faults);
    env_.unlock(s_.lock);
    return done;
  }

  // This and acquire() and at_owner() may wait for another process's worker, on whose way a slot is; not for its serving thread.
  void release() {
    for (base::SpinThenSleep again(1);; again.wait()) {
      env_.lock(s_.lock);
      const bool done = release_locked();
      env_.unlock(s_.lock);
      if (done) return;  // else M2
    }
  }
  // Unless a release has begun after `since`, a tick of this process.
  void release_since(std::uint64_t since) {
    if (s_.release_begun.load(std::memory_order_acquire) <= since) release();
  }

  void acquire() {
    for (base::SpinThenSleep again(1);; again.wait()) {
      env_.lock(s_.lock);
      const bool done = acquire_locked();
      env_.unlock(s_.lock);
      if (done) return;
    }
  }

  // Gives `slot` to another process: fills `out` with the used part of the stack, pages [first_used, slot end), which arrives
  // by take_slot() there. This process has released.
  // Returns how often the slot has moved then.
  std::uint32_t give_slot(SlotIndex slot, PageIndex first_used, int to, std::vector<std::byte>& out) {
    std::uint32_t moves;
    env_.lock(s_.lock);
    {
      typename Core::SlotLock guard(core_, slot);
      const PageIndex end = slot_end(slot);
      const std::size_t at = out.size();
      out.resize(at + std::size_t{end - first_used} * gas::kPageBytes);
      for (PageIndex page = first_used; page < end; ++page) {
        const std::uint32_t twin = core_.allocate_twin(s_);
        std::byte* const truth = Core::twin_bytes(s_, twin);  // C7
        Core::snapshot(truth, env_.page_in(self_, page));
        std::memcpy(out.data() + at + std::size_t{page - first_used} * gas::kPageBytes, truth, gas::kPageBytes);
        core_.s_set_dirty(s_, page, twin);
        s_.counters.bytes_sent += gas::kPageBytes;
      }
      moves = leave(slot, to);
    }
    env_.unlock(s_.lock);
    return moves;
  }

  // `bytes`: what give_slot() filled in; `moves`: what it returned.
  void take_slot(SlotIndex slot, PageIndex first_used, std::span<const std::byte> bytes, std::uint32_t moves) {
    Page truth;
    env_.lock(s_.lock);
    {
      typename Core::SlotLock guard(core_, slot);
      const PageIndex end = slot_end(slot);
      for (PageIndex page = env_.slot_first(slot); page < first_used; ++page) core_.forget(s_, page);  // C1
      for (PageIndex page = first_used; page < end; ++page) {
        std::memcpy(truth.bytes, bytes.data() + std::size_t{page - first_used} * gas::kPageBytes, gas::kPageBytes);
        std::byte* const to = env_.page_in(self_, page);
        if (core_.state(s_, page) == Core::kDirty)
          core_.forward(truth.bytes, Core::twin_bytes(s_, s_.dirty[Core::index(s_, page)].twin), to, false);  // C9
        else
          diff::refresh(to, truth.bytes);
        core_.forget(s_, page);
        s_.counters.bytes_received += gas::kPageBytes;
      }
      arrive(slot, moves);
    }
    map_stack(slot, first_used);
    env_.unlock(s_.lock);
  }

  // A dead stack changes hands: at its old owner, then at its new one.
  std::uint32_t give_dead_slot(SlotIndex slot, int to) {
    env_.lock(s_.lock);
    std::uint32_t moves;
    {
      typename Core::SlotLock guard(core_, slot);
      moves = leave(slot, to);
    }
    env_.unlock(s_.lock);
    return moves;
  }
  void take_dead_slot(SlotIndex slot, std::uint32_t moves) {
    env_.lock(s_.lock);
    {
      typename Core::SlotLock guard(core_, slot);
      for (PageIndex page = env_.slot_first(slot); page < slot_end(slot); ++page) core_.forget(s_, page);  // C1
      arrive(slot, moves);
    }
    env_.unlock(s_.lock);
  }

  // Peers::learn_holder() and moves_of().
  void learn_holder(SlotIndex slot, int process, std::uint32_t moves) { peers_.learn_holder(slot, process, moves); }
  std::uint32_t moves_of(SlotIndex slot) { return peers_.moves_of(slot); }

  // Carries it out at the word's owner. Not in handlers.
  std::uint64_t at_owner(const WordOperation& operation) {
    std::uint64_t value = 0;
    for (base::SpinThenSleep again(1); !peers_.at_owner(operation, &value); again.wait()) {
    }  // M2
    return value;
  }

  // Own copy and twin of some bytes, where there are any, get the value that the owner has got (coherence.hpp,
  // write_through and write_back).
  void patch(PageIndex page, std::size_t offset, const void* value, std::size_t bytes) {
    env_.lock(s_.lock);
    if (env_.owner_of(page) != self_) {
      if (core_.state(s_, page) == Core::kDirty)
        std::memcpy(Core::twin_bytes(s_, s_.dirty[Core::index(s_, page)].twin) + offset, value, bytes);
      if (core_.state(s_, page) != Core::kInvalid) std::memcpy(env_.page_in(self_, page) + offset, value, bytes);
    }
    env_.unlock(s_.lock);
  }

 private:
  struct alignas(64) Page {
    std::byte bytes[gas::kPageBytes];
  };
  struct SentPage {  // of a stack, and its twin before
    PageIndex page;
    Page twin;
  };
  static constexpr std::uint32_t kComparedMax = 64;  // dirty pages compared at an acquire; others are dropped

  // Under the slot's lock.
  std::uint32_t leave(SlotIndex slot, int to) {
    env_.set_owner(slot, to);
    Core::lose(s_, slot);
    return ++env_.slot(slot).moves;
  }
  void arrive(SlotIndex slot, std::uint32_t moves) {
    env_.slot(slot).moves = moves;
    env_.set_owner(slot, self_);
  }

  PageIndex slot_end(SlotIndex slot) { return env_.slot_first(slot) + static_cast<PageIndex>(env_.slot_pages()); }

  // The used part becomes resident, with some room below for the next calls.
  void map_stack(SlotIndex slot, PageIndex first_used) {
    const PageIndex low = env_.slot_first(slot) + static_cast<PageIndex>(env_.guard_pages());
    const PageIndex first = first_used >= low + 2 ? first_used - 2 : low;
    env_.map_write(self_, first, slot_end(slot) - first);
  }

  // False: the page's slot is on its way.
  bool fault_locked(PageIndex page, bool write) {
    const SlotIndex slot = env_.slot_of(page);
    const int owner = env_.owner_of(page);
    if (owner == gas::kNobody) return true;
    if (owner == self_) {
      core_.map_owned(self_, page, slot);
      return true;
    }
    typename Core::Run run{page, page + 1};
    if (slot == gas::kNoSlot) {
      // More comes along than is written at first: the way is long.
      if (write) fetch_around(page, owner);
      run = core_.run_for(s_, page, owner, write ? 1 : core_.limits_.first_run_pages, core_.limits_.run_pages);
      fetch_run(owner, run.first, run.end);
    } else if (core_.state(s_, page) == Core::kInvalid) {
      Peers::Page wanted{page, env_.page_in(self_, page)};
      peers_.read_pages({&wanted, 1});
      if (!wanted.got) return false;
      add(page, ProcessState::kFetched);
    }
    if (write)
      write_run(run);
    else
      env_.map_read(self_, run.first, run.end - run.first);
    return true;
  }

  // A write to pages that are there, clean or dirty.
  void write_run(const typename Core::Run& run) {
    for (PageIndex at = run.first; at < run.end; ++at)
      if (core_.state(s_, at) == Core::kClean) core_.make_dirty(self_, at);
    env_.map_write(self_, run.first, run.end - run.first);
  }

  // Of the pages that a write to a clean `page` would bring in, those around it that are there.
  typename Core::Run run_to_write(PageIndex page, int owner) {
    typename Core::Run there{page, page + 1};
    if (env_.slot_of(page) != gas::kNoSlot) return there;
    const typename Core::Run run = core_.run_for(s_, page, owner, 1, core_.limits_.run_pages);
    while (there.first > run.first && core_.state(s_, there.first - 1) != Core::kInvalid) --there.first;
    while (there.end < run.end && core_.state(s_, there.end) != Core::kInvalid) ++there.end;
    return there;
  }

  void fetch_around(PageIndex page, int owner) {
    const std::uint32_t pages = core_.limits_.first_run_pages;
    PageIndex first = page, end = page + 1;
    const auto comes = [&](PageIndex x) { return env_.slot_of(x) == gas::kNoSlot && env_.owner_of(x) == owner; };
    while (first > page - page % pages && comes(first - 1)) --first;
    while (end < page - page % pages + pages && end < env_.pages() && comes(end)) ++end;
    fetch_run(owner, first, end);
  }

  void add(PageIndex page, std::uint8_t kind) {
    core_.add_clean(s_, page, kind);
    ++s_.counters.blocks_fetched;
    s_.counters.bytes_received += gas::kPageBytes;
  }

  // Fetches what is not there of [first, end), pages of one owner that are no stack.
  void fetch_run(int owner, PageIndex first, PageIndex end) {
    while (first < end) {
      PageIndex stop = first;
      while (stop < end && core_.state(s_, stop) == Core::kInvalid) ++stop;
      if (stop == first) {
        ++first;
        continue;
      }
      peers_.read_run(owner, first, stop - first);
      for (; first < stop; ++first) {
        core_.add_clean(s_, first, ProcessState::kFetched);
        s_.counters.bytes_received += gas::kPageBytes;
      }
      ++s_.counters.blocks_fetched;
    }
  }

  // Appends a dirty page's diff.
  void send(Peers::Diffs& diffs, std::uint32_t i) {
    const PageIndex page = s_.dirty[i].page;
    const int owner = env_.owner_of(page);
    if (owner == self_) return;  // C1 makes that rare
    std::byte* const twin = Core::twin_bytes(s_, s_.dirty[i].twin);
    const bool may_return = env_.slot_of(page) != gas::kNoSlot;
    if (may_return) {
      sent_.emplace_back().page = page;
      diff::copy_page(sent_.back().twin.bytes, twin);
    }
    const std::uint64_t bytes = diffs.add(owner, page, env_.page_in(self_, page), twin);
    s_.dirty[i].empty = bytes != 0 ? 0 : s_.dirty[i].empty + 1;
    if (bytes == 0) {
      if (may_return) sent_.pop_back();
      return;
    }
    ++s_.counters.diffs_sent;
    s_.counters.diff_bytes += bytes;
    s_.counters.bytes_sent += bytes;
  }

  // M2. The pages are dirty still. Returns whether there were none.
  bool take_back(const std::vector<net::Bytes>& unsent) {
    for (const net::Bytes& bytes : unsent) {
      std::span<const std::byte> all = bytes;
      diff::WireDiff d;
      if (!diff::next(all, env_.pages(), d) || core_.state(s_, d.page) != Core::kDirty) continue;
      for (SentPage& sent : sent_)
        if (sent.page == d.page)
          diff::restore(d, sent.twin.bytes, Core::twin_bytes(s_, s_.dirty[Core::index(s_, d.page)].twin));
    }
    sent_.clear();
    return unsent.empty();
  }

  bool release_locked() {
    ++s_.counters.releases;
    const std::uint64_t begun = env_.tick();
    env_.releasing(self_);
    Peers::Diffs diffs(peers_);
    for (std::uint32_t i = s_.dirty_count; i-- > 0;) send(diffs, i);
    if (!take_back(diffs.finish())) return false;
    env_.released(self_);
    s_.release_done.store(env_.tick(), std::memory_order_release);
    s_.release_begun.store(begun, std::memory_order_release);  // pairs with release_since()
    return true;
  }

  bool acquire_locked() {
    ++s_.counters.acquires;
    core_.drop_lost_slots(self_);
    std::uint32_t zaps = 0;
    while (s_.clean_count != 0) {
      const PageIndex page = s_.clean[s_.clean_count - 1].page;
      s_.scratch[zaps++] = page;
      core_.remove_clean(s_, page);
    }
    core_.zap_pages(self_, zaps);
    return refresh_dirty();
  }

  bool refresh_dirty() {
    const std::uint32_t patience = s_.dirty_count > core_.limits_.few_dirty_pages ? 1 : core_.limits_.empty_releases;
    std::uint32_t idle = 0;
    for (std::uint32_t i = 0; i < s_.dirty_count; ++i)
      if (i >= kComparedMax || s_.dirty[i].empty >= patience) s_.scratch[idle++] = s_.dirty[i].page;
    bool done = drop_dirty(idle);
    if (s_.dirty_count == 0) return done;
    Peers::Diffs diffs(peers_);
    for (std::uint32_t i = s_.dirty_count; i-- > 0;) send(diffs, i);  // C5: before the owner's copies are read
    if (!take_back(diffs.finish())) return false;
    copies_.resize(s_.dirty_count);
    asked_.clear();
    for (std::uint32_t i = 0; i < s_.dirty_count; ++i) asked_.push_back({s_.dirty[i].page, copies_[i].bytes});
    peers_.read_pages(asked_);
    for (std::uint32_t i = 0; i < s_.dirty_count; ++i) {
      if (asked_[i].got)
        core_.forward(copies_[i].bytes, Core::twin_bytes(s_, s_.dirty[i].twin), env_.page_in(self_, asked_[i].page));
      else if (env_.owner_of(asked_[i].page) != self_)
        done = false;
    }
    return done;
  }

  // Drops the dirty pages scratch[0, count) (C6), but for those whose slot is on its way. Returns whether there were none.
  bool drop_dirty(std::uint32_t count) {
    if (count == 0) return true;
    const std::vector<PageIndex> pages(s_.scratch, s_.scratch + count);
    core_.zap_pages(self_, count);
    Peers::Diffs diffs(peers_);
    for (const PageIndex page : pages) send(diffs, Core::index(s_, page));
    const std::vector<net::Bytes> unsent = diffs.finish();
    const bool all = take_back(unsent);
    std::vector<PageIndex> kept;
    for (const net::Bytes& bytes : unsent) {
      std::span<const std::byte> message = bytes;
      diff::WireDiff d;
      if (diff::next(message, env_.pages(), d)) kept.push_back(d.page);
    }
    for (const PageIndex page : pages)
      if (std::find(kept.begin(), kept.end(), page) == kept.end()) core_.remove_dirty(s_, page);
    return all;
  }

  void make_room() {
    const bool pressure = env_.pressure();
    const std::uint32_t added = 2 * core_.limits_.run_pages;
    if (pressure || s_.dirty_count + added > core_.limits_.dirty_pages) {
      for (std::uint32_t i = 0; i < s_.dirty_count; ++i) s_.scratch[i] = s_.dirty[i].page;
      drop_dirty(s_.dirty_count);
    }
    if (pressure || s_.clean_count + added > core_.limits_.clean_pages)
      core_.drop_oldest_clean(
          self_, pressure ? s_.clean_count : std::max(s_.clean_count / 4, std::min(s_.clean_count, added)));
    if (pressure) env_.relieved();
  }

  Env& env_;
  Core& core_;
  Peers& peers_;
  const int self_;
  ProcessState& s_;
  // Guarded by s_.lock.
  std::deque<SentPage> sent_;  // by the Diffs under way (M2)
  std::vector<Page> copies_;
  std::vector<Peers::Page> asked_;
};

}  // namespace ayatori::dsm
