// SPDX-License-Identifier: Apache-2.0
// Size classes of the heap: steps of 16 bytes up to 128, then four a doubling up to 64 KiB. What is larger and below
// 1 MiB is a span of units of its own. Pure functions.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace ayatori::gas::heap {

inline constexpr std::size_t kGrainShift = 4;  // objects begin at multiples of 16 bytes
inline constexpr std::size_t kUnitShift = 16;  // arenas are dealt out in units of 64 KiB
inline constexpr std::size_t kUnitBytes = std::size_t{1} << kUnitShift;
inline constexpr std::size_t kUnitPages = kUnitBytes >> 12;
inline constexpr std::size_t kClassBytesMax = kUnitBytes;
inline constexpr std::uint32_t kClasses = 44;
inline constexpr std::uint32_t kSpanClass = kClasses;  // one object in units of its own
inline constexpr std::uint32_t kSlabObjectsMax = 4096;
inline constexpr std::uint32_t kBitWords = kSlabObjectsMax / 64;
inline constexpr std::uint32_t kMediumSlabUnits = 8;  // slab of objects over 8 KiB

struct SizeClass {
  std::uint32_t bytes;
  std::uint32_t units;       // of a slab
  std::uint32_t capacity;    // objects of a slab
  std::uint32_t reciprocal;  // of bytes / 16, times 2^32, rounded up: see index_in_slab
  std::uint32_t cached;      // objects that a thread keeps at most; half of it is moved at a time
};

constexpr std::uint32_t class_of(std::size_t bytes) noexcept {
  if (bytes <= 128) return bytes == 0 ? 0 : static_cast<std::uint32_t>((bytes - 1) >> kGrainShift);
  const std::size_t s = bytes - 1;
  const auto log = static_cast<std::uint32_t>(std::bit_width(s) - 1);
  return 8 + (log - 7) * 4 + static_cast<std::uint32_t>((s >> (log - 2)) & 3);
}

inline constexpr std::array<SizeClass, kClasses> kSizeClasses = [] {
  std::array<SizeClass, kClasses> table{};
  for (std::uint32_t c = 0; c < kClasses; ++c) {
    SizeClass& row = table[c];
    row.bytes = c < 8 ? 16 * (c + 1) : (5 + (c - 8) % 4) << ((c - 8) / 4 + 5);
    row.units = row.bytes <= 8192 ? 1 : kMediumSlabUnits;
    row.capacity = row.units * static_cast<std::uint32_t>(kUnitBytes) / row.bytes;
    const std::uint32_t divisor = row.bytes >> kGrainShift;
    row.reciprocal = divisor == 1 ? 0xffffffffu : static_cast<std::uint32_t>((std::uint64_t{1} << 32) / divisor + 1);
    const std::uint32_t fit = 32768 / row.bytes;
    row.cached = fit < 2 ? 2 : fit > 128 ? 128 : fit;
  }
  return table;
}();

// Number of the object that begins `offset` bytes into a slab; exact for offsets below 1 MiB (tested).
constexpr std::uint32_t index_in_slab(std::uint32_t size_class, std::size_t offset) noexcept {
  const std::uint64_t grains = offset >> kGrainShift;
  if (size_class == 0) return static_cast<std::uint32_t>(grains);
  if (size_class == kSpanClass) return 0;
  return static_cast<std::uint32_t>(grains * kSizeClasses[size_class].reciprocal >> 32);
}

static_assert(kSizeClasses[kClasses - 1].bytes == kClassBytesMax && kSizeClasses[0].capacity == kSlabObjectsMax);
static_assert(class_of(128) == 7 && class_of(129) == 8 && class_of(kClassBytesMax) == kClasses - 1);

}  // namespace ayatori::gas::heap
