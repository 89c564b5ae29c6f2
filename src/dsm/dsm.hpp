// SPDX-License-Identifier: Apache-2.0
// The coherence layer of the real machine: the protocol of coherence.hpp over gas, a fault engine and shared memory.
//
// Who calls it: tasks and api on native stacks; the fault handler. reserve() before the fork, attach() after it. With
// one process every function here is a no-op or an ordinary memory access.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include <ayatori/net/transport.hpp>
#include "dsm/coherence.hpp"
#include "dsm/fault/engine.hpp"
#include "gas/space.hpp"

namespace ayatori::dsm {

// Env of the real machine.
struct RealEnv {
  static constexpr bool kWholePages = true;  // nothing looks between the words of a page
  void lock(base::SharedLock& l) noexcept { l.lock(); }
  void unlock(base::SharedLock& l) noexcept { l.unlock(); }
  std::byte* page_in(int p, PageIndex page) noexcept { return gas::page_in(p, page); }
  int owner_of(PageIndex page) noexcept { return gas::owner_of(page); }
  std::size_t owner_run(PageIndex page) noexcept { return gas::owner_run(page); }
  SlotIndex slot_of(PageIndex page) noexcept { return gas::slot_of(page); }
  gas::SlotEntry& slot(SlotIndex s) noexcept { return gas::slot_entry(s); }
  int slot_owner(SlotIndex s) noexcept {
    return static_cast<int>(gas::slot_entry(s).owner.load(std::memory_order_relaxed));  // under the slot's lock
  }
  void set_owner(SlotIndex s, int p) noexcept {
    gas::slot_entry(s).owner.store(static_cast<std::uint32_t>(p), std::memory_order_release);  // read by hints, acquire
  }
  PageIndex slot_first(SlotIndex s) noexcept { return gas::slot_first(s); }
  std::size_t slot_pages() noexcept { return gas::layout().slot_pages; }
  std::size_t guard_pages() noexcept;
  std::size_t pages() noexcept { return gas::layout().pages; }
  void map_read(int, PageIndex first, std::size_t pages) { engine().map_read(first, pages); }
  void map_write(int, PageIndex first, std::size_t pages) { engine().map_write(first, pages); }
  void zap(int, PageIndex first, std::size_t pages) { engine().zap(first, pages); }
  void populate(int p, PageIndex first, std::size_t pages) noexcept { gas::populate(p, first, pages); }
  void discard(int p, PageIndex page) { gas::punch(p, page, 1); }
  bool pressure() noexcept;
  void relieved() noexcept;
  [[noreturn]] void table_full();  // never: make_room()
  void releasing(int p);
  void released(int p);
  std::uint64_t tick() noexcept { return clock->fetch_add(1, std::memory_order_seq_cst) + 1; }
  std::atomic<std::uint64_t>* clock = nullptr;  // of the job; set by reserve()
  void point() noexcept {}
  static constexpr bool bug(Bug) noexcept { return false; }
};

using Protocol = Coherence<RealEnv>;
using RemoteProtocol = RemoteCoherence<RealEnv>;

struct Hooks {
  void (*stack_overflow)(void* address, void* context) = nullptr;  // as in FaultHooks, also the next
  bool (*is_beyond_stack)(const void* context) = nullptr;
  // At the start and the end of a release, under the process's lock.
  void (*releasing)(int process) = nullptr;
  void (*released)(int process) = nullptr;
  // apart(): joins the job's network, before the run, as memory that another process holds is needed.
  void (*connect)() = nullptr;
};

void reserve(int processes);
// Starts the fault engine of this member. `why`: the reason of a fallback.
const Engine& attach(int self, const Hooks& hooks, std::string* why);

// Where no process reaches another one's memory (gas::apart()): after attach(), before the transport starts; and after that.
void attach_network(net::Transport& transport);
void start_network();

Protocol& protocol() noexcept;
RemoteProtocol* remote() noexcept;     // null where processes share memory
bool coherent_by_hardware() noexcept;  // one process: nothing to do

// release_all of any process (without shared memory: of this one), acquire_all of this one (thesis 6.2.2). On a native stack.
void release(int process);
void acquire();

// Completes the fetches that have arrived (AYATORI_NET_DELAY). Native stack. Null-like when there is no delay.
void poll();
void start_progress();  // once, when the run starts
bool fetches_take_time() noexcept;

// Makes [address, address + bytes) accessible to system calls now; any stack. Addresses outside the space are ignored.
void prefault(const void* address, std::size_t bytes, bool write);

inline constexpr std::size_t kGuardPages = 4;  // lowest pages of a slot, never accessible
// How many of the topmost pages of a stack threads of this process turn out to use, 1 to 4: worth mapping at once. A hint of
// others, where processes share memory.
std::size_t usual_stack_pages() noexcept;
std::size_t usual_stack_pages(int process) noexcept;
// Where processes share memory: who releases that process compares many stack pages that it no longer writes; a hint. And this
// process drops them (Coherence::drop_idle()). Native stack, no lock held.
bool has_idle_stack_pages(int process) noexcept;
void drop_idle_stack_pages();
std::uint64_t fault_ns() noexcept;  // time this process spent in faults

}  // namespace ayatori::dsm
