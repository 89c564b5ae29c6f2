// SPDX-License-Identifier: Apache-2.0
#include "sink.hpp"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace ayatori::tool {
namespace {

bool takes_any_size(int fd) {
  struct stat file{};
  return fstat(fd, &file) == 0 && (S_ISREG(file.st_mode) || S_ISBLK(file.st_mode));
}

}  // namespace

Sink::Sink(int fd) : fd_(fd), whole_(takes_any_size(fd)) {}

bool Sink::write_once() {
  std::size_t bytes = pending_bytes();
  if (bytes == 0) return true;
  if (!whole_) bytes = std::min<std::size_t>(bytes, PIPE_BUF);  // B1
  const ssize_t written = write(fd_, pending_.data() + written_, bytes);
  if (written < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (written < 0) {
    broken_ = true;
    pending_ = {};
    written_ = 0;
    return false;
  }
  written_ += static_cast<std::size_t>(written);
  if (written_ == pending_.size()) {
    pending_.clear();
    written_ = 0;
    if (pending_.capacity() > 2 * kBytesMax) pending_.shrink_to_fit();
  } else if (written_ > kBytesMax && written_ > pending_.size() / 2) {
    pending_.erase(0, written_);
    written_ = 0;
  }
  return true;
}

}  // namespace ayatori::tool
