// SPDX-License-Identifier: Apache-2.0
// One side of a read or write as a sequence of pieces of memory that may be walked in parts: contiguous, a list, blocks at
// regular distances. Used by whoever sends or receives the request's bytes, one thread at a time.
//
// A1. The total is the sum of the pieces, checked before (net/pieces.hpp Q1): a walk does not leave what was checked.
// A2. Where `whole_words`, every aligned 8-byte word of the walked memory is loaded or stored once, acquire and release
//     (transport.hpp N5): also where the private buffer lies otherwise modulo 8.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <ayatori/net/types.hpp>

namespace ayatori::net::served {

class Walk {
 public:
  Walk() noexcept = default;
  Walk(Walk&&) noexcept = default;  // not copied: piece_ may point into owned_
  Walk& operator=(Walk&&) noexcept = default;
  Walk(std::byte* memory, std::uint64_t bytes) noexcept;
  // Piece::local is what is walked. The pieces stay where they are until the walk is over.
  Walk(std::span<const Piece> pieces, std::uint64_t bytes) noexcept;
  Walk(std::vector<Piece>&& pieces, std::uint64_t bytes) noexcept;
  // Blocks of `shape` from `memory` on at `strides`, which are shape's remote or local ones.
  Walk(std::byte* memory, const StridedParams& shape, const std::array<std::int64_t, kStrideLevelsMax>& strides,
       std::uint64_t bytes) noexcept;

  std::uint64_t left() const noexcept { return left_; }
  bool contiguous() const noexcept { return kind_ == Kind::kContiguous; }
  // The next piece, `limit` bytes at most; empty when nothing is left.
  std::span<std::byte> front(std::uint64_t limit);
  void skip(std::uint64_t bytes) noexcept;  // of front()

 private:
  enum class Kind : std::uint8_t { kContiguous, kList, kStrided };
  void next_block() noexcept;

  Kind kind_ = Kind::kContiguous;
  std::uint64_t left_ = 0;
  std::byte* at_ = nullptr;       // where the current piece goes on
  std::uint64_t here_bytes_ = 0;  // of it
  const Piece* piece_ = nullptr;  // kList: the current one
  std::vector<Piece> owned_;
  // kStrided
  std::byte* block_ = nullptr;  // the current one
  std::uint64_t block_bytes_ = 0;
  std::size_t levels_ = 0;
  std::array<std::uint64_t, kStrideLevelsMax> counts_{};
  std::array<std::uint64_t, kStrideLevelsMax> index_{};
  std::array<std::int64_t, kStrideLevelsMax> strides_{};
};

// `bytes` of walked memory to a private buffer and back (A2).
void gather(Walk& from, std::byte* to, std::uint64_t bytes, bool whole_words);
void scatter(Walk& to, const std::byte* from, std::uint64_t bytes, bool whole_words);
// Both sides are memory that others may look at; by copy_bytes (net/copy.hpp).
void copy_walk(Walk& to, Walk& from);

}  // namespace ayatori::net::served
