// SPDX-License-Identifier: Apache-2.0
// The coherence protocol: multiple readers and writers by twin and diff at byte grain, home = owner, release_all and
// acquire_all (thesis 6.2), movement of stack slots. One template for the real machine and for the simulation; Env
// gives memory, locks, mappings and, in the simulation, scheduling points and planted bugs.
//
// Who calls it: workers and thieves on native stacks, fault handlers on alternate stacks. release() of a process may be
// run by any process where memory is directly reachable; fault() and acquire() only by the process concerned.
//
// Locks: process locks first, in rank order, then at most one slot lock (P7).
// C1. A page has an entry (clean or dirty) in a process's table only if the process does not own it. Taking ownership of
//     a slot drops the entries of its pages.
// C2. Owner look-up, state change, fill, twin and mapping of a page happen under the lock of its process, for a stack
//     page also under its slot's lock (P4).
// C3. A state never implies a mapping: a fault on a dirty page maps it without fetching (P5).
// C4. release() changes no protection: it sends the bytes in which a dirty page differs from its twin, each word read
//     once, and makes the twin equal to what it read. The page stays writable and dirty.
// C5. acquire() sends a dirty page before it reads the owner's copy, then stores the bytes in which owner and twin
//     differ into page and twin (P1).
// C6. Dropping a dirty page: zap, then send, then clear the state (P3).
// C7. The bytes copied at a hand-over are the thief's truth and the victim's twin: the child goes on writing that page.
// C8. A process that lost a slot drops the slot's other pages, not the dirty ones, at its next acquire (P6).
// C9. A slot that returns overlays pages that are dirty there: bytes in which the truth differs from the twin (P6).
// C10. Pages of the heap that were written long ago are sent ahead of the next release and become clean (docs/design/
//     write-behind.md): what a fence has to send is bounded, and is sent while the caches still hold it. A release is
//     allowed at any time.
// C11. Fences are numbered by ticks of one clock of the job. What happened on a process before tick t is seen on another
//      one that began an acquire after the end of a release which the first began after t: pass() leaves out what has
//      happened already.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/shared_lock.hpp"
#include "dsm/diff.hpp"
#include "gas/space.hpp"

namespace ayatori::dsm {

using gas::PageIndex;
using gas::SlotIndex;

// Planted bugs: test-only switches of the simulation (Env::bug). Each must be caught by the tests.
enum class Bug {
  kNone,
  kDropRelease,     // a release sends nothing
  kWordGrainMerge,  // a merge stores whole words
  kNoVictimTwin,    // the victim's twin of a handed-over page is what it had at the next release
  kKeepLostSlot,    // a lost slot's other pages are not dropped
  kNoOverlay,       // a returning stack does not overlay dirty pages
  kDroppedWake,     // a finished child does not wake its waiting parent (tasks)
  kLateTick,        // a fence is said to have begun when it ended
};

struct Counters {  // of one process; written under its lock
  std::uint64_t read_faults, write_faults, blocks_fetched, bytes_sent, bytes_received, diffs_sent, diff_bytes;
  std::uint64_t invalidations, releases, acquires;
};

// The coherence state of one process. Lies in memory shared by all members; everything is guarded by `lock`.
struct ProcessState {
  struct Dirty {
    PageIndex page;
    std::uint32_t twin;
    std::uint32_t empty;  // consecutive releases that found nothing to send
  };
  struct Clean {
    PageIndex page;
    std::uint16_t age;     // acquires since it was fetched
    std::uint8_t changes;  // of these, how many found it changed
    std::uint8_t kind;     // kFetched, kStreamed or kSentAhead
  };
  static constexpr std::uint8_t kFetched = 0, kStreamed = 1;  // alone, or as part of a long run
  static constexpr std::uint8_t kSentAhead = 2;               // was dirty, and was sent ahead of a release (C10)
  struct Stream {  // the last pages that a run of neighbouring faults brought in
    PageIndex first, end;
  };
  static constexpr int kStreams = 8;
  static constexpr std::uint32_t kWritten = 8192;  // a power of two

