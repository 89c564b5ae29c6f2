// SPDX-License-Identifier: Apache-2.0
// Text on its way to standard output or error, written only when poll says that some is taken: whoever does not read keeps the
// launcher from nothing. One thread.
//
// B1. A pipe or terminal gets at most PIPE_BUF bytes at a time: such a write does not block. O_NONBLOCK is no way: it would
//     belong to everybody who has the file open.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ayatori::tool {

class Sink {
 public:
  static constexpr std::size_t kBytesMax = 1u << 20;  // pending; whoever feeds it stops there

  explicit Sink(int fd);

  int fd() const noexcept { return fd_; }
  bool broken() const noexcept { return broken_; }  // its reader is gone
  std::size_t pending_bytes() const noexcept { return pending_.size() - written_; }
  bool is_full() const noexcept { return pending_bytes() >= kBytesMax; }

  void add(std::string_view text) {
    if (!broken_) pending_ += text;
  }
  // Poll says that the descriptor takes something. False: the reader is gone, what was pending is dropped.
  bool write_once();

 private:
  const int fd_;
  const bool whole_;  // a file: takes writes of any size
  bool broken_ = false;
  std::string pending_;
  std::size_t written_ = 0;
};

}  // namespace ayatori::tool
