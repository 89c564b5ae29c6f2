// SPDX-License-Identifier: Apache-2.0
// What the caches are told beforehand. Any thread.
#pragma once

namespace ayatori::base {

// Fetches the line for writing: who reads it first and then writes would wait for another CPU's cache twice.
inline void prefetch_to_write(const void* line) noexcept {
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));  // where the CPU lacks it: no operation
}

}  // namespace ayatori::base