  base::SharedLock lock;
  // A page each: state in the top two bits, index into dirty or clean below; kHasMemory in an invalid page that was cached
  // before.
  std::uint32_t* table;
  Dirty* dirty;
  std::uint32_t dirty_count;
  Clean* clean;
  std::uint32_t clean_count;
  SlotIndex* lost;          // slots lost since the last acquire, each once
  std::uint8_t* lost_mark;  // a slot each: is it in `lost`?
  std::uint32_t lost_count;
  std::byte* twins;
  std::uint32_t* free_twins;
  std::uint32_t free_twin_count, twins_used;
  PageIndex* scratch;  // pages to zap
  Stream streams[kStreams];
  std::uint32_t next_stream;
  // Heap pages in the order in which they became dirty; some are not any more. [written_begin, written_end) modulo kWritten.
  PageIndex written[kWritten];
  std::uint32_t written_begin, written_end;
  std::uint32_t behind;                 // so many of them may wait for a release; 0: not set yet
  std::uint32_t sent_ahead, regretted;  // in the present window (C10): pages sent ahead; written again after that
  // Ticks (C11): of the last complete release its begin and end, of the last complete acquire its begin. Read without the
  // lock; the end of a release is stored before its begin.
  std::atomic<std::uint64_t> release_begun, release_done, acquire_begun;
  // Hints for others, read without the lock: so many stack pages of `dirty` the last release would have dropped at an acquire;
  // how many of its topmost pages a stack here turns out to need, 0 or 1: one.
  std::atomic<std::uint32_t> idle_stack_pages, usual_stack_pages;
  Counters counters;
};

struct Limits {
  std::uint32_t clean_pages = 1u << 18;  // when so many are cached, the oldest are dropped and their memory is freed
  std::uint32_t dirty_pages = 1u << 22;  // when so many are dirty, all are sent and dropped
  std::uint32_t refresh_pages = 4096;    // the youngest so many are refreshed in place at an acquire, others dropped
  std::uint32_t few_clean_pages = 256;   // while more are cached, one that changed is dropped, not refreshed
  std::uint16_t refresh_age = 16;        // a page is dropped after so many refreshes
  std::uint8_t refresh_changes = 4;      // or after so many that found it changed
  std::uint32_t empty_releases = 4;      // a dirty page whose diffs stayed empty so often is dropped,
  std::uint32_t few_dirty_pages = 128;   // or after one, when more than so many are dirty
  std::uint32_t behind_pages = 256;      // more written pages of the heap than this are sent ahead of a release
  std::uint32_t streamed_pages = 8;      // pages of a run of so many are not worth a comparison at an acquire
  std::uint32_t run_pages = 64;          // longest run fetched at one fault
  std::uint32_t owned_run_pages = 512;   // longest run of owned pages mapped at one fault
  std::uint32_t first_run_pages = 4;     // read fault that continues no run
  std::uint32_t owned_first_run_pages = 16;
};

template <class Env>
class RemoteCoherence;  // remote_coherence.hpp

template <class Env>
class Coherence {
 public:
  static constexpr std::uint32_t kInvalid = 0, kClean = 1, kDirty = 2;
  static constexpr std::uint32_t kHasMemory = 1;

  Coherence(Env& env, ProcessState* const* processes, int count, const Limits& limits)
      : env_(env), processes_(processes), count_(count), limits_(limits) {
    // make_room() frees a quarter of the clean table: what a fault adds must fit into that.
    const std::uint32_t room = std::min(limits_.clean_pages, limits_.dirty_pages) / 8;
    limits_.run_pages = std::clamp(limits_.run_pages, 1u, std::max(1u, room));
    limits_.first_run_pages = std::clamp(limits_.first_run_pages, 1u, limits_.run_pages);
  }

  ProcessState& process(int p) noexcept { return *processes_[p]; }
  const Limits& limits() const noexcept { return limits_; }

  // ---------------------------------------------------------------- fault

  // A user thread of process p missed at `page`, which somebody owns. Returns when the access may be repeated.
  void fault(int p, PageIndex page, bool write) {
    ProcessState& s = process(p);
    env_.lock(s.lock);
    ++(write ? s.counters.write_faults : s.counters.read_faults);
    make_room(p);
    if (write) send_behind(p);
    fault_locked(p, page, write);
    env_.unlock(s.lock);
  }

