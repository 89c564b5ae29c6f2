// SPDX-License-Identifier: Apache-2.0
#include "base/valgrind.hpp"

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define AYT_VALGRIND 1
#endif

namespace ayatori::base::valgrind {

#if defined(AYT_VALGRIND)

bool is_running() noexcept { return RUNNING_ON_VALGRIND != 0; }
unsigned add_stack(const void* low, std::size_t bytes) noexcept {
  return VALGRIND_STACK_REGISTER(low, static_cast<const std::byte*>(low) + bytes - 1);
}
void remove_stack(unsigned number) noexcept { VALGRIND_STACK_DEREGISTER(number); }
void make_defined(const void* low, std::size_t bytes) noexcept { (void)VALGRIND_MAKE_MEM_DEFINED(low, bytes); }

#else

bool is_running() noexcept { return false; }
unsigned add_stack(const void*, std::size_t) noexcept { return 0; }
void remove_stack(unsigned) noexcept {}
void make_defined(const void*, std::size_t) noexcept {}

#endif

}  // namespace ayatori::base::valgrind
