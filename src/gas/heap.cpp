// SPDX-License-Identifier: Apache-2.0
// Entry points of the heap: the fast paths, and what they leave to the parts in heap/. Rules: heap.hpp.
#include "gas/heap.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/check.hpp"
#include "gas/heap/arena.hpp"
#include "gas/heap/cache.hpp"
#include "gas/heap/large.hpp"
#include "gas/heap/pending.hpp"

namespace ayatori::gas::heap {
namespace {

struct HeapState {
  Hooks hooks;         // set before user threads run
  int self = 0;        // Constant after attach().
  bool alone = true;   // Constant after reserve(): one process
  bool ready = false;  // Constant after attach().
};
constinit HeapState heap_state;
constexpr ArenaTables& tables = arena_tables;

// Where processes share no memory, process 0 knows of segments, and of an object the process in whose arena it lies.
constexpr int kLargeProcess = 0;
int knower_of(const void* address) noexcept {
  const std::size_t offset = arena_offset(address);
  return offset < tables.bytes ? static_cast<int>(offset / tables.arena_bytes) : kLargeProcess;
}
bool asks_elsewhere(int knower) noexcept { return apart() && knower != heap_state.self; }

// ---- slow paths. Their arguments lie in the thread's cache: `function` may run on another stack.

[[gnu::noinline]] void call_native(void (*function)(void*), ThreadCache* cache) noexcept {
  const int saved = errno;  // madvise and mmap set it; the thread stays on its OS thread (H6)
  if (heap_state.hooks.call_native != nullptr)
    heap_state.hooks.call_native(function, cache);
  else
    function(cache);
  errno = saved;
}

void refill(void* argument) {
  auto& cache = *static_cast<ThreadCache*>(argument);
  Bin& bin = cache.bins[cache.call.size_class];
  // Larger objects are too rare, and their slabs too large, for lists of their own.
  const std::uint32_t shard = kSizeClasses[cache.call.size_class].units == 1 ? cache.shard : 0;
  bin.count = take_objects(cache.call.size_class, shard, bin.objects, bin.capacity / 2);
  std::reverse(bin.objects, bin.objects + bin.count);  // handed out by ascending address
}

void flush_half(void* argument) {
  auto& cache = *static_cast<ThreadCache*>(argument);
  Bin& bin = cache.bins[cache.call.size_class];
  const std::uint32_t count = std::min(bin.count, (bin.capacity + 1) / 2);
  return_objects(cache.call.size_class, bin.objects, count);
  bin.count -= count;
  std::memmove(bin.objects, bin.objects + count, bin.count * sizeof(void*));
}

void take_span_call(void* argument) {
  SlowCall& call = static_cast<ThreadCache*>(argument)->call;
  call.address = take_span(call.bytes);
}
void return_span_call(void* argument) { return_span(static_cast<ThreadCache*>(argument)->call.address); }

void take_large_call(void* argument) {
  SlowCall& call = static_cast<ThreadCache*>(argument)->call;
  if (!asks_elsewhere(kLargeProcess)) {
    call.address = take_large(heap_state.self, call.bytes, call.align, heap_state.hooks.forget_pages, call.zero);
    return;
  }
  Segment segment;
  call.address = heap_state.hooks.take_large_elsewhere(call.bytes, call.align, &segment, &call.zero);
  if (call.address != nullptr) heap_state.hooks.forget_pages(segment.first, segment.pages);
}
void size_call(void* argument) {
  SlowCall& call = static_cast<ThreadCache*>(argument)->call;
  call.bytes = heap_state.hooks.size_elsewhere(call.process, call.address);
}
void collect_large_call(void*) { collect_large(); }

// ---- allocation

void* hand_out(void* object, std::uint32_t size_class) noexcept {
  // relaxed: the program orders the hand-over of an address
  grain_of(arena_offset(object)).store(static_cast<std::uint8_t>(size_class + 1), std::memory_order_relaxed);
  return object;
}

[[gnu::noinline]] void* allocate_large(std::size_t bytes, std::size_t align, bool& zero) noexcept {
  ThreadCache* const cache = current_cache();
  cache->call.bytes = bytes;
  cache->call.align = std::max(align, kPageBytes);
  call_native(take_large_call, cache);
  zero = cache->call.zero;
  return cache->call.address;
}

[[gnu::noinline]] void* allocate_span(std::size_t bytes) noexcept {
  ThreadCache* const cache = current_cache();
  cache->call.bytes = bytes;
  call_native(take_span_call, cache);
  if (cache->call.address != nullptr) return hand_out(cache->call.address, kSpanClass);
  bool zero;
  return bytes > kClassBytesMax ? allocate_large(bytes, kPageBytes, zero) : nullptr;
}

[[gnu::noinline]] void* allocate_refilled(std::uint32_t size_class) noexcept {
  if (!heap_state.ready) return nullptr;
  ThreadCache* const cache = current_cache();
  Bin& bin = cache->bins[size_class];
  if (bin.count == 0) {
    cache->call.size_class = size_class;
    call_native(refill, cache);
  }
  if (bin.count != 0) return hand_out(bin.objects[--bin.count], size_class);
  // No room for a slab: perhaps for a single object.
  return kSizeClasses[size_class].units > 1 ? allocate_span(kUnitBytes) : nullptr;
}

[[gnu::noinline]] void* allocate_unusual(std::size_t bytes, std::size_t align) noexcept {
  if (!heap_state.ready) return nullptr;
  bool zero;
  if (bytes >= kLargeBytes || align > kUnitBytes) return allocate_large(std::max<std::size_t>(bytes, 1), align, zero);
  if (bytes > kClassBytesMax) return allocate_span(bytes);
  // Slabs begin at multiples of 64 KiB, so objects whose size is a multiple of `align` are aligned to it.
  std::uint32_t size_class = class_of(std::max(bytes, align));
  while (kSizeClasses[size_class].bytes % align != 0) ++size_class;
  return allocate_refilled(size_class);
}

// ---- free

[[noreturn, gnu::cold, gnu::noinline]] void refuse(const char* call, const void* address) noexcept {
  const char* why = "it is no address of the space";
  if (contains(address)) why = "it is no allocation of the heap";
  if (const std::size_t offset = arena_offset(address); offset < tables.bytes) {
    const std::uint8_t grain = grain_of(offset).load(std::memory_order_relaxed);
    if (grain == kGrainFreed || grain == kGrainPending) why = "it has been freed before";
  }
  base::fatal("{} of {}: {}", call, address, why);
}

// H3. The object is marked as no longer live.
[[gnu::noinline]] void free_later(void* object, std::size_t bytes) noexcept {
  for (base::Backoff backoff;; backoff.wait()) {
    const Added added = add_pending(heap_state.self, object, bytes);
    if (added == Added::kQuietly) return;
    AYT_CHECK(added != Added::kNoRoom || heap_state.hooks.request_release != nullptr,
              "process {} has freed too much without a release", heap_state.self);
    if (heap_state.hooks.request_release != nullptr) heap_state.hooks.request_release();
    if (added != Added::kNoRoom) break;
  }
  if (large_posted()) call_native(collect_large_call, current_cache());  // afresh: the hook may have moved us
}

[[gnu::noinline]] void deallocate_large(void* address) noexcept {
  if (!heap_state.ready) refuse("free", address);
  if (asks_elsewhere(kLargeProcess) && contains(address)) return free_later(address, kLargeBytes);  // checked there
  const std::size_t bytes = large_bytes(address);
  if (bytes == 0 || !retire_large(address)) refuse("free", address);
  if (!heap_state.alone) return free_later(address, bytes);
  post_large(address);
  call_native(collect_large_call, current_cache());
}

[[gnu::noinline]] void deallocate_span(void* object) noexcept {
  ThreadCache* const cache = current_cache();
  cache->call.address = object;
  call_native(return_span_call, cache);
}

[[gnu::noinline]] void deallocate_elsewhere(void* object, std::uint32_t size_class) noexcept {
  auto live = static_cast<std::uint8_t>(size_class + 1);
  if (!grain_of(arena_offset(object)).compare_exchange_strong(live, kGrainPending, std::memory_order_relaxed))
    refuse("free", object);
  free_later(object, object_bytes(object, size_class));
}

[[gnu::noinline]] void put_into_full(ThreadCache* cache, void* object, std::uint32_t size_class) noexcept {
  if (cache == nullptr) cache = current_cache();
  Bin& bin = cache->bins[size_class];
  if (bin.count == bin.capacity) {
    cache->call.size_class = size_class;
    call_native(flush_half, cache);
  }
  bin.objects[bin.count++] = object;
}

// What a release hands to other processes, which share no memory with this one. Guarded by this process's lock.
using Elsewhere = std::array<std::vector<void*>, kMaxProcesses>;
Elsewhere& elsewhere() noexcept {
  static auto* const objects = new Elsewhere;  // outlives main: releases go on
  return *objects;
}

void deliver(void* object) noexcept {
  if (const int knower = knower_of(object); asks_elsewhere(knower)) {
    elsewhere()[static_cast<std::size_t>(knower)].push_back(object);
    return;
  }
  if (arena_offset(object) < tables.bytes)
    post(object);
  else
    post_large(object);
}

}  // namespace

void reserve(int processes) {
  reserve_arenas(processes);
  reserve_pending(processes);
  reserve_large(processes);
  heap_state.alone = processes == 1;
}

void attach(int self) {
  attach_arena(self);
  prepare_caches();
  heap_state.self = self;
  heap_state.ready = true;
}

void set_hooks(const Hooks& hooks) noexcept { heap_state.hooks = hooks; }
bool ready() noexcept { return heap_state.ready; }

[[gnu::noinline]] void* allocate(std::size_t bytes, std::size_t align) noexcept {
  if (bytes > kClassBytesMax || align > kMinAlign) [[unlikely]]
    return allocate_unusual(bytes, align);
  const std::uint32_t size_class = class_of(bytes);
  ThreadCache* const cache = detail::cache_of_thread;
  if (cache != nullptr) [[likely]] {
    Bin& bin = cache->bins[size_class];
    if (bin.count != 0) [[likely]]
      return hand_out(bin.objects[--bin.count], size_class);
  }
  return allocate_refilled(size_class);
}

void* allocate_zeroed(std::size_t bytes) noexcept {
  bool zero = false;
  void* const address =
      bytes >= kLargeBytes && heap_state.ready ? allocate_large(bytes, kPageBytes, zero) : allocate(bytes);
  if (address != nullptr && !zero) std::memset(address, 0, bytes);
  return address;
}

[[gnu::noinline]] void deallocate(void* address) noexcept {
  const std::size_t offset = arena_offset(address);
  if (offset >= tables.bytes) [[unlikely]] {
    if (address != nullptr) deallocate_large(address);
    return;
  }
  std::atomic<std::uint8_t>& grain = grain_of(offset);
  const std::uint32_t size_class = grain.load(std::memory_order_relaxed) - 1u;
  if (size_class > kSpanClass || offset % kMinAlign != 0) [[unlikely]] {
    if (asks_elsewhere(knower_of(address)) && offset % kMinAlign == 0) return free_later(address, kMinAlign);
    refuse("free", address);
  }
  if (reinterpret_cast<std::uintptr_t>(address) - tables.home >= tables.arena_bytes) [[unlikely]]
    return deallocate_elsewhere(address, size_class);
  grain.store(kGrainFreed, std::memory_order_relaxed);  // program order is enough to catch most double frees
  if (size_class == kSpanClass) [[unlikely]]
    return deallocate_span(address);
  ThreadCache* const cache = detail::cache_of_thread;
  if (cache == nullptr || cache->bins[size_class].count == cache->bins[size_class].capacity) [[unlikely]]
    return put_into_full(cache, address, size_class);
  Bin& bin = cache->bins[size_class];
  bin.objects[bin.count++] = address;
}

std::size_t usable_size(const void* address) noexcept {
  const std::size_t offset = arena_offset(address);
  if (const int knower = apart() ? knower_of(address) : heap_state.self; asks_elsewhere(knower) && contains(address)) {
    ThreadCache* const cache = current_cache();
    cache->call.process = knower;
    cache->call.address = const_cast<void*>(address);
    call_native(size_call, cache);
    return cache->call.bytes;
  }
  if (offset < tables.bytes) {
    const std::uint32_t size_class = grain_of(offset).load(std::memory_order_relaxed) - 1u;
    if (size_class > kSpanClass || offset % kMinAlign != 0) refuse("size", address);
    return object_bytes(address, size_class);
  }
  const std::size_t bytes = heap_state.ready ? large_bytes(address) : 0;
  if (bytes == 0) refuse("size", address);
  return bytes;
}

void begin_release(int p) noexcept {
  if (!heap_state.alone) seal_pending(p);
}

void deliver_pending(int p) noexcept {
  if (heap_state.alone) return;
  take_sealed(p, deliver);
  seal_pending(p);
  if (!apart()) return;
  for (int q = 0; q < layout().processes; ++q) {
    std::vector<void*>& objects = elsewhere()[static_cast<std::size_t>(q)];
    if (objects.empty()) continue;
    heap_state.hooks.free_elsewhere(q, objects.data(), objects.size());
    objects.clear();
  }
}

void freed_elsewhere(void* const* objects, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    void* const object = objects[i];
    const std::size_t offset = arena_offset(object);
    if (offset >= tables.bytes) {
      if (!retire_large(object)) refuse("free", object);
      post_large(object);
      continue;
    }
    std::uint8_t live = grain_of(offset).load(std::memory_order_relaxed);
    if (live - 1u > kSpanClass || offset % kMinAlign != 0 ||
        !grain_of(offset).compare_exchange_strong(live, kGrainPending, std::memory_order_relaxed))
      refuse("free", object);
    post(object);
  }
  if (large_posted()) collect_large();
}

void* allocate_for(int process, std::size_t bytes, std::size_t align, Segment* segment, bool* zero) noexcept {
  // That process forgets its copies itself.
  void* const address = take_large(process, bytes, align, [](PageIndex, std::size_t) {}, *zero);
  if (address != nullptr) *segment = *find_segment(address);
  return address;
}

void tidy() noexcept {
  if (!heap_state.ready) return;
  collect_posted();
  if (large_posted()) collect_large();
}

Usage usage(int process) noexcept {
  const ArenaState& arena = tables.arenas[process];
  const PendingList& list = pending_list(process);
  return {std::size_t{arena.used_units} << kUnitShift, std::size_t{arena.backed_free} << kUnitShift,
          std::size_t{arena.bump} << kUnitShift, list.objects.load(std::memory_order_relaxed),
          list.bytes.load(std::memory_order_relaxed)};
}

}  // namespace ayatori::gas::heap
