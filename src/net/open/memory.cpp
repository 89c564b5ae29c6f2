// SPDX-License-Identifier: Apache-2.0
#include "net/open/memory.hpp"

#include <ayatori/net.hpp>

#include <sys/mman.h>

#include <cerrno>
#include <iterator>
#include <map>
#include <mutex>
#include <new>

#include "base/check.hpp"
#include "base/knobs.hpp"
#include "net/bootstrap/bootstrap.hpp"

namespace ayatori::net {
namespace {

constexpr std::size_t kPage = 4096;

struct Arena {
  // Constant after the fork, or guarded by mutex: members that were started apart get it later.
  std::byte* base = nullptr;  // of all parts; nullptr: there is no arena
  std::size_t part_bytes = 0;
  std::size_t bytes = 0;
  int self = -1;  // whose part is ours; -1: that of this number among those of the machine

  // Guarded by mutex.
  std::mutex mutex;
  bool attached = false;                    // `free` is there
  std::map<std::byte*, std::size_t> free;   // of our part, by address; no two touch
  std::map<std::byte*, std::size_t> given;  // in and outside the arena

  bool holds(const std::byte* memory) const noexcept {
    return base != nullptr && memory >= base && memory < base + bytes;
  }
};

Arena& arena() {
  static Arena* const the_arena = new Arena;  // never destroyed: programs free memory in destructors of their own
  return *the_arena;
}

void map_parts(Arena& arena, shm::ShmWorld& world, int processes, std::size_t bytes_each) {
  arena.bytes = memory::bytes_of_parts(processes, bytes_each);
  arena.part_bytes = arena.bytes / static_cast<std::size_t>(processes);
  arena.base = static_cast<std::byte*>(world.map_shared(arena.bytes));
}

void* take(Arena& arena, std::size_t bytes) {
  if (!arena.attached) {
    const auto self = static_cast<std::size_t>(arena.self >= 0 ? arena.self : bootstrap::job().process_id);
    arena.free.emplace(arena.base + self * arena.part_bytes, arena.part_bytes);
    arena.attached = true;
  }
  for (auto at = arena.free.begin(); at != arena.free.end(); ++at) {
    if (at->second < bytes) continue;
    std::byte* const memory = at->first;
    arena.given.emplace(memory, bytes);
    const std::size_t rest = at->second - bytes;
    if (rest != 0) arena.free.emplace(memory + bytes, rest);
    arena.free.erase(at);
    return memory;
  }
  return nullptr;
}

void give_back(Arena& arena, std::byte* memory, std::size_t bytes) {
  ::madvise(memory, bytes, MADV_REMOVE);  // A2
  auto next = arena.free.upper_bound(memory);
  if (next != arena.free.end() && memory + bytes == next->first) {
    bytes += next->second;
    next = arena.free.erase(next);
  }
  if (next != arena.free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == memory) {
      before->second += bytes;
      return;
    }
  }
  arena.free.emplace(memory, bytes);
}

}  // namespace

base::Status memory::reserve(shm::ShmWorld& world, int processes, std::size_t bytes_each) {
  if (processes == 1) return base::ok_status();
  Arena& arena = net::arena();
  map_parts(arena, world, processes, bytes_each);
  if (arena.base != nullptr) return base::ok_status();
  return base::system_status(errno, base::formatted("cannot reserve {} for each of {} processes (AYATORI_NET_MEMORY)",
                                                    base::size_text(arena.part_bytes), processes));
}

std::size_t memory::bytes_of_parts(int processes, std::size_t bytes_each) {
  return (bytes_each + kPage - 1) / kPage * kPage * static_cast<std::size_t>(processes);
}

bool memory::is_reserved() noexcept {
  Arena& arena = net::arena();
  std::lock_guard lock(arena.mutex);
  return arena.base != nullptr;
}

void memory::reserve_apart(shm::ShmWorld& world, int self, int processes, std::size_t bytes_each) {
  Arena& arena = net::arena();
  std::lock_guard lock(arena.mutex);
  AYT_CHECK(arena.base == nullptr);
  arena.self = self;
  map_parts(arena, world, processes, bytes_each);
  AYT_CHECK(arena.base != nullptr, "a world without room for {} bytes", arena.bytes);
}

void* allocate_memory(std::size_t bytes) noexcept try {
  if (bytes > PTRDIFF_MAX - kPage) return nullptr;
  bytes = bytes == 0 ? kPage : (bytes + kPage - 1) / kPage * kPage;
  Arena& arena = net::arena();
  std::lock_guard lock(arena.mutex);
  if (arena.base != nullptr) {
    void* const part = take(arena, bytes);
    if (part != nullptr || arena.self < 0)
      return part;  // members that were started apart go on with memory of their own
  }
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  arena.given.emplace(static_cast<std::byte*>(memory), bytes);
  return memory;
} catch (const std::bad_alloc&) {
  return nullptr;
}

void free_memory(void* memory) noexcept {
  if (memory == nullptr) return;
  Arena& arena = net::arena();
  std::lock_guard lock(arena.mutex);
  const auto at = arena.given.find(static_cast<std::byte*>(memory));
  AYT_CHECK(at != arena.given.end(), "free_memory() of what allocate_memory() did not give");
  const std::size_t bytes = at->second;
  arena.given.erase(at);
  if (auto* const bytes_at = static_cast<std::byte*>(memory); arena.holds(bytes_at))
    give_back(arena, bytes_at, bytes);
  else
    ::munmap(memory, bytes);
}

}  // namespace ayatori::net
