// SPDX-License-Identifier: Apache-2.0
// What a served transport keeps per OS thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "net/completions.hpp"

namespace ayatori::net::served {

struct ThreadState {
  Completions completions;
  const void* polls = nullptr;    // the transport whose poll lock this thread holds
  const void* batches = nullptr;  // the transport for which it is between begin_batch() and end_batch()
  std::uint64_t batched = 0;      // bit: a peer to which it pushed something since
  unsigned stripe = 0;

  // The fence that it was refused last (ServedTransport::fence_unqueued), and how far its own requests have come since.
  const void* fence_of = nullptr;
  int fence_to = 0;
  std::uint64_t fence_serial = 0;  // those before it must be over
  std::uint64_t last_serial = 0;
  std::uint64_t own_message = 0;  // the message that it is issuing, which it completes itself if it can
};

inline ThreadState& thread_state() {
  static std::atomic<unsigned> threads{0};
  thread_local ThreadState state{.completions = {},
                                 .stripe = threads.fetch_add(1, std::memory_order_relaxed)};  // any numbers will do
  return state;
}

}  // namespace ayatori::net::served
