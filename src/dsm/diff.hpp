// SPDX-License-Identifier: Apache-2.0
// Twins, diffs and merges of one page at byte grain. Called under the locks of coherence.hpp; the pages may be written
// by running user threads at the same time, so every word is read once and stored by compare-and-swap.
//
// W1. A merge changes only bytes in which two words differ: the owner may be running on that very page (its stack).
// W2. A blended word is stored by compare-and-swap of the whole word (design rule P9): aligned words are seen whole and
//     a byte that a running thread stores meanwhile is never lost.
#pragma once

#include <immintrin.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gas/space.hpp"

namespace ayatori::dsm::diff {

using Word = std::uint64_t;
inline constexpr std::size_t kWords = gas::kPageBytes / sizeof(Word);

inline Word* words(std::byte* page) noexcept { return reinterpret_cast<Word*>(page); }

// Relaxed throughout this file: the happens-before edges come from the locks and the deques that order the callers.
inline Word load(Word* w) noexcept { return std::atomic_ref<Word>(*w).load(std::memory_order_relaxed); }
inline void store(Word* w, Word value) noexcept { std::atomic_ref<Word>(*w).store(value, std::memory_order_relaxed); }

// 0xff in each byte in which a and b differ.
inline Word differing_bytes(Word a, Word b) noexcept {
  constexpr Word kLow7 = 0x7f7f7f7f7f7f7f7fULL;
  const Word x = a ^ b;
  const Word high = (((x & kLow7) + kLow7) | x) & ~kLow7;  // 0x80 where the byte is not zero
  return (high >> 7) * 0xff;
}

// How many bytes a mask of differing_bytes selects.
inline std::uint64_t count_bytes(Word mask) noexcept {
  return ((mask & 0x0101010101010101ULL) * 0x0101010101010101ULL) >> 56;
}

// Puts the bytes of `value` selected by `mask` into *w (W1, W2).
inline void blend(Word* w, Word value, Word mask) noexcept {
  if (mask == ~Word{0}) {  // all of it is the writer's
    store(w, value);
    return;
  }
  std::atomic_ref<Word> target(*w);
  Word old = target.load(std::memory_order_relaxed);
  while (!target.compare_exchange_weak(old, (old & ~mask) | (value & mask), std::memory_order_relaxed)) {
  }
}

// Do the 64 bytes at a and b look equal? A racy hint that is re-checked word by word where it says no.
inline bool equal64(const std::byte* a, const std::byte* b) noexcept {
  const auto* x = reinterpret_cast<const __m128i*>(a);
  const auto* y = reinterpret_cast<const __m128i*>(b);
  __m128i same = _mm_cmpeq_epi8(_mm_load_si128(x), _mm_load_si128(y));
  for (int i = 1; i < 4; ++i) same = _mm_and_si128(same, _mm_cmpeq_epi8(_mm_load_si128(x + i), _mm_load_si128(y + i)));
  return _mm_movemask_epi8(same) == 0xffff;
}

// Calls f(word index) for each word of the 64-byte lines in which a and b differ.
template <class F>
inline void for_differing(std::byte* a, std::byte* b, F&& f) {
  for (std::size_t line = 0; line < gas::kPageBytes; line += 64) {
    if (equal64(a + line, b + line)) continue;
    for (std::size_t i = line / sizeof(Word); i < line / sizeof(Word) + 8; ++i) f(i);
  }
}

inline bool equal_page(const std::byte* a, const std::byte* b) noexcept {
  for (std::size_t line = 0; line < gas::kPageBytes; line += 64)
    if (!equal64(a + line, b + line)) return false;
  return true;
}

inline void copy_page(std::byte* to, const std::byte* from) noexcept { std::memcpy(to, from, gas::kPageBytes); }

// Both copies are equal, also when somebody writes the page meanwhile.
inline void copy_page_twice(std::byte* to, std::byte* also, const std::byte* from) noexcept {
  for (std::size_t at = 0; at < gas::kPageBytes; at += 16) {
    const __m128i x = _mm_load_si128(reinterpret_cast<const __m128i*>(from + at));
    _mm_store_si128(reinterpret_cast<__m128i*>(to + at), x);
    _mm_store_si128(reinterpret_cast<__m128i*>(also + at), x);
  }
}

// Byte-masked stores of 64-byte lines (AVX-512BW), where the CPU has them: a byte that is not selected is not written, and
// a line reaches the cache in one piece, so that W1 and W2 hold without a compare-and-swap.
#if defined(__SANITIZE_THREAD__)
inline bool has_wide() noexcept { return false; }
#else
bool has_wide() noexcept;
#endif
// Stores the bytes in which `from` differs from `twin` into `to`, and makes the twin, if it is kept, equal to what was read
// of `from`. Returns their number.
std::uint64_t forward_wide(const std::byte* from, std::byte* twin, std::byte* to, bool keep_twin) noexcept;

// Makes `to` equal to `from`, storing only words that differ. Returns the number of words stored.
inline std::size_t refresh(std::byte* to, std::byte* from) noexcept {
  std::size_t stored = 0;
  for_differing(to, from, [&](std::size_t i) {
    const Word value = load(words(from) + i);
    if (load(words(to) + i) != value) {
      store(words(to) + i, value);
      ++stored;
    }
  });
  return stored;
}

}  // namespace ayatori::dsm::diff
