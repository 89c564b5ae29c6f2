// SPDX-License-Identifier: Apache-2.0
// What thread dumps and the report of a stack overflow have in common. Nothing here allocates: also for fault handlers.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "gas/space.hpp"
#include "tasks/unwind.hpp"
#include "ult/scheduler.hpp"

namespace ayatori::tasks::dump {

inline constexpr std::size_t kBlockBytes = 4'096;  // PIPE_BUF: one write(2) stays in one piece

// A block of lines, written in one piece as long as it fits (D2 of dump.hpp).
class Block {
 public:
  ~Block() { flush(); }
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    if (sizeof room_ - used_ < base::kLineBytes) flush();
    const std::span<char> rest(room_ + used_, base::kLineBytes - 1);
    std::size_t n = base::print_prefix(rest);
    n += base::print_to(rest.subspan(n), text, std::forward<Args>(args)...);
    used_ += n;
    room_[used_++] = '\n';
  }
  void flush() {
    for (std::size_t done = 0; done < used_;) {
      const ssize_t n = write(STDERR_FILENO, room_ + done, used_ - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      done += static_cast<std::size_t>(n);
    }
    used_ = 0;
  }

 private:
  char room_[kBlockBytes];
  std::size_t used_ = 0;
};

// D3. Of the space only the stacks that are here.
class OwnMemory final : public StackMemory {
 public:
  OwnMemory() : fd_(open("/proc/self/mem", O_RDONLY | O_CLOEXEC)) {}
  ~OwnMemory() {
    if (fd_ >= 0) close(fd_);
  }
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  bool opened() const noexcept { return fd_ >= 0; }
  bool read(std::uint64_t address, void* to, std::size_t bytes) override {
    const auto* const at = reinterpret_cast<const std::byte*>(address);  // NOLINT: looked at before use
    if (gas::contains(at)) {
      const gas::SlotIndex slot = gas::slot_of(gas::page_of(at));
      if (slot == gas::kNoSlot || gas::slot_of(gas::page_of(at + bytes - 1)) != slot) return false;
      std::memcpy(to, gas::system_view(ult::config().process) + gas::offset_of(at), bytes);
      return true;
    }
    return fd_ >= 0 && pread(fd_, to, bytes, static_cast<off_t>(address)) == static_cast<ssize_t>(bytes);
  }

 private:
  int fd_;
};

}  // namespace ayatori::tasks::dump
