// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "base/identity.hpp"
#include "base/log.hpp"

namespace ayatori::base {
namespace {

struct FatalState {
  std::atomic<FatalHook> hook{nullptr};
  std::atomic<bool> failing{false};
};
constinit FatalState fatal_state;

// A line that grows in place; what does not fit is cut, one byte stays free for the newline.
class Line {
 public:
  std::span<char> room() noexcept { return {text_ + bytes_, kLineBytes - 1 - bytes_}; }
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) noexcept {
    bytes_ += print_to(room(), text, args...);
  }
  void add_raw(std::size_t bytes) noexcept { bytes_ += bytes; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::string_view from(std::size_t begin) const noexcept { return {text_ + begin, bytes_ - begin}; }
  void flatten() noexcept {
    for (std::size_t i = 0; i < bytes_; ++i)
      if (text_[i] == '\n') text_[i] = ' ';
  }
  void write_out() noexcept {
    text_[bytes_] = '\n';
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text_, bytes_ + 1);
  }

 private:
  char text_[kLineBytes];
  std::size_t bytes_ = 0;
};

}  // namespace

FatalHook set_fatal_hook(FatalHook hook) noexcept {
  // acq_rel: what the hook's owner prepared is visible to the failing thread's acquire load in vfatal.
  return fatal_state.hook.exchange(hook, std::memory_order_acq_rel);
}

void fatal_raw(const char* message) noexcept {
  char line[kLineBytes];
  std::size_t bytes = 0;
  constexpr std::string_view kPrefix = "ayatori: fatal: ";
  for (const char c : kPrefix) line[bytes++] = c;
  while (*message != '\0' && bytes < sizeof line - 1) line[bytes++] = *message++;
  line[bytes++] = '\n';
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, bytes);
  std::abort();
}

namespace detail {

void vfatal(const char* expression, const char* file, int file_line, fmt::string_view format,
            fmt::format_args args) noexcept {
  const char* name = std::strrchr(file, '/');
  name = name != nullptr ? name + 1 : file;
  Line line;
  line.add_raw(print_prefix(line.room()));
  line.add("fatal: ");
  if (expression != nullptr) line.add("check failed: {}", expression);
  if (expression != nullptr && format.size() != 0) line.add(": ");
  const std::size_t message_begin = line.bytes();
  line.add_raw(vprint_to(line.room(), format, args));
  const std::size_t message_bytes = line.bytes() - message_begin;
  line.add(" ({}:{})", name, file_line);
  line.flatten();

  // acquire: pairs with set_fatal_hook. The exchange lets one failure a process run the hook (C2).
  const FatalHook hook = fatal_state.hook.load(std::memory_order_acquire);
  if (hook != nullptr && !fatal_state.failing.exchange(true, std::memory_order_relaxed)) {
    const Identity who = identity();
    hook(Failure{line.from(0), line.from(message_begin).substr(0, message_bytes), expression, file, file_line,
                 who.process, who.worker});
  } else {
    line.write_out();
  }
  std::abort();
}

}  // namespace detail
}  // namespace ayatori::base