  void fault_locked(int p, PageIndex page, bool write) {
    ProcessState& s = process(p);
    const SlotIndex slot = env_.slot_of(page);
    SlotLock guard(*this, slot);
    const int owner = env_.owner_of(page);
    if (owner == gas::kNobody) return;
    if (owner == p) {
      map_owned(p, page, slot);
      return;
    }
    const std::uint32_t first_run = write ? 1 : limits_.first_run_pages;
    const Run run = slot == gas::kNoSlot ? run_for(s, page, owner, first_run, limits_.run_pages) : Run{page, page + 1};
    const std::uint8_t kind =
        run.end - run.first >= limits_.streamed_pages ? ProcessState::kStreamed : ProcessState::kFetched;
    std::uint32_t fetched = 0, without_memory = 0;
    for (PageIndex at = run.first; at < run.end; ++at) without_memory += s.table[at] == 0;
    if (without_memory > 2) env_.populate(p, run.first, run.end - run.first);
    for (PageIndex at = run.first; at < run.end; ++at) {
      env_.point();
      const std::uint32_t before = state(s, at);
      if (before == kInvalid) {
        ++fetched;
        if (write) {
          fetch_to_write(p, owner, at);
        } else {
          fetch(p, owner, at);
          add_clean(s, at, kind);
        }
      } else if (write && before == kClean) {
        make_dirty(p, at);
      }  // a dirty page is mapped without fetching (C3)
    }
    if (fetched != 0) ++s.counters.blocks_fetched;
    s.counters.bytes_received += std::uint64_t{fetched} * gas::kPageBytes;
    env_.point();
    if (write)
      env_.map_write(p, run.first, run.end - run.first);
    else
      env_.map_read(p, run.first, run.end - run.first);
  }

  // ---------------------------------------------------------------- release

  // Sends what process p wrote to the owners. Any process may run it.
  void release(int p) {
    ProcessState& s = process(p);
    env_.lock(s.lock);
    release_locked(p);
    env_.unlock(s.lock);
  }

  void release_locked(int p) {
    ProcessState& s = process(p);
    ++s.counters.releases;
    const std::uint64_t begun = env_.tick();
    env_.releasing(p);
    std::uint32_t idle = 0;
    if (!env_.bug(Bug::kDropRelease)) {
      for (std::uint32_t i = s.dirty_count; i-- > 0;) {
        env_.point();
        send(p, i);
        idle += is_idle_stack_page(s.dirty[i]);
      }
    }
    s.idle_stack_pages.store(idle, std::memory_order_relaxed);
    env_.released(p);
    s.release_done.store(env_.tick(), std::memory_order_release);
    s.release_begun.store(env_.bug(Bug::kLateTick) ? env_.tick() : begun,
                          std::memory_order_release);  // pairs with pass()'s load
  }

  // ---------------------------------------------------------------- acquire

  // Process p stops trusting what it cached. Run by p.
  void acquire(int p) {
    ProcessState& s = process(p);
    env_.lock(s.lock);
    acquire_locked(p);
    env_.unlock(s.lock);
  }

  void acquire_locked(int p) {
    ProcessState& s = process(p);
    ++s.counters.acquires;
    const std::uint64_t begun = env_.tick();
    drop_lost_slots(p);
    std::uint32_t zaps = 0;
    refresh_dirty(p);
    refresh_clean(p, zaps);
    zap_pages(p, zaps);
    s.acquire_begun.store(env_.bug(Bug::kLateTick) ? env_.tick() : begun,
                          std::memory_order_release);  // pairs with pass()'s load
  }

  // Process p drops some pages of stacks of others, mostly lost ones, that it has not written for a while; not more at once than
  // thieves may wait for. An acquire would, but who forks and joins without end makes none, while others release it whenever they
  // take work from it, and compare them all. Run by p.
  void drop_idle(int p) {
    ProcessState& s = process(p);
    env_.lock(s.lock);
    std::uint32_t count = 0, left = 0;
    for (std::uint32_t i = 0; i < s.dirty_count; ++i) {
      if (!is_idle_stack_page(s.dirty[i])) continue;
      if (count < kIdleAtOnce)
        s.scratch[count++] = s.dirty[i].page;
      else
        ++left;
    }
    drop_dirty(p, count);
    s.idle_stack_pages.store(left, std::memory_order_relaxed);
    env_.unlock(s.lock);
  }

  // ---------------------------------------------------------------- both

  static constexpr std::uint64_t kUnknownTick = ~std::uint64_t{0};
  std::uint64_t tick() { return env_.tick(); }

  // What happened on process `from` before tick `since` is seen on process `to`; run by `to` (C11).
  void pass(int from, int to, std::uint64_t since) {
    ProcessState& f = process(from);
    if (f.release_begun.load(std::memory_order_acquire) <= since) release(from);
    const std::uint64_t done = f.release_done.load(std::memory_order_acquire);
    if (process(to).acquire_begun.load(std::memory_order_acquire) <= done) acquire(to);
  }

  // ---------------------------------------------------------------- movement of a slot

