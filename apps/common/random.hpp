// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: the i-th number is a pure function of (seed, i), so that any thread of any process can
// make any part of an input, and a hash for order-independent checks. SplitMix64 (Steele, Lea, Flood: OOPSLA 2014).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace common {

constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) noexcept {
  return mix(mix(seed) + (index + 1) * 0x9e3779b97f4a7c15u);
}

// In [0, 1).
constexpr double random_unit(std::uint64_t seed, std::uint64_t index) noexcept {
  return static_cast<double>(random_bits(seed, index) >> 11) * 0x1p-53;
}

// Of any bytes, length included. Sums of it are a check on multisets.
inline std::uint64_t hash_bytes(const char* data, std::size_t bytes) noexcept {
  std::uint64_t h = mix(0x9e3779b97f4a7c15u + bytes);
  for (; bytes >= 8; data += 8, bytes -= 8) {
    std::uint64_t word;
    std::memcpy(&word, data, 8);
    h = mix(h ^ word) + 0x9e3779b97f4a7c15u;
  }
  std::uint64_t word = 0;
  std::memcpy(&word, data, bytes);
  return mix(h ^ word);
}

}  // namespace common
