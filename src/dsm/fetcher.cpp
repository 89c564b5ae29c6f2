// SPDX-License-Identifier: Apache-2.0
#include "dsm/fetcher.hpp"

#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "base/futex.hpp"

namespace ayatori::dsm {

void Fetcher::start(bool (*resolve)(void*, bool), void (*wake)(void*)) {
  std::thread([this, resolve, wake] { main(resolve, wake); }).detach();
}

void Fetcher::add(Fetch& fetch) noexcept {
  {
    const std::lock_guard guard(lock_);
    (last_ != nullptr ? last_->next : first_) = &fetch;
    last_ = &fetch;
  }
  bell_.fetch_add(1, std::memory_order_release);  // pairs with main()'s load
  base::futex_wake(bell_, 1);
}

bool Fetcher::run(void* address, bool write) noexcept {
  Fetch fetch;
  fetch.address = address;
  fetch.write = write;
  add(fetch);
  while (fetch.done.load(std::memory_order_acquire) == 0)  // pairs with main()'s store
    base::futex_wait(fetch.done, 0, 100 * base::kNsPerMs);
  return fetch.found;
}

void Fetcher::main(bool (*resolve)(void*, bool), void (*wake)(void*)) {
  for (;;) {
    const std::uint32_t bell = bell_.load(std::memory_order_acquire);
    Fetch* fetch;
    {
      const std::lock_guard guard(lock_);
      fetch = first_;
      if (fetch != nullptr) first_ = fetch->next;
      if (first_ == nullptr) last_ = nullptr;
    }
    if (fetch == nullptr) {
      base::futex_wait(bell_, bell, base::kNsPerSecond);
      continue;
    }
    fetch->found = resolve(fetch->address, fetch->write);
    if (fetch->ticket != nullptr) {
      const std::unique_ptr<Fetch> mine(fetch);
      wake(mine->ticket);  // not found: it faults again, and in vain
    } else {
      // Whoever waits may leave as soon as it reads this: nothing of the fetch is touched after it but the futex's address.
      fetch->done.store(1, std::memory_order_release);
      base::futex_wake(fetch->done, 1);
    }
  }
}

}  // namespace ayatori::dsm
