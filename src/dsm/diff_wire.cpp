// SPDX-License-Identifier: Apache-2.0
#include "dsm/diff_wire.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "dsm/diff.hpp"

namespace ayatori::dsm::diff {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kLines = gas::kPageBytes / kLineBytes;
constexpr std::size_t kLineWords = kLineBytes / sizeof(Word);
constexpr std::size_t kHeadBytes = 8;
static_assert(kLines == 64, "one mask of lines");
static_assert(std::endian::native == std::endian::little, "X1");

// One bit for each byte of `mask` that is 0xff.
std::uint64_t bits_of(Word mask) noexcept { return ((mask & 0x0101010101010101ULL) * 0x0102040810204080ULL) >> 56; }
Word mask_of(std::uint64_t bits) noexcept {
  const Word spread = (bits * 0x0101010101010101ULL) & 0x8040201008040201ULL;
  return differing_bytes(spread, 0);
}

template <class T>
T load_at(std::span<const std::byte> bytes, std::size_t at) noexcept {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void append(std::vector<std::byte>& message, const T& value) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
  message.insert(message.end(), bytes, bytes + sizeof value);
}

}  // namespace

std::uint64_t encode(gas::PageIndex page, std::byte* from, std::byte* twin, std::vector<std::byte>& message) {
  std::uint64_t lines = 0, changed = 0;
  std::size_t lines_at = 0;
  for (std::size_t line = 0; line < kLines; ++line) {
    if (equal64(from + line * kLineBytes, twin + line * kLineBytes)) continue;
    std::array<Word, kLineWords> now;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < kLineWords; ++i) {
      Word* const before = words(twin) + line * kLineWords + i;
      now[i] = load(words(from) + line * kLineWords + i);
      bytes |= bits_of(differing_bytes(now[i], load(before))) << (8 * i);
      store(before, now[i]);
    }
    if (bytes == 0) continue;
    if (lines == 0) {
      append(message, std::uint64_t{page});
      lines_at = message.size();
      append(message, lines);
    }
    lines |= std::uint64_t{1} << line;
    append(message, bytes);
    const auto* const source = reinterpret_cast<const std::byte*>(now.data());
    for (std::uint64_t left = bytes; left != 0; left &= left - 1) message.push_back(source[std::countr_zero(left)]);
    changed += static_cast<std::uint64_t>(std::popcount(bytes));
  }
  if (lines != 0) std::memcpy(message.data() + lines_at, &lines, sizeof lines);
  return changed;
}

bool next(std::span<const std::byte>& message, std::size_t pages, WireDiff& diff) noexcept {
  if (message.size() < kHeadBytes + sizeof(std::uint64_t)) return false;
  const auto page = load_at<std::uint64_t>(message, 0);
  const auto lines = load_at<std::uint64_t>(message, kHeadBytes);
  if (page >= pages || lines == 0) return false;
  std::size_t at = kHeadBytes + sizeof lines;
  for (int left = std::popcount(lines); left > 0; --left) {
    if (message.size() - at < sizeof(std::uint64_t)) return false;
    const auto bytes = load_at<std::uint64_t>(message, at);
    at += sizeof bytes;
    const auto count = static_cast<std::size_t>(std::popcount(bytes));
    if (count == 0 || message.size() - at < count) return false;
    at += count;
  }
  diff.page = static_cast<gas::PageIndex>(page);
  diff.whole = message.first(at);
  diff.lines = diff.whole.subspan(kHeadBytes);
  message = message.subspan(at);
  return true;
}

namespace {

// Calls f(word index in the page, the new bytes in their places, mask of these).
template <class F>
void for_words(const WireDiff& diff, F&& f) noexcept {
  std::size_t at = sizeof(std::uint64_t);
  for (auto lines = load_at<std::uint64_t>(diff.lines, 0); lines != 0; lines &= lines - 1) {
    const auto line = static_cast<std::size_t>(std::countr_zero(lines));
    const auto bytes = load_at<std::uint64_t>(diff.lines, at);
    at += sizeof bytes;
    std::array<Word, kLineWords> values{};
    auto* const values_bytes = reinterpret_cast<std::byte*>(values.data());
    for (std::uint64_t left = bytes; left != 0; left &= left - 1)
      values_bytes[std::countr_zero(left)] = diff.lines[at++];
    for (std::size_t i = 0; i < kLineWords; ++i) {
      const std::uint64_t of_word = bytes >> (8 * i) & 0xff;
      if (of_word != 0) f(line * kLineWords + i, values[i], mask_of(of_word));
    }
  }
}

}  // namespace

std::uint64_t merge(const WireDiff& diff, std::byte* to) noexcept {
  std::uint64_t stored = 0;
  for_words(diff, [&](std::size_t i, Word value, Word mask) {
    blend(words(to) + i, value, mask);
    stored += count_bytes(mask);
  });
  return stored;
}

void restore(const WireDiff& diff, std::byte* from, std::byte* to) noexcept {
  for_words(diff, [&](std::size_t i, Word, Word mask) { blend(words(to) + i, load(words(from) + i), mask); });
}

}  // namespace ayatori::dsm::diff
