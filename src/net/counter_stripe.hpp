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
  // Requests of one word of 8 bytes: a single count, from which sum_of() derives messages and bytes.
  std::atomic<std::uint64_t> words_read{0};
  std::atomic<std::uint64_t> words_written{0};

  // One more, of a stripe that no other thread ever writes. In one instruction, which compilers do not make of an atomic's
  // load and store; aligned, so nobody sees half of it.
  static void add_alone(std::atomic<std::uint64_t>& counter) noexcept {
#ifdef __SANITIZE_THREAD__
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
#else
    asm volatile("incq %0" : "+m"(reinterpret_cast<std::uint64_t&>(counter)) : : "cc");
#endif
  }

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
    const std::uint64_t read = stripe.words_read.load(std::memory_order_relaxed);
    const std::uint64_t written = stripe.words_written.load(std::memory_order_relaxed);
    sum.messages_sent += stripe.messages_sent.load(std::memory_order_relaxed) + read + written;
    sum.bytes_sent += stripe.bytes_sent.load(std::memory_order_relaxed) + 8 * written;
    sum.bytes_received += stripe.bytes_received.load(std::memory_order_relaxed) + 8 * read;
  }
  return sum;
}

}  // namespace ayatori::net
