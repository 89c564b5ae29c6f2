// SPDX-License-Identifier: Apache-2.0
// Messages of the runtime: one line each, `ayatori[P.W]: level: text`, P the process and W the worker, to a sink that the
// embedding program may replace. Called on any OS thread outside signal handlers, never on a stack of the space.
//
// L1. A line leaves by one call of the sink (by default one write(2) to standard error), at most kLineBytes long, so that
//     lines of several processes do not mix.
// L2. What is below the level costs one relaxed load.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include "base/format.hpp"

namespace ayatori::base {

enum class LogLevel { kError = 0, kWarn = 1, kInfo = 2, kDebug = 3 };

inline constexpr std::size_t kLineBytes = 1024;  // longest line, newline included; longer ones are cut

// `line` has its prefix and no newline; valid during the call only.
using LogSink = void (*)(LogLevel level, std::string_view line);
LogSink set_log_sink(
    LogSink sink) noexcept;  // nullptr brings the default back; returns what was set (nullptr: default)
LogLevel set_log_level(LogLevel level) noexcept;
bool log_enabled(LogLevel level) noexcept;

// "ayatori[P.W]: ", "ayatori[P]: " outside workers, "ayatori: " outside jobs. Returns the bytes written to `room`.
std::size_t print_prefix(std::span<char> room) noexcept;

namespace detail {
[[gnu::cold]] void vlog(LogLevel level, fmt::string_view format, fmt::format_args args) noexcept;

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> text, Args&&... args) noexcept {
  if (log_enabled(level)) vlog(level, text, fmt::make_format_args(args...));
}
}  // namespace detail

template <class... Args>
void log_error(fmt::format_string<Args...> text, Args&&... args) noexcept {
  detail::log<Args...>(LogLevel::kError, text, std::forward<Args>(args)...);
}
template <class... Args>
void log_warn(fmt::format_string<Args...> text, Args&&... args) noexcept {
  detail::log<Args...>(LogLevel::kWarn, text, std::forward<Args>(args)...);
}
// The first time alone for each `told`: for what others may cause as often as they like.
template <class... Args>
void log_warn_once(std::atomic<bool>& told, fmt::format_string<Args...> text, Args&&... args) noexcept {
  if (!told.exchange(true, std::memory_order_relaxed)) log_warn<Args...>(text, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) noexcept {
  detail::log<Args...>(LogLevel::kInfo, text, std::forward<Args>(args)...);
}
template <class... Args>
void log_debug(fmt::format_string<Args...> text, Args&&... args) noexcept {
  detail::log<Args...>(LogLevel::kDebug, text, std::forward<Args>(args)...);
}

}  // namespace ayatori::base