  // Moves `slot` from victim to thief with the used part of the stack, pages [first_used, slot end). Both process locks
  // are held, the victim has released, the caller is a thread of `thief`. The thief's pages are not mapped here; returns the
  // page from which on all were dirty there, and so are mapped as a rule (a fault maps what is not, C3).
  PageIndex hand_over(SlotIndex slot, PageIndex first_used, int victim, int thief) {
    SlotLock guard(*this, slot);
    ProcessState& v = process(victim);
    ProcessState& t = process(thief);
    const PageIndex first = env_.slot_first(slot);
    const PageIndex end = first + static_cast<PageIndex>(env_.slot_pages());
    for (PageIndex page = first; page < first_used; ++page) forget(t, page);  // C1
    PageIndex unmapped_end = first_used;
    for (PageIndex page = first_used; page < end; ++page) {
      env_.point();
      std::byte* const from = env_.page_in(victim, page);
      std::byte* const to = env_.page_in(thief, page);
      const std::uint32_t twin = allocate_twin(v);
      std::byte* const truth = twin_bytes(v, twin);  // C7: read once, kept as the victim's twin
      snapshot(truth, from);
      env_.point();
      if (state(t, page) == kDirty && !env_.bug(Bug::kNoOverlay)) {
        std::byte* const old = twin_bytes(t, t.dirty[index(t, page)].twin);
        forward(truth, old, to);  // C9
      } else {
        diff::refresh(to, truth);
      }
      if (state(t, page) != kDirty) unmapped_end = page + 1;
      forget(t, page);  // C1
      s_set_dirty(v, page, twin);
      if (env_.bug(Bug::kNoVictimTwin)) {
        env_.point();
        snapshot(truth, from);
      }
      t.counters.bytes_received += gas::kPageBytes;
      v.counters.bytes_sent += gas::kPageBytes;
    }
    env_.set_owner(slot, thief);
    lose(v, slot);
    return unmapped_end;
  }

  // A dead stack changes hands: no bytes move. Both process locks are held.
  void take_dead_slot(SlotIndex slot, int old_owner, int new_owner) {
    SlotLock guard(*this, slot);
    ProcessState& n = process(new_owner);
    const PageIndex first = env_.slot_first(slot);
    for (PageIndex page = first; page < first + env_.slot_pages(); ++page) forget(n, page);  // C1
    env_.set_owner(slot, new_owner);
    lose(process(old_owner), slot);
  }

  // ---------------------------------------------------------------- direct access

  // Calls f(pointer into the owner's copy) with the owner of the address held still.
  template <class F>
  auto at_owner(PageIndex page, std::size_t offset, F&& f) {
    SlotLock guard(*this, env_.slot_of(page));
    return f(env_.page_in(std::max(env_.owner_of(page), 0), page) + offset);  // a wild address: anybody's memory
  }

  // Stores a value of `bytes` bytes into the owner's copy and, so that no late diff undoes it, into p's own copy and
  // twin. The value must not cross a page.
  void write_through(int p, PageIndex page, std::size_t offset, const void* value, std::size_t bytes) {
    ProcessState& s = process(p);
    env_.lock(s.lock);
    if (state(s, page) == kDirty) std::memcpy(twin_bytes(s, s.dirty[index(s, page)].twin) + offset, value, bytes);
    if (state(s, page) != kInvalid) std::memcpy(env_.page_in(p, page) + offset, value, bytes);
    at_owner(page, offset, [&](std::byte* at) { std::memcpy(at, value, bytes); });
    env_.unlock(s.lock);
  }

  // Makes p's own copy and twin of some bytes, if it has any, equal to the owner's: the bytes were changed only through
  // at_owner and are about to be used plainly again.
  void write_back(int p, PageIndex page, std::size_t offset, std::size_t bytes) {
    ProcessState& s = process(p);
    env_.lock(s.lock);
    if (state(s, page) != kInvalid) {
      at_owner(page, offset, [&](std::byte* at) { std::memcpy(env_.page_in(p, page) + offset, at, bytes); });
      if (state(s, page) == kDirty)
        std::memcpy(twin_bytes(s, s.dirty[index(s, page)].twin) + offset, env_.page_in(p, page) + offset, bytes);
    }
    env_.unlock(s.lock);
  }

