// SPDX-License-Identifier: Apache-2.0
// AddressSanitizer's shadow of the space. Nothing in ordinary builds. Called by the program's start (api) and around a
// fork of the program (process.cpp).
//
// W1. All members share it, so that what is poisoned moves with the stacks.
// W2. The child of a fork goes on with its parent's stack in memory of its own, both at the same addresses: each would
//     poison frames of the other's. So the child gets a shadow of its own before it runs there. In it the stack's used
//     part is as it was before the fork, the rest is not poisoned: nobody runs there.
// W3. The shadow has no shadow: only code that is not instrumented reads it or writes it.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define AYT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define AYT_ASAN 1
#endif
#endif

#if defined(AYT_ASAN)
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include "base/check.hpp"
#endif

namespace ayatori::dsm::fault::shadow {

#if defined(AYT_ASAN)

inline std::size_t scale() noexcept {
  std::size_t scale = 0, offset = 0;
  __asan_get_shadow_mapping(&scale, &offset);
  return scale;
}
inline std::uintptr_t of(std::uintptr_t address) noexcept {
  std::size_t scale = 0, offset = 0;
  __asan_get_shadow_mapping(&scale, &offset);
  return (address >> scale) + offset;
}
inline void map(std::uintptr_t base, std::size_t bytes, int sharing) {
  void* at = reinterpret_cast<void*>(of(base));  // NOLINT
  void* got =
      mmap(at, bytes >> scale(), PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  AYT_CHECK(got == at, "the sanitizer's shadow of the space cannot be mapped");
}
// W1. Before the members are forked.
inline void share(std::uintptr_t base, std::size_t bytes) { map(base, bytes, MAP_SHARED); }
// W2. In the child.
inline void make_private(std::uintptr_t base, std::size_t bytes) { map(base, bytes, MAP_PRIVATE); }
// Of memory that starts and ends with pages.
inline std::size_t bytes_for(std::size_t bytes) noexcept { return bytes >> scale(); }
inline void* address_for(std::uintptr_t address) noexcept { return reinterpret_cast<void*>(of(address)); }  // NOLINT

#else

inline void share(std::uintptr_t, std::size_t) {}
inline void make_private(std::uintptr_t, std::size_t) {}
inline std::size_t bytes_for(std::size_t) noexcept { return 0; }
inline void* address_for(std::uintptr_t) noexcept { return nullptr; }

#endif

}  // namespace ayatori::dsm::fault::shadow
