// SPDX-License-Identifier: Apache-2.0
// Counters of a transport, in stripes so that threads do not write one line. All relaxed: nothing is ordered by them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <ayatori/net/transport.hpp>

namespace ayatori::net {

struct alignas(64) CounterStripe {
  std::atomic<std::uint64_t> messages_sent{0};
  std::atomic<std::uint64_t> bytes_sent{0};
  std::atomic<std::uint64_t> bytes_received{0};

  // `alone`: no other thread ever writes this stripe.
  void add(std::uint64_t messages, std::uint64_t sent, std::uint64_t received, bool alone) noexcept {
    const auto each = [alone](std::atomic<std::uint64_t>& counter, std::uint64_t more) {
      if (more == 0) return;
      if (alone)
        counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
      else
        counter.fetch_add(more, std::memory_order_relaxed);
    };
    each(messages_sent, messages);
    each(bytes_sent, sent);
    each(bytes_received, received);
  }
};

template <std::size_t kStripes>
Counters sum_of(const std::array<CounterStripe, kStripes>& stripes) noexcept {
  Counters sum;
  for (const CounterStripe& stripe : stripes) {
    sum.messages_sent += stripe.messages_sent.load(std::memory_order_relaxed);
    sum.bytes_sent += stripe.bytes_sent.load(std::memory_order_relaxed);
    sum.bytes_received += stripe.bytes_received.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace ayatori::net
