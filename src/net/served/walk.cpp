// SPDX-License-Identifier: Apache-2.0
#include "net/served/walk.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.hpp"
#include "net/copy.hpp"

namespace ayatori::net::served {
namespace {

std::size_t bytes_to_word(const std::byte* memory, std::size_t bytes) noexcept {
  return std::min<std::size_t>(bytes, -reinterpret_cast<std::uintptr_t>(memory) & 7);
}

void load_words(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  for (std::size_t head = bytes_to_word(from, bytes); head != 0; --head, --bytes) *to++ = *from++;
  for (; bytes >= 8; bytes -= 8, to += 8, from += 8) {
    auto* source = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(from));
    // acquire: pairs with the release of the writer of this word (A2)
    const std::uint64_t word = std::atomic_ref<std::uint64_t>(*source).load(std::memory_order_acquire);
    std::memcpy(to, &word, 8);
  }
  for (; bytes != 0; --bytes) *to++ = *from++;
}

void store_words(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  for (std::size_t head = bytes_to_word(to, bytes); head != 0; --head, --bytes) *to++ = *from++;
  for (; bytes >= 8; bytes -= 8, to += 8, from += 8) {
    std::uint64_t word;
    std::memcpy(&word, from, 8);
    // release: pairs with the acquire of this word's reader (A2)
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(to)).store(word, std::memory_order_release);
  }
  for (; bytes != 0; --bytes) *to++ = *from++;
}

}  // namespace

Walk::Walk(std::byte* memory, std::uint64_t bytes) noexcept : left_(bytes), at_(memory), here_bytes_(bytes) {}

Walk::Walk(std::span<const Piece> pieces, std::uint64_t bytes) noexcept
    : kind_(Kind::kList), left_(bytes), piece_(pieces.data()) {
  if (pieces.empty()) return;
  at_ = static_cast<std::byte*>(piece_->local);
  here_bytes_ = piece_->size_bytes;
}

Walk::Walk(std::vector<Piece>&& pieces, std::uint64_t bytes) noexcept : Walk(std::span<const Piece>(pieces), bytes) {
  owned_ = std::move(pieces);  // keeps the elements where they are
}

Walk::Walk(std::byte* memory, const StridedParams& shape, const std::array<std::int64_t, kStrideLevelsMax>& strides,
           std::uint64_t bytes) noexcept
    : kind_(Kind::kStrided),
      left_(bytes),
      at_(memory),
      here_bytes_(shape.block_bytes),
      block_(memory),
      block_bytes_(shape.block_bytes),
      levels_(static_cast<std::size_t>(shape.levels)),
      strides_(strides) {
  std::copy(shape.counts.begin(), shape.counts.end(), counts_.begin());
}

void Walk::next_block() noexcept {
  for (std::size_t level = 0; level < levels_; ++level) {
    if (++index_[level] != counts_[level]) {
      block_ += strides_[level];
      break;
    }
    block_ -= static_cast<std::int64_t>(counts_[level] - 1) * strides_[level];
    index_[level] = 0;
  }
  at_ = block_;
  here_bytes_ = block_bytes_;
}

std::span<std::byte> Walk::front(std::uint64_t limit) {
  if (left_ == 0) return {};
  while (here_bytes_ == 0) {  // left_ != 0: another piece comes (A1)
    if (kind_ == Kind::kList) {
      ++piece_;
      at_ = static_cast<std::byte*>(piece_->local);
      here_bytes_ = piece_->size_bytes;
    } else {
      next_block();
    }
  }
  return {at_, std::min(limit, here_bytes_)};
}

void Walk::skip(std::uint64_t bytes) noexcept {
  at_ += bytes;
  here_bytes_ -= bytes;
  left_ -= bytes;
}

void gather(Walk& from, std::byte* to, std::uint64_t bytes, bool whole_words) {
  while (bytes != 0) {
    const std::span<std::byte> piece = from.front(bytes);
    AYT_CHECK(!piece.empty(), "{} bytes more than there are", bytes);
    if (whole_words)
      load_words(to, piece.data(), piece.size());
    else
      std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
    bytes -= piece.size();
    from.skip(piece.size());
  }
}

void scatter(Walk& to, const std::byte* from, std::uint64_t bytes, bool whole_words) {
  while (bytes != 0) {
    const std::span<std::byte> piece = to.front(bytes);
    AYT_CHECK(!piece.empty(), "{} bytes more than there is room for", bytes);
    if (whole_words)
      store_words(piece.data(), from, piece.size());
    else
      std::memcpy(piece.data(), from, piece.size());
    from += piece.size();
    bytes -= piece.size();
    to.skip(piece.size());
  }
}

void copy_walk(Walk& to, Walk& from) {
  AYT_CHECK(to.left() == from.left(), "{} bytes into {}", from.left(), to.left());
  while (from.left() != 0) {
    const std::span<std::byte> source = from.front(from.left());
    const std::span<std::byte> target = to.front(source.size());
    copy_bytes(target.data(), source.data(), target.size());
    from.skip(target.size());
    to.skip(target.size());
  }
}

}  // namespace ayatori::net::served