  // Process p lets go of its copies of freed memory that is about to be handed out there: a stale copy would swallow
  // writes that happen to repeat it. Nothing in the range is worth sending.
  void forget_range(int p, PageIndex first, std::size_t pages) {
    ProcessState& s = process(p);
    env_.lock(s.lock);
    std::uint32_t zaps = 0;
    for (PageIndex page = first; page < first + pages; ++page) {
      if (state(s, page) == kInvalid) continue;
      forget(s, page);
      s.scratch[zaps++] = page;
      if (zaps == limits_.run_pages) {
        zap_pages(p, zaps);
        zaps = 0;
      }
    }
    zap_pages(p, zaps);
    env_.unlock(s.lock);
  }

  std::uint32_t state(const ProcessState& s, PageIndex page) const noexcept { return s.table[page] >> 30; }

  // ---------------------------------------------------------------- invariants (simulation, tests)

  // Null, or what is wrong with process p's tables. The caller holds its lock or stands still.
  const char* broken(int p) {
    ProcessState& s = process(p);
    for (std::uint32_t i = 0; i < s.dirty_count; ++i) {
      const PageIndex page = s.dirty[i].page;
      if (s.table[page] != (kDirty << 30 | i)) return "dirty entry and table disagree";
      if (env_.owner_of(page) == p) return "C1: dirty entry of an owned page";
    }
    for (std::uint32_t i = 0; i < s.clean_count; ++i) {
      const PageIndex page = s.clean[i].page;
      if (s.table[page] != (kClean << 30 | i)) return "clean entry and table disagree";
      if (env_.owner_of(page) == p) return "C1: clean entry of an owned page";
    }
    if (s.twins_used - s.free_twin_count != s.dirty_count) return "a twin is lost or shared";
    return nullptr;
  }

 private:
  friend class RemoteCoherence<Env>;

  class SlotLock {
   public:
    SlotLock(Coherence& c, SlotIndex slot) : c_(c), slot_(slot) {
      if (slot_ != gas::kNoSlot) c_.env_.lock(c_.env_.slot(slot_).lock);
    }
    ~SlotLock() {
      if (slot_ != gas::kNoSlot) c_.env_.unlock(c_.env_.slot(slot_).lock);
    }
    SlotLock(const SlotLock&) = delete;
    SlotLock& operator=(const SlotLock&) = delete;

   private:
    Coherence& c_;
    SlotIndex slot_;
  };

  static std::uint32_t index(const ProcessState& s, PageIndex page) noexcept { return s.table[page] & 0x3fffffffu; }
  static std::byte* twin_bytes(ProcessState& s, std::uint32_t twin) noexcept {
    return s.twins + std::size_t{twin} * gas::kPageBytes;
  }
  std::uint32_t allocate_twin(ProcessState& s) {
    return s.free_twin_count > 0 ? s.free_twins[--s.free_twin_count] : s.twins_used++;
  }

  static void lose(ProcessState& s, SlotIndex slot) {
    if (s.lost_mark[slot] != 0) return;
    s.lost_mark[slot] = 1;
    s.lost[s.lost_count++] = slot;
  }

  static void snapshot(std::byte* to, std::byte* from) noexcept {
    for (std::size_t i = 0; i < diff::kWords; ++i) diff::store(diff::words(to) + i, diff::load(diff::words(from) + i));
  }

  void add_clean(ProcessState& s, PageIndex page, std::uint8_t kind) {
    if (s.clean_count >= limits_.clean_pages) [[unlikely]]
      env_.table_full();
    s.clean[s.clean_count] = {page, 0, 0, kind};
    s.table[page] = kClean << 30 | s.clean_count++;
  }
  void remove_clean(ProcessState& s, PageIndex page) {
    const std::uint32_t i = index(s, page);
    const ProcessState::Clean last = s.clean[--s.clean_count];
    s.clean[i] = last;
    s.table[last.page] = kClean << 30 | i;
    s.table[page] = kHasMemory;
  }
  void remove_dirty(ProcessState& s, PageIndex page) {
    const std::uint32_t i = index(s, page);
    s.free_twins[s.free_twin_count++] = s.dirty[i].twin;
    const ProcessState::Dirty last = s.dirty[--s.dirty_count];
    s.dirty[i] = last;
    s.table[last.page] = kDirty << 30 | i;
    s.table[page] = kHasMemory;
  }
  void forget(ProcessState& s, PageIndex page) {
    if (state(s, page) == kDirty)
      remove_dirty(s, page);
    else if (state(s, page) == kClean)
      remove_clean(s, page);
  }
  void s_set_dirty(ProcessState& s, PageIndex page, std::uint32_t twin) {
    forget(s, page);
    s.dirty[s.dirty_count] = {page, twin, 0};
    s.table[page] = kDirty << 30 | s.dirty_count++;
  }

