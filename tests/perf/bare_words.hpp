// SPDX-License-Identifier: Apache-2.0
// The least that a one-sided call of a library can be, to compare with: a function that is not inlined, reached through a
// pointer, takes the same params, checks the bounds of the one memory that it knows, loads and stores, calls the callback.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net/copy.hpp"

namespace bare {

struct Memory {
  std::byte* base;
  std::uint64_t bytes;

  bool holds(std::uint64_t offset, std::size_t size_bytes) const noexcept {
    return size_bytes <= bytes && offset <= bytes - size_bytes;
  }
};

template <class Params>
using Call = bool (*)(const Memory&, const Params&);

[[gnu::noinline]] inline bool read(const Memory& memory, const ayatori::net::ReadParams& params) {
  if (!memory.holds(params.source.offset, params.size_bytes)) return false;
  ayatori::net::read_word(params.destination.pointer, memory.base + params.source.offset);
  params.on_complete({});
  return true;
}

[[gnu::noinline]] inline bool write(const Memory& memory, const ayatori::net::WriteParams& params) {
  if (!memory.holds(params.destination.offset, params.size_bytes)) return false;
  ayatori::net::write_word(memory.base + params.destination.offset, params.source.pointer);
  params.on_complete({});
  return true;
}

// Hides from the compiler which function it is.
template <class Params>
Call<Params> pointer_to(Call<Params> call) {
  asm volatile("" : "+r"(call));
  return call;
}

}  // namespace bare
