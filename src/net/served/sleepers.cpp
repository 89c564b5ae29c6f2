// SPDX-License-Identifier: Apache-2.0
#include "net/served/sleepers.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

namespace ayatori::net::served {

int Sleepers::take_bell() {
  std::lock_guard lock(mutex_);
  if (~in_use_ == 0) return -1;
  const int bell = std::countr_one(in_use_);
  Descriptor& made = bells_[static_cast<std::size_t>(bell)];
  if (!made) made = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!made) return -1;
  in_use_ |= std::uint64_t{1} << bell;
  return bell;
}

void Sleepers::give_back(int bell) noexcept {
  std::lock_guard lock(mutex_);
  in_use_ &= ~(std::uint64_t{1} << bell);
}

void Sleepers::sleep(int watched, std::int64_t limit_ns, bool (*ready)(void* data), void* data) {
  const int bell = take_bell();
  if (bell < 0) limit_ns = std::min(limit_ns, kNapNs);  // Z2
  const std::uint64_t bit = bell < 0 ? 0 : std::uint64_t{1} << bell;
  const int fd = bell < 0 ? -1 : bells_[static_cast<std::size_t>(bell)].fd();
  asleep_.fetch_or(bit, std::memory_order_seq_cst);  // Z1, pairs with any() and ring()
  bool rang = false;
  if (!ready(data)) {
    pollfd polled[2] = {{fd, POLLIN, 0}, {watched, POLLIN, 0}};
    const timespec limit{limit_ns / 1'000'000'000, limit_ns % 1'000'000'000};
    rang = ::ppoll(polled, 2, &limit, nullptr) > 0 && polled[0].revents != 0;
  }
  if (bell < 0) return;
  if ((asleep_.fetch_and(~bit, std::memory_order_seq_cst) & bit) == 0 || rang) {
    std::uint64_t rings = 0;  // none: it is still on its way (Z3)
    [[maybe_unused]] const ssize_t got = ::read(fd, &rings, sizeof rings);
  }
  give_back(bell);
}

void Sleepers::ring() noexcept {
  std::uint64_t bits = asleep_.exchange(0, std::memory_order_seq_cst);  // Z1
  for (; bits != 0; bits &= bits - 1) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put =
        ::write(bells_[static_cast<std::size_t>(std::countr_zero(bits))].fd(), &one, sizeof one);
  }
}

}  // namespace ayatori::net::served