  // Order in the fault (design, dsm): twin, publish the dirty entry, then grant write.
  void make_dirty(int p, PageIndex page) {
    ProcessState& s = process(p);
    if (s.clean[index(s, page)].kind == ProcessState::kSentAhead) ++s.regretted;
    const std::uint32_t twin = allocate_twin(s);
    diff::copy_page(twin_bytes(s, twin), env_.page_in(p, page));  // not mapped writable, and merges hold our lock
    s_set_dirty(s, page, twin);
    note_written(s, page);
  }

  void fetch_to_write(int p, int owner, PageIndex page) {
    ProcessState& s = process(p);
    const std::uint32_t twin = allocate_twin(s);
    diff::copy_page_twice(env_.page_in(p, page), twin_bytes(s, twin), env_.page_in(owner, page));
    s_set_dirty(s, page, twin);
    note_written(s, page);
  }

  // ---- C10

  static constexpr std::uint32_t kWindow = 1024;  // pages sent ahead between two looks at how many were written again

  void note_written(ProcessState& s, PageIndex page) {
    if (env_.slot_of(page) != gas::kNoSlot) return;
    if (s.written_end - s.written_begin == ProcessState::kWritten) ++s.written_begin;  // that one waits for a release
    s.written[s.written_end++ % ProcessState::kWritten] = page;
  }

  void send_behind(int p) {
    ProcessState& s = process(p);
    if (s.behind == 0) s.behind = limits_.behind_pages;
    if (s.written_end - s.written_begin < s.behind + limits_.run_pages) return;
    std::uint32_t count = 0;
    while (count < limits_.run_pages && s.written_end - s.written_begin > s.behind) {
      const PageIndex page = s.written[s.written_begin++ % ProcessState::kWritten];
      if (state(s, page) == kDirty) s.scratch[count++] = page;
    }
    if (count == 0) return;
    zap_pages(p, count);  // C6
    for (std::uint32_t i = 0; i < count; ++i) {
      env_.point();
      const PageIndex page = s.scratch[i];
      if (state(s, page) != kDirty) continue;  // it was there twice
      if (!env_.bug(Bug::kDropRelease)) send(p, index(s, page), false);
      remove_dirty(s, page);
      add_clean(s, page, ProcessState::kSentAhead);
    }
    // Most of them written again: they were sent too early. Next to none: fewer need to wait.
    s.sent_ahead += count;
    if (s.sent_ahead < kWindow) return;
    if (s.regretted > kWindow / 2 && s.behind < ProcessState::kWritten) s.behind *= 2;
    if (s.regretted < kWindow / 16 && s.behind > limits_.behind_pages) s.behind /= 2;
    s.sent_ahead = s.regretted = 0;
  }

  void fetch(int p, int owner, PageIndex page) {
    diff::copy_page(env_.page_in(p, page), env_.page_in(owner, page));  // not mapped: nobody reads it here
  }

  void map_owned(int p, PageIndex page, SlotIndex slot) {
    ProcessState& s = process(p);
    if (slot != gas::kNoSlot) {
      // Stacks grow down: a few pages below come along, but not with the topmost, which is all that most threads need.
      const PageIndex low = env_.slot_first(slot) + static_cast<PageIndex>(env_.guard_pages());
      const bool topmost = page + 1 == env_.slot_first(slot) + env_.slot_pages();
      const PageIndex first = topmost ? page : page >= low + 3 ? page - 3 : std::min(low, page);
      env_.map_write(p, first, page - first + 1);
      return;
    }
    const Run run = run_for(s, page, p, limits_.owned_first_run_pages, limits_.owned_run_pages);
    env_.map_write(p, run.first, run.end - run.first);
  }

  struct Run {
    PageIndex first, end;
  };

  // The run of pages of one owner to bring in at a fault on `page`, no stack page: an aligned one of `shortest` pages,
  // or, where the fault continues an earlier run upwards or downwards, one of twice its length.
  Run run_for(ProcessState& s, PageIndex page, int owner, std::uint32_t shortest, std::uint32_t longest) {
    Run want{page - page % shortest, page - page % shortest + shortest};
    ProcessState::Stream* stream = nullptr;
    for (ProcessState::Stream& x : s.streams) {
      if (x.first == x.end || (page != x.end && page + 1 != x.first)) continue;
      stream = &x;
      const std::uint32_t pages = std::min((x.end - x.first) * 2, longest);
      want = page == x.end ? Run{page, page + pages} : Run{page + 1 - std::min<PageIndex>(pages, page), page + 1};
      break;
    }
    if (!stream) stream = &s.streams[s.next_stream++ % ProcessState::kStreams];
    Run run{page, page + 1};
    const auto mine = [&](PageIndex x) { return env_.slot_of(x) == gas::kNoSlot && env_.owner_of(x) == owner; };
    const PageIndex pages = static_cast<PageIndex>(env_.pages());
    while (run.first > want.first && mine(run.first - 1)) --run.first;
    while (run.end < want.end && run.end < pages && mine(run.end)) ++run.end;
    *stream = {run.first, run.end};
    return run;
  }

