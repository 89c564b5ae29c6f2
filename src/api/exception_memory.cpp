// SPDX-License-Identifier: Apache-2.0
// Memory of thrown exceptions. What is thrown on a user-level thread lies in the space, so that the exception can be
// caught, rethrown and freed on another process; the C++ library's own functions would take the C library's memory.
// These four replace them at link time, for the C++ library's own throws too (symbol interposition by the program).
//
// Who calls it: the compiler's code for throw, the C++ library, on any stack.
//
// X1. Of exception_layout.hpp.
// X2. Throwing must not fail: where the space has no room, the C library's memory is taken, then a reserve.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "api/exception_layout.hpp"
#include "api/space_new.hpp"
#include "gas/heap.hpp"

namespace {

using ayatori::api::DependentException;
using ayatori::api::RefcountedException;

// For bad_alloc and the like when there is no memory at all (X2).
struct Reserve {
  static constexpr std::size_t kSlots = 64;
  static constexpr std::size_t kSlotBytes = 1024;
  std::atomic<bool> used[kSlots];
  alignas(16) std::byte slots[kSlots][kSlotBytes];
};
constinit Reserve reserve_memory{};

void* take_reserve(std::size_t bytes) noexcept {
  if (bytes > Reserve::kSlotBytes) return nullptr;
  for (std::size_t i = 0; i < Reserve::kSlots; ++i)
    // acquire: pairs with the release in give_reserve
    if (!reserve_memory.used[i].exchange(true, std::memory_order_acquire)) return reserve_memory.slots[i];
  return nullptr;
}

bool give_reserve(void* address) noexcept {
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(address) - reserve_memory.slots[0]);
  if (offset >= sizeof(reserve_memory.slots)) return false;
  reserve_memory.used[offset / Reserve::kSlotBytes].store(false, std::memory_order_release);
  return true;
}

// Zeroed in its first `header` bytes.
void* take(std::size_t bytes, std::size_t header) noexcept {
  void* address = ayatori::api::wants_space() ? ayatori::gas::heap::allocate(bytes) : nullptr;
  if (address == nullptr) address = std::malloc(bytes);
  if (address == nullptr) address = take_reserve(bytes);
  if (address == nullptr) std::terminate();
  std::memset(address, 0, header);
  return address;
}

void give(void* address) noexcept {
  if (ayatori::gas::contains(address))
    ayatori::gas::heap::deallocate(address);
  else if (!give_reserve(address))
    std::free(address);
}

}  // namespace

extern "C" {

void* __cxa_allocate_exception(std::size_t bytes) noexcept {
  return static_cast<std::byte*>(take(bytes + sizeof(RefcountedException), sizeof(RefcountedException))) +
         sizeof(RefcountedException);
}

void __cxa_free_exception(void* thrown) noexcept {
  give(static_cast<std::byte*>(thrown) - sizeof(RefcountedException));
}

void* __cxa_allocate_dependent_exception() noexcept {
  return take(sizeof(DependentException), sizeof(DependentException));
}

void __cxa_free_dependent_exception(void* exception) noexcept { give(exception); }

}  // extern "C"
