// SPDX-License-Identifier: Apache-2.0
// libFuzzer on what a peer's diffs meet first (dsm/diff_wire): any bytes are taken as diffs or refused, and store into one page
// and nothing beside it, no more than they say.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "dsm/diff_wire.hpp"

using namespace ayatori;

namespace {

constexpr std::size_t kPages = 1000;
constexpr std::byte kBeside{0xA5};

struct alignas(gas::kPageBytes) Box {
  std::array<std::byte, gas::kPageBytes> before, page, after;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Box box;
  static std::array<std::byte, gas::kPageBytes> kept;
  std::span<const std::byte> message(reinterpret_cast<const std::byte*>(data), size);
  std::vector<std::byte> again;
  dsm::diff::WireDiff diff;
  std::size_t taken = 0;
  while (dsm::diff::next(message, kPages, diff)) {
    if (diff.page >= kPages || diff.whole.size() > dsm::diff::kWireBytesMax) std::abort();
    taken += diff.whole.size();
    box.before.fill(kBeside);
    box.page.fill(std::byte{0});
    box.after.fill(kBeside);
    const std::uint64_t stored = dsm::diff::merge(diff, box.page.data());
    if (stored == 0 || stored > gas::kPageBytes) std::abort();  // X2
    for (std::size_t i = 0; i < gas::kPageBytes; ++i)
      if (box.before[i] != kBeside || box.after[i] != kBeside) std::abort();
    // What it changed, as a diff of its own, changes the same; bytes that it set to 0 are not seen.
    std::array<std::byte, gas::kPageBytes> twin{};
    again.clear();
    if (dsm::diff::encode(diff.page, box.page.data(), twin.data(), again) > stored) std::abort();
    std::span<const std::byte> second(again);
    dsm::diff::WireDiff repeated;
    if (!again.empty()) {
      kept.fill(std::byte{0});
      if (!dsm::diff::next(second, kPages, repeated) || !second.empty()) std::abort();
      dsm::diff::merge(repeated, kept.data());
      if (kept != box.page) std::abort();
    }
    dsm::diff::restore(diff, kept.data(), box.page.data());
  }
  if (taken + message.size() != size) std::abort();
  return 0;
}