  // Stores the bytes in which `from` differs from `twin` into `to` and makes the twin equal to what was read, if it
  // is kept. Returns their number.
  std::uint64_t forward(std::byte* from, std::byte* twin, std::byte* to, bool keep_twin = true) {
    if constexpr (Env::kWholePages) {
      if (diff::has_wide()) return diff::forward_wide(from, twin, to, keep_twin);
    }
    std::uint64_t bytes = 0;
    diff::for_differing(from, twin, [&](std::size_t w) {
      const diff::Word now = diff::load(diff::words(from) + w);  // read once (C4)
      const diff::Word before = diff::load(diff::words(twin) + w);
      diff::Word mask = diff::differing_bytes(now, before);
      if (mask == 0) return;
      if (env_.bug(Bug::kWordGrainMerge)) mask = ~diff::Word{0};
      env_.point();
      diff::blend(diff::words(to) + w, now, mask);
      diff::store(diff::words(twin) + w, now);
      bytes += diff::count_bytes(mask);
    });
    return bytes;
  }

  // Sends dirty entry i of process p. An entry whose page p owns by now is dropped (C1 makes that rare).
  void send(int p, std::uint32_t i, bool keep_twin = true) {
    ProcessState& s = process(p);
    const PageIndex page = s.dirty[i].page;
    SlotLock guard(*this, env_.slot_of(page));
    const int owner = env_.owner_of(page);
    std::byte* const local = env_.page_in(p, page);
    std::byte* const twin = twin_bytes(s, s.dirty[i].twin);
    std::byte* const remote = env_.page_in(owner, page);
    const std::uint64_t bytes = forward(local, twin, remote, keep_twin);
    if (bytes != 0) {
      s.dirty[i].empty = 0;
      ++s.counters.diffs_sent;
      s.counters.diff_bytes += bytes;
      s.counters.bytes_sent += bytes;
    } else {
      ++s.dirty[i].empty;
    }
  }

  static constexpr std::uint32_t kIdleAtOnce = 32;
  bool is_idle_stack_page(const ProcessState::Dirty& dirty) {
    return dirty.empty >= limits_.empty_releases && env_.slot_of(dirty.page) != gas::kNoSlot;
  }

  void refresh_dirty(int p) {
    ProcessState& s = process(p);
    std::uint32_t idle = 0;
    const std::uint32_t patience = s.dirty_count > limits_.few_dirty_pages ? 1 : limits_.empty_releases;
    for (std::uint32_t i = 0; i < s.dirty_count; ++i)
      if (s.dirty[i].empty >= patience) s.scratch[idle++] = s.dirty[i].page;
    drop_dirty(p, idle);
    for (std::uint32_t i = s.dirty_count; i-- > 0;) {
      env_.point();
      const PageIndex page = s.dirty[i].page;
      if (!env_.bug(Bug::kDropRelease)) send(p, i);  // C5: before the owner's copy is read
      env_.point();
      SlotLock guard(*this, env_.slot_of(page));
      std::byte* const local = env_.page_in(p, page);
      std::byte* const twin = twin_bytes(s, s.dirty[i].twin);
      std::byte* const remote = env_.page_in(env_.owner_of(page), page);
      forward(remote, twin, local);
    }
  }

