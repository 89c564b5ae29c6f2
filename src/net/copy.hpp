// SPDX-License-Identifier: Apache-2.0
// The copy behind a read or write of shared memory (transport.hpp N5). Any thread; the remote side may be written to at
// the same time.
//
// M1. Up to kWholeWordBytesMax, and where both addresses are equal modulo 8, every aligned 8-byte word is loaded and stored
//     once: acquire and release, so that a word that announces data may travel this way. Otherwise memcpy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <ayatori/net/transport.hpp>

namespace ayatori::net {

inline void copy_word(std::byte* to, const std::byte* from) noexcept {
  // acquire pairs with the release of the writer of this word, release with the acquire of its reader (M1)
  auto* const source = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(from));
  const std::uint64_t word = std::atomic_ref<std::uint64_t>(*source).load(std::memory_order_acquire);
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(to)).store(word, std::memory_order_release);
}

// The same where only the remote word is known to be aligned.
inline void read_word(void* to, const std::byte* remote) noexcept {
  auto* const source = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(remote));
  const std::uint64_t word = std::atomic_ref<std::uint64_t>(*source).load(std::memory_order_acquire);  // M1
  std::memcpy(to, &word, sizeof word);
}
inline void write_word(std::byte* remote, const void* from) noexcept {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(remote))
      .store(word, std::memory_order_release);  // M1
}

inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  const auto to_bits = reinterpret_cast<std::uintptr_t>(to);
  const auto from_bits = reinterpret_cast<std::uintptr_t>(from);
  if (bytes == 8 && ((to_bits | from_bits) & 7) == 0) return copy_word(to, from);
  if (bytes > kWholeWordBytesMax || ((to_bits ^ from_bits) & 7) != 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  while (bytes != 0 && (reinterpret_cast<std::uintptr_t>(to) & 7) != 0) {
    *to++ = *from++;
    --bytes;
  }
  for (; bytes >= 8; bytes -= 8, to += 8, from += 8) copy_word(to, from);
  for (; bytes != 0; --bytes) *to++ = *from++;
}

// Payloads of messages, mostly a few words: memory that nobody else touches meanwhile.
inline void copy_private(std::byte* to, const void* from, std::size_t bytes) noexcept {
  if (bytes == 8)
    std::memcpy(to, from, 8);
  else if (bytes != 0)
    std::memcpy(to, from, bytes);
}

}  // namespace ayatori::net
