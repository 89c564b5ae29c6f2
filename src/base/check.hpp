// SPDX-License-Identifier: Apache-2.0
// Programmers' errors: checks that are on in release builds and end the job with one line that says what, where and in
// which process and worker. Called on any OS thread, on any stack with 4 KiB left; only fatal_raw may be called in a
// fault handler.
//
// C1. A failed check never returns and never throws: hook, one line on standard error by one write(2), abort().
// C2. A failure inside the hook, or of a second thread while the hook runs, does not run the hook again.
// What depends on a peer, a device, the environment or user data is no check but a Status (status.hpp).
#pragma once

#include <source_location>
#include <string_view>

#include "base/format.hpp"

namespace ayatori::base {

struct Failure {
  std::string_view line;     // the whole line as the default would print it, without the newline
  std::string_view message;  // the part that the caller of fatal() wrote
  const char* expression;    // of the failed check, nullptr when there is none
  const char* file;
  int file_line;
  int process;  // -1: not a member of a job
  int worker;   // -1: not a worker
};

// Called in the failing thread instead of the default, which writes the line; when it returns, the process aborts.
// nullptr brings the default back.
using FatalHook = void (*)(const Failure& failure);
FatalHook set_fatal_hook(FatalHook hook) noexcept;

// Writes `message` and a newline with write(2) and aborts. Async-signal-safe; runs no hook.
[[noreturn]] void fatal_raw(const char* message) noexcept;

namespace detail {

// A format string that knows the place where it stands.
template <class... Args>
struct LocatedFormat {
  template <class Text>
  consteval LocatedFormat(const Text& text, std::source_location where = std::source_location::current())  // NOLINT
      : format(text), location(where) {}
  fmt::format_string<Args...> format;
  std::source_location location;
};

[[noreturn, gnu::cold]] void vfatal(const char* expression, const char* file, int line, fmt::string_view format,
                                    fmt::format_args args) noexcept;

[[noreturn, gnu::cold]] inline void check_failed(const char* expression, const char* file, int line) noexcept {
  vfatal(expression, file, line, "", {});
}
template <class... Args>
[[noreturn, gnu::cold, gnu::noinline]] void check_failed(const char* expression, const char* file, int line,
                                                         fmt::format_string<Args...> text, Args&&... args) noexcept {
  vfatal(expression, file, line, text, fmt::make_format_args(args...));
}

}  // namespace detail

template <class... Args>
[[noreturn, gnu::cold]] void fatal(detail::LocatedFormat<std::type_identity_t<Args>...> text, Args&&... args) noexcept {
  detail::vfatal(nullptr, text.location.file_name(), static_cast<int>(text.location.line()), text.format,
                 fmt::make_format_args(args...));
}

}  // namespace ayatori::base

// AYT_CHECK(condition) or AYT_CHECK(condition, "format", arguments...).
#define AYT_CHECK(condition, ...)                                                                       \
  do {                                                                                                  \
    if (!(condition)) [[unlikely]]                                                                      \
      ::ayatori::base::detail::check_failed(#condition, __FILE__, __LINE__ __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