  // Refreshes the youngest clean pages in place; collects the others in scratch[0, zaps). To compare a page costs as much
  // as to fetch it once more; pages that came in long runs come back in long runs where they are still needed.
  void refresh_clean(int p, std::uint32_t& zaps) {
    ProcessState& s = process(p);
    const std::uint32_t keep_from = s.clean_count > limits_.refresh_pages ? s.clean_count - limits_.refresh_pages : 0;
    const bool many = s.clean_count > limits_.few_clean_pages;
    for (std::uint32_t i = s.clean_count; i-- > 0;) {
      ProcessState::Clean& c = s.clean[i];
      const PageIndex page = c.page;
      env_.point();
      if (i < keep_from || (many && c.kind != ProcessState::kFetched) || ++c.age >= limits_.refresh_age ||
          c.changes >= limits_.refresh_changes) {
        s.scratch[zaps++] = page;
        remove_clean(s, page);
        continue;
      }
      SlotLock guard(*this, env_.slot_of(page));
      std::byte* const remote = env_.page_in(env_.owner_of(page), page);
      if (many) {  // what changes is rarely read again before it changes once more
        if (diff::equal_page(env_.page_in(p, page), remote)) continue;
        s.scratch[zaps++] = page;
        remove_clean(s, page);
      } else if (diff::refresh(env_.page_in(p, page), remote) != 0) {
        ++c.changes;
      }
    }
  }

  // Drops the dirty pages scratch[0, count) (C6).
  void drop_dirty(int p, std::uint32_t count) {
    ProcessState& s = process(p);
    zap_pages(p, count);
    for (std::uint32_t i = 0; i < count; ++i) {
      env_.point();
      const PageIndex page = s.scratch[i];
      if (!env_.bug(Bug::kDropRelease)) send(p, index(s, page), false);
      remove_dirty(s, page);
    }
  }

  // Before a fault adds pages, a run itself and a run that is sent ahead: keeps the tables within their limits, and all
  // mappings within the engine's. The oldest clean pages go: what the last faults brought is there when their accesses
  // are repeated, however small the limit is.
  void make_room(int p) {
    ProcessState& s = process(p);
    const bool pressure = env_.pressure();
    const std::uint32_t added = 2 * limits_.run_pages;
    if (pressure || s.dirty_count + added > limits_.dirty_pages) {
      std::uint32_t count = 0;
      for (std::uint32_t i = 0; i < s.dirty_count; ++i) s.scratch[count++] = s.dirty[i].page;
      drop_dirty(p, count);
    }
    if (pressure || s.clean_count + added > limits_.clean_pages)
      drop_oldest_clean(p, pressure ? s.clean_count : std::max(s.clean_count / 4, std::min(s.clean_count, added)));
    if (pressure) env_.relieved();
  }

  void drop_oldest_clean(int p, std::uint32_t count) {
    ProcessState& s = process(p);
    for (std::uint32_t i = 0; i < count; ++i) s.scratch[i] = s.clean[i].page;
    zap_pages(p, count);
    for (std::uint32_t i = 0; i < count; ++i) {
      env_.discard(p, s.scratch[i]);
      s.table[s.scratch[i]] = 0;
    }
    for (std::uint32_t i = count; i < s.clean_count; ++i) {
      s.clean[i - count] = s.clean[i];
      s.table[s.clean[i].page] = kClean << 30 | (i - count);
    }
    s.clean_count -= count;
  }

  // Takes the mappings of scratch[0, count) in ranges, also across gaps that are not mapped.
  void zap_pages(int p, std::uint32_t count) {
    if (count == 0) return;
    ProcessState& s = process(p);
    s.counters.invalidations += count;
    std::sort(s.scratch, s.scratch + count);
    std::uint32_t at = 0;
    while (at < count) {
      const PageIndex first = s.scratch[at];
      PageIndex end = first + 1;
      while (++at < count && s.scratch[at] == end) ++end;
      env_.zap(p, first, end - first);
    }
  }

  void drop_lost_slots(int p) {
    ProcessState& s = process(p);
    const std::uint32_t count = s.lost_count;
    s.lost_count = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const SlotIndex slot = s.lost[i];
      s.lost_mark[slot] = 0;
      SlotLock guard(*this, slot);
      if (env_.slot_owner(slot) == p || env_.bug(Bug::kKeepLostSlot)) continue;  // it came back
      const PageIndex first = env_.slot_first(slot) + static_cast<PageIndex>(env_.guard_pages());
      const PageIndex end = env_.slot_first(slot) + static_cast<PageIndex>(env_.slot_pages());
      PageIndex from = first;
      for (PageIndex page = first; page <= end; ++page) {
        const bool dirty = page < end && state(s, page) == kDirty;
        if (page < end && !dirty) {
          if (state(s, page) == kClean) remove_clean(s, page);
          continue;
        }
        env_.point();
        if (page > from) env_.zap(p, from, page - from);
        from = page + 1;
      }
      ++s.counters.invalidations;
    }
  }

  Env& env_;
  ProcessState* const* processes_;  // Constant after construction.
  int count_;
  Limits limits_;
};

}  // namespace ayatori::dsm
