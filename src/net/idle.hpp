// SPDX-License-Identifier: Apache-2.0
// The transport that threads with nothing to do make progress for: net::open()'s, where it has no thread of its own for that
// (AYATORI_NET_OFFLOAD=worker). The scheduler of user-level threads asks here; net knows nothing of it.
//
// I1. One thread at a time makes progress; the others go on.
#pragma once

#include <atomic>

#include <ayatori/net/transport.hpp>

namespace ayatori::net {

namespace detail {
inline constinit std::atomic<Transport*> idle_transport{nullptr};
void poll_idle_transport();
}  // namespace detail

// nullptr: none any more; returns when nobody is in it. One thread, between open() and the end.
void set_idle_transport(Transport* transport);

// Native stacks of any OS thread.
inline void poll_idle_transport() {
  // relaxed: a hint, the lock behind it orders
  if (detail::idle_transport.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
    detail::poll_idle_transport();
}

}  // namespace ayatori::net
