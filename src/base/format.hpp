// SPDX-License-Identifier: Apache-2.0
// Text for messages. fmt's syntax, checked when compiled; the formatting itself is compiled once, in format.cpp, so that
// this header stays light and users of the library need no libfmt. Called from cold paths on any OS thread.
//
// F1. print_to and what is built on it (checks, logging) allocate nothing: they may run on a small or alternate stack.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <span>
#include <string>

namespace ayatori::base {

namespace detail {
std::size_t vprint_to(std::span<char> room, fmt::string_view format, fmt::format_args args) noexcept;
std::string vformat(fmt::string_view format, fmt::format_args args);
}  // namespace detail

// Writes at most room.size() bytes, no terminator; returns how many it wrote. Never throws: what fmt refuses is
// printed as the bare format string.
template <class... Args>
std::size_t print_to(std::span<char> room, fmt::format_string<Args...> text, Args&&... args) noexcept {
  return detail::vprint_to(room, text, fmt::make_format_args(args...));
}

template <class... Args>
std::string formatted(fmt::format_string<Args...> text, Args&&... args) {
  return detail::vformat(text, fmt::make_format_args(args...));
}

}  // namespace ayatori::base
