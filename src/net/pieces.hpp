// SPDX-License-Identifier: Apache-2.0
// Bounds and walks of list and strided requests (types.hpp), the same for every transport. Pure functions, any thread.
//
// Q1. The bounds of a request are computed without overflow before its first byte moves (transport.hpp N9).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <ayatori/net/types.hpp>

namespace ayatori::net {

inline constexpr std::uint64_t kStridedBytesMax = std::uint64_t{1} << 40;  // beyond: kTooLarge

inline bool in_bounds(std::uint64_t offset, std::uint64_t bytes, std::uint64_t region_bytes) noexcept {
  return offset <= region_bytes && bytes <= region_bytes - offset;
}

// Of all pieces. `total_bytes` is what moves.
inline Outcome check_list(const ListParams& params, std::uint64_t region_bytes, std::uint64_t* total_bytes) noexcept {
  if (params.count > kPiecesMax) return Outcome::kTooLarge;
  *total_bytes = 0;
  for (std::size_t i = 0; i < params.count; ++i) {
    const Piece& piece = params.pieces[i];
    if (!in_bounds(piece.offset, piece.size_bytes, region_bytes)) return Outcome::kBadAddress;
    *total_bytes += piece.size_bytes;
  }
  return Outcome::kOk;
}

// What the remote side of a strided request is: `local` of StridedParams plays no part.
inline Outcome check_strided(const StridedParams& params, std::uint64_t region_bytes,
                             std::uint64_t* total_bytes) noexcept {
  *total_bytes = 0;
  if (params.levels < 0 || params.levels > kStrideLevelsMax) return Outcome::kBadAddress;
  std::uint64_t total = params.block_bytes;
  std::int64_t first = 0;  // of all blocks, from remote.offset
  std::int64_t last = 0;
  bool overflow = false;
  for (std::size_t level = 0; level < static_cast<std::size_t>(params.levels); ++level) {
    if (params.counts[level] == 0) return Outcome::kOk;
    std::int64_t reach = 0;
    overflow |= __builtin_mul_overflow(params.counts[level] - 1, params.remote_strides[level], &reach);
    overflow |= __builtin_add_overflow(reach < 0 ? first : last, reach, reach < 0 ? &first : &last);
    if (__builtin_mul_overflow(total, params.counts[level], &total) || total > kStridedBytesMax)
      return Outcome::kTooLarge;
  }
  std::int64_t low = 0;
  std::int64_t high = 0;
  overflow |= __builtin_add_overflow(params.remote.offset, first, &low);
  overflow |= __builtin_add_overflow(params.remote.offset, last, &high);
  if (overflow || low < 0 || !in_bounds(static_cast<std::uint64_t>(high), params.block_bytes, region_bytes) ||
      !in_bounds(static_cast<std::uint64_t>(low), params.block_bytes, region_bytes))
    return Outcome::kBadAddress;
  *total_bytes = total;
  return Outcome::kOk;
}

// Calls move(bytes from remote.offset, bytes from local) for each block.
template <class Move>
void for_each_block(const StridedParams& params, Move&& move) {
  const auto levels = static_cast<std::size_t>(params.levels);
  if (params.block_bytes == 0 || std::find(params.counts.begin(), params.counts.begin() + params.levels, 0u) !=
                                     params.counts.begin() + params.levels)
    return;
  std::array<std::size_t, kStrideLevelsMax> index{};
  std::int64_t remote = 0;
  std::int64_t local = 0;
  for (;;) {
    move(remote, local);
    std::size_t level = 0;
    while (level < levels && ++index[level] == params.counts[level]) {
      const auto steps = static_cast<std::int64_t>(index[level] - 1);
      remote -= steps * params.remote_strides[level];
      local -= steps * params.local_strides[level];
      index[level++] = 0;
    }
    if (level == levels) return;
    remote += params.remote_strides[level];
    local += params.local_strides[level];
  }
}

}  // namespace ayatori::net
