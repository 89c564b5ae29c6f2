// SPDX-License-Identifier: Apache-2.0
// operator new and delete of the program, replaced at link time. On user-level threads they give memory of the space,
// elsewhere the C library's; delete decides by address. A program that links ayatori::local_new does without this file;
// others ask the linker for ayatori_operator_new (-u), or it would not take this member of the archive where a shared
// library (a sanitizer's) has operators of its own.
//
// Who calls it: everybody, the C++ library included. Code of the runtime runs on native stacks wherever it allocates
// and so gets the C library's memory; what runs on the stack of a user-level thread must not use operator new for
// objects of the runtime.
#include <cstdlib>
#include <new>

#include "api/space_new.hpp"
#include "gas/heap.hpp"

namespace {

using ayatori::gas::heap::kMinAlign;

void* try_new(std::size_t bytes, std::size_t align) noexcept {
  if (ayatori::api::wants_space()) return ayatori::gas::heap::allocate(bytes, align < kMinAlign ? kMinAlign : align);
  if (align <= kMinAlign) return std::malloc(bytes != 0 ? bytes : 1);
  void* address = nullptr;
  return posix_memalign(&address, align, bytes != 0 ? bytes : 1) == 0 ? address : nullptr;
}

// As the standard asks: the program's new handler may make room, or throw.
[[gnu::noinline]] void* retry_new(std::size_t bytes, std::size_t align) {
  for (;;) {
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
    if (void* const address = try_new(bytes, align)) return address;
  }
}

void* throwing_new(std::size_t bytes, std::size_t align) {
  if (void* const address = try_new(bytes, align)) [[likely]]
    return address;
  return retry_new(bytes, align);
}

void* quiet_new(std::size_t bytes, std::size_t align) noexcept {
  try {
    return throwing_new(bytes, align);
  } catch (...) {
    return nullptr;
  }
}

void any_delete(void* address) noexcept {
  if (ayatori::gas::contains(address))
    ayatori::gas::heap::deallocate(address);
  else
    std::free(address);
}

}  // namespace

extern "C" {
extern const char ayatori_operator_new;
const char ayatori_operator_new = 1;
}

void* operator new(std::size_t bytes) { return throwing_new(bytes, kMinAlign); }
void* operator new[](std::size_t bytes) { return throwing_new(bytes, kMinAlign); }
void* operator new(std::size_t bytes, std::align_val_t align) {
  return throwing_new(bytes, static_cast<std::size_t>(align));
}
void* operator new[](std::size_t bytes, std::align_val_t align) {
  return throwing_new(bytes, static_cast<std::size_t>(align));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return quiet_new(bytes, kMinAlign); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return quiet_new(bytes, kMinAlign); }
void* operator new(std::size_t bytes, std::align_val_t align, const std::nothrow_t&) noexcept {
  return quiet_new(bytes, static_cast<std::size_t>(align));
}
void* operator new[](std::size_t bytes, std::align_val_t align, const std::nothrow_t&) noexcept {
  return quiet_new(bytes, static_cast<std::size_t>(align));
}

void operator delete(void* address) noexcept { any_delete(address); }
void operator delete[](void* address) noexcept { any_delete(address); }
void operator delete(void* address, std::size_t) noexcept { any_delete(address); }
void operator delete[](void* address, std::size_t) noexcept { any_delete(address); }
void operator delete(void* address, std::align_val_t) noexcept { any_delete(address); }
void operator delete[](void* address, std::align_val_t) noexcept { any_delete(address); }
void operator delete(void* address, std::size_t, std::align_val_t) noexcept { any_delete(address); }
void operator delete[](void* address, std::size_t, std::align_val_t) noexcept { any_delete(address); }
void operator delete(void* address, const std::nothrow_t&) noexcept { any_delete(address); }
void operator delete[](void* address, const std::nothrow_t&) noexcept { any_delete(address); }
void operator delete(void* address, std::align_val_t, const std::nothrow_t&) noexcept { any_delete(address); }
void operator delete[](void* address, std::align_val_t, const std::nothrow_t&) noexcept { any_delete(address); }
