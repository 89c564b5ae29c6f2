// SPDX-License-Identifier: Apache-2.0
#include "net/idle.hpp"

#include <mutex>

#include "base/shared_lock.hpp"

namespace ayatori::net {
namespace {
constinit base::SharedLock polled;  // while somebody makes progress, or sets (I1)
}  // namespace

void detail::poll_idle_transport() {
  const std::unique_lock lock(polled, std::try_to_lock);
  if (!lock.owns_lock()) return;
  Transport* const transport = idle_transport.load(std::memory_order_relaxed);  // written under the lock
  if (transport != nullptr) transport->progress();
}

void set_idle_transport(Transport* transport) {
  const std::lock_guard lock(polled);
  detail::idle_transport.store(transport, std::memory_order_relaxed);
}

}  // namespace ayatori::net
