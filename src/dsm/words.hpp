// SPDX-License-Identifier: Apache-2.0
// Atomic operations on one word of the space where it lies: at its owner. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "gas/space.hpp"

namespace ayatori::dsm {

enum class WordOp : std::uint32_t { kLoad, kStore, kExchange, kAdd, kAnd, kOr, kXor, kCompareExchange };

struct WordOperation {  // travels between processes as it is
  gas::PageIndex page;
  std::uint32_t offset;  // in the page; a multiple of `bytes`
  std::uint32_t bytes;   // 4 or 8
  WordOp op;
  std::uint64_t operand;
  std::uint64_t expected;  // kCompareExchange
};

namespace detail {
template <class T>
std::uint64_t apply_word(std::byte* at, const WordOperation& o) noexcept {
  std::atomic_ref<T> word(*reinterpret_cast<T*>(at));
  const T operand = static_cast<T>(o.operand);
  switch (o.op) {
    case WordOp::kLoad: return word.load();
    case WordOp::kStore:
    case WordOp::kExchange: return word.exchange(operand);
    case WordOp::kAdd: return word.fetch_add(operand);
    case WordOp::kAnd: return word.fetch_and(operand);
    case WordOp::kOr: return word.fetch_or(operand);
    case WordOp::kXor: return word.fetch_xor(operand);
    case WordOp::kCompareExchange: {
      T expected = static_cast<T>(o.expected);
      word.compare_exchange_strong(expected, operand);
      return expected;
    }
  }
  return 0;
}
}  // namespace detail

// On the word at `at`. Returns its value before.
inline std::uint64_t operate(std::byte* at, const WordOperation& o) noexcept {
  return o.bytes == 8 ? detail::apply_word<std::uint64_t>(at, o) : detail::apply_word<std::uint32_t>(at, o);
}

}  // namespace ayatori::dsm
