// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/identity.hpp"

namespace ayatori::base {
namespace {

struct LogState {
  std::atomic<LogSink> sink{nullptr};
  std::atomic<LogLevel> level{LogLevel::kWarn};
};
constinit LogState log_state;

constexpr const char* kLevelNames[] = {"error", "warning", "info", "debug"};

}  // namespace

LogSink set_log_sink(LogSink sink) noexcept {
  // acq_rel: what the sink's owner prepared is visible to the acquire load in vlog.
  return log_state.sink.exchange(sink, std::memory_order_acq_rel);
}

LogLevel set_log_level(LogLevel level) noexcept { return log_state.level.exchange(level, std::memory_order_relaxed); }

bool log_enabled(LogLevel level) noexcept { return level <= log_state.level.load(std::memory_order_relaxed); }

std::size_t print_prefix(std::span<char> room) noexcept {
  const Identity who = identity();
  if (who.process < 0) return print_to(room, "ayatori: ");
  if (who.worker < 0) return print_to(room, "ayatori[{}]: ", who.process);
  return print_to(room, "ayatori[{}.{}]: ", who.process, who.worker);
}

namespace detail {

void vlog(LogLevel level, fmt::string_view format, fmt::format_args args) noexcept {
  char line[kLineBytes];
  const std::span<char> room(line, sizeof line - 1);  // one byte for the newline
  std::size_t bytes = print_prefix(room);
  bytes += print_to(room.subspan(bytes), "{}: ", kLevelNames[static_cast<int>(level)]);
  bytes += vprint_to(room.subspan(bytes), format, args);
  std::replace(line, line + bytes, '\n', ' ');
  // acquire: pairs with set_log_sink.
  if (const LogSink sink = log_state.sink.load(std::memory_order_acquire)) {
    sink(level, {line, bytes});
    return;
  }
  line[bytes] = '\n';
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, bytes + 1);
}

}  // namespace detail
}  // namespace ayatori::base
