// SPDX-License-Identifier: Apache-2.0
// Small things that every file of the launcher uses: owned descriptors, messages, exit statuses.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.hpp"

namespace ayatori::tool {

inline constexpr int kExitStart = 125;          // environment, options or start-up
inline constexpr int kExitNotExecutable = 126;  // as shells have it
inline constexpr int kExitNotFound = 127;

class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset() noexcept {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

// A descriptor above 0, 1 and 2, which may be closed in this process and must stay so in the program.
inline Fd above_standard(int fd) noexcept {
  if (fd < 0 || fd > STDERR_FILENO) return Fd(fd);
  const int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(fd);
  return Fd(above);
}

struct Pipe {
  Fd read, write;
};
inline bool open_pipe(Pipe& pipe) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return false;
  pipe.read = above_standard(fds[0]);
  pipe.write = above_standard(fds[1]);
  return pipe.read && pipe.write;
}

inline std::string error_text(int error_number) {
  char room[128];
  return strerror_r(error_number, room, sizeof room);
}

// One line on standard error by one write, so that it does not mix with the members' lines.
inline void say(std::string_view text) {
  std::string line = "ayatori: ";
  line += text;
  line += '\n';
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
}

template <class... Args>
int fail(int status, fmt::format_string<Args...> text, Args&&... args) {
  say(base::formatted(text, std::forward<Args>(args)...));
  return status;
}

}  // namespace ayatori::tool
