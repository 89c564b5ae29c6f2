// SPDX-License-Identifier: Apache-2.0
#include "base/status.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.hpp"

namespace ayatori::base {

std::string_view code_name(Code code) noexcept {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalid: return "invalid";
    case Code::kUnavailable: return "unavailable";
    case Code::kExhausted: return "exhausted";
    case Code::kPeerLost: return "peer lost";
    case Code::kTimeout: return "timeout";
    case Code::kSystem: return "system";
  }
  return "unknown";
}

Status system_status(int error_number, std::string_view what) {
  Code code = Code::kSystem;
  switch (error_number) {
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EAGAIN: code = Code::kExhausted; break;
    case ENOSYS:
    case EPERM:
    case EOPNOTSUPP: code = Code::kUnavailable; break;
    case EINVAL: code = Code::kInvalid; break;
    case EPIPE:
    case ECONNRESET:
    case ESRCH: code = Code::kPeerLost; break;
    case ETIMEDOUT: code = Code::kTimeout; break;
    default: break;
  }
  char room[128];
  return {code, formatted("{}: {}", what, strerror_r(error_number, room, sizeof room))};
}

void exit_start_failure(const Status& status) noexcept {
  char line[kLineBytes];
  const std::span<char> room(line, sizeof line - 1);
  std::size_t bytes = print_prefix(room);
  bytes += print_to(room.subspan(bytes), "{}", status.message());
  line[bytes++] = '\n';
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, bytes);
  ::_exit(kStartFailureExit);
}

}  // namespace ayatori::base
