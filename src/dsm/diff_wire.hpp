// SPDX-License-Identifier: Apache-2.0
// Diffs of pages as bytes of a message: which bytes changed, and what they are now. Pure functions; what comes from a peer is
// parsed with bounds.
//
// X1. A diff is the page's number (4 bytes), 4 zero bytes, a mask of the 64-byte lines that changed (8 bytes), and of each
//     of these, upwards, a mask of its changed bytes (8 bytes) and the bytes themselves. Numbers are little-endian.
// X2. A diff that passes next() has non-empty masks only, and all its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gas/space.hpp"

namespace ayatori::dsm::diff {

inline constexpr std::size_t kWireBytesMax = 16 + (gas::kPageBytes / 64) * (8 + 64);

// Appends the diff of `from` against `twin`, each word read once, and makes the twin, if it is kept, equal to what was read.
// Returns the number of changed bytes; where it is 0 nothing is appended.
std::uint64_t encode(gas::PageIndex page, std::byte* from, std::byte* twin, std::vector<std::byte>& message);

struct WireDiff {
  gas::PageIndex page = 0;
  std::span<const std::byte> lines;  // from the mask of lines on
  std::span<const std::byte> whole;
};
// Takes the first diff of `message`. False: there is none, or what begins there is no diff of one of `pages` pages (then
// something is left in `message`).
bool next(std::span<const std::byte>& message, std::size_t pages, WireDiff& diff) noexcept;
// Stores its bytes into a page, as diff.hpp W1 and W2 say. Returns their number.
std::uint64_t merge(const WireDiff& diff, std::byte* to) noexcept;
// Copies the bytes that the diff selects, whatever the diff says of them, from one page to another.
void restore(const WireDiff& diff, std::byte* from, std::byte* to) noexcept;

}  // namespace ayatori::dsm::diff
