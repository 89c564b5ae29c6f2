// SPDX-License-Identifier: Apache-2.0
// A remote atomic as the CPU does it (transport.hpp N5): for transports that reach the word, and for targets that serve one.
// Any thread; the address is aligned and inside its region.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <ayatori/net/types.hpp>
#include "base/check.hpp"

namespace ayatori::net {

inline bool is_aligned(const void* memory, std::size_t bytes) noexcept {
  return (reinterpret_cast<std::uintptr_t>(memory) & (bytes - 1)) == 0;
}

namespace detail {
template <class Word>
std::uint64_t apply_atomic(void* memory, const AtomicParams& params) noexcept {
  // seq_cst: a remote atomic orders like the CPU's own, whoever its partner is
  const std::atomic_ref<Word> word(*static_cast<Word*>(memory));
  const auto operand = static_cast<Word>(params.operand);
  switch (params.op) {
    case AtomicOp::kFetchAdd: return word.fetch_add(operand);
    case AtomicOp::kSwap: return word.exchange(operand);
    case AtomicOp::kFetchOr: return word.fetch_or(operand);
    case AtomicOp::kFetchAnd: return word.fetch_and(operand);
    case AtomicOp::kCompareSwap: break;
  }
  auto seen = static_cast<Word>(params.expected);
  word.compare_exchange_strong(seen, operand);
  return seen;
}
}  // namespace detail

// Returns the word's old value, zero-extended.
inline std::uint64_t apply_atomic(void* memory, const AtomicParams& params) noexcept {
  return params.width_bytes == 4 ? detail::apply_atomic<std::uint32_t>(memory, params)
                                 : detail::apply_atomic<std::uint64_t>(memory, params);
}

inline void check_width(const AtomicParams& params) {
  AYT_CHECK(params.width_bytes == 4 || params.width_bytes == 8, "atomic of {} bytes, 4 or 8 possible",
            params.width_bytes);
}

}  // namespace ayatori::net
