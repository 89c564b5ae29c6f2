// SPDX-License-Identifier: Apache-2.0
// What a served transport keeps per OS thread.
#pragma once

#include <atomic>

#include "net/completions.hpp"

namespace ayatori::net::served {

struct ThreadState {
  Completions completions;
  const void* polls = nullptr;  // the transport whose poll lock this thread holds
  unsigned stripe = 0;
};

inline ThreadState& thread_state() {
  static std::atomic<unsigned> threads{0};
  thread_local ThreadState state{{}, nullptr, threads.fetch_add(1, std::memory_order_relaxed)};  // any numbers will do
  return state;
}

}  // namespace ayatori::net::served
