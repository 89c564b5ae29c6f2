// SPDX-License-Identifier: Apache-2.0
// The one file of the library that compiles fmt itself (header-only, no libfmt at link time).
#define FMT_HEADER_ONLY
#include "base/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace ayatori::base::detail {

std::size_t vprint_to(std::span<char> room, fmt::string_view format, fmt::format_args args) noexcept {
  try {
    return std::min(fmt::vformat_to_n(room.data(), room.size(), format, args).size, room.size());
  } catch (...) {  // a width or precision given as an argument can still be refused at run time
    const std::size_t bytes = std::min(format.size(), room.size());
    std::memcpy(room.data(), format.data(), bytes);
    return bytes;
  }
}

std::string vformat(fmt::string_view format, fmt::format_args args) { return fmt::vformat(format, args); }

}  // namespace ayatori::base::detail
