// SPDX-License-Identifier: Apache-2.0
// What Valgrind must be told of memory that it takes for something else: stacks that are switched, and bytes of a view that
// were written through another one. Nothing where the program does not run under it, or was built without its headers. Any
// OS thread. valgrind/valgrind.h: client requests are a few instructions that change nothing elsewhere.
#pragma once

#include <cstddef>

namespace ayatori::base::valgrind {

bool is_running() noexcept;
// [low, low + bytes) is a stack of its own: a stack pointer that comes to lie there has been switched. Returns its number.
unsigned add_stack(const void* low, std::size_t bytes) noexcept;
void remove_stack(unsigned number) noexcept;
// The bytes are there, and were written.
void make_defined(const void* low, std::size_t bytes) noexcept;

}  // namespace ayatori::base::valgrind
