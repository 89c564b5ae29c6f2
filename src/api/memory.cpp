// SPDX-License-Identifier: Apache-2.0
// Memory of the space as programs ask for it by name: ayatori::allocate and its kin, the C functions, the memory
// resource. Called on any OS thread, any stack; contents are touched through the user view, as the caller would.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory_resource>
#include <new>

#include "api/space_new.hpp"
#include "ayatori/ayatori.h"
#include "ayatori/ayatori.hpp"
#include "base/check.hpp"
#include "gas/heap.hpp"
#include "ult/current.hpp"

namespace ayatori {

namespace heap = gas::heap;

namespace {

// realloc leaves what is no larger where it is, however little is wanted.
constexpr std::size_t kNeverMovedBytes = 128;

// SpaceNew objects of this OS thread that live. They are meant for code that forks no threads (initialisers).
constinit thread_local int space_new_depth = 0;

class SpaceResource final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t align) override { return ayatori::allocate(bytes, align); }
  void do_deallocate(void* address, std::size_t, std::size_t) override { ayatori::deallocate(address); }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

// Never inlined, so that no caller keeps the address of a thread-local across a switch of threads.
[[gnu::noinline]] void add_space_new(int delta) noexcept { space_new_depth += delta; }
[[gnu::noinline]] bool in_space_new() noexcept { return space_new_depth > 0; }
[[gnu::noinline]] void* out_of_memory() noexcept {
  errno = ENOMEM;
  return nullptr;
}

void* or_enomem(void* address) noexcept { return address != nullptr ? address : out_of_memory(); }

}  // namespace

namespace api {

bool wants_space() noexcept { return (ult::on_user_thread() || in_space_new()) && heap::ready(); }

}  // namespace api

namespace detail {

SpaceNew::SpaceNew() noexcept { add_space_new(+1); }
SpaceNew::~SpaceNew() { add_space_new(-1); }

}  // namespace detail

bool in_space(const void* address) noexcept { return gas::contains(address); }

void* allocate(std::size_t bytes, std::size_t align) {
  AYT_CHECK(std::has_single_bit(align), "allocate: an alignment of {} is no power of two", align);
  if (void* const address = heap::allocate(bytes, std::max(align, heap::kMinAlign))) return address;
  throw std::bad_alloc();
}

void deallocate(void* address) noexcept { heap::deallocate(address); }

std::pmr::memory_resource* space_resource() noexcept {
  // At one address in all members, as they come from one image; built by the compiler: a container may be used in a
  // process that never called this. Never destroyed: containers may outlive it.
  union Forever {
    constexpr Forever() : resource() {}
    ~Forever() {}
    SpaceResource resource;
  };
  static constinit Forever forever;
  return &forever.resource;
}

}  // namespace ayatori

extern "C" {

void* ayatori_malloc(size_t bytes) { return ayatori::or_enomem(ayatori::heap::allocate(bytes)); }

void* ayatori_calloc(size_t count, size_t bytes) {
  size_t all;
  if (__builtin_mul_overflow(count, bytes, &all)) return ayatori::out_of_memory();
  return ayatori::or_enomem(ayatori::heap::allocate_zeroed(all));
}

void* ayatori_realloc(void* address, size_t bytes) {
  namespace heap = ayatori::heap;
  if (address == nullptr) return ayatori_malloc(bytes);
  const size_t room = heap::usable_size(address);
  if (bytes == 0) {
    heap::deallocate(address);
    return nullptr;
  }
  if (bytes <= room && (bytes >= room / 2 || room <= ayatori::kNeverMovedBytes)) return address;
  void* const moved = heap::allocate(bytes);
  if (moved == nullptr) return bytes <= room ? address : ayatori::out_of_memory();
  std::memcpy(moved, address, std::min(bytes, room));
  heap::deallocate(address);
  return moved;
}

void* ayatori_aligned_alloc(size_t align, size_t bytes) {
  if (!std::has_single_bit(align)) {
    errno = EINVAL;
    return nullptr;
  }
  return ayatori::or_enomem(ayatori::heap::allocate(bytes, std::max(align, ayatori::heap::kMinAlign)));
}

void ayatori_free(void* address) { ayatori::heap::deallocate(address); }

}  // extern "C"
