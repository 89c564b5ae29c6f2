// SPDX-License-Identifier: Apache-2.0
// What offloading keeps per OS thread, for all transports of the process together: whether user code that may not wait runs
// on it, how many completions it ran, and where it saw executors last.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ayatori::net::offload {

inline constexpr int kExecutorsMax = 16;

struct ThreadState {
  int callbacks = 0;            // handlers and completions that run, nested
  std::size_t completions = 0;  // run so far
  // The executor whose queue was full at the last "no room"; nullptr: there was no tag.
  const void* refused_by = nullptr;
  // transport.hpp F8: of the transport that this thread asked last.
  const void* beats_of = nullptr;
  std::uint32_t beats_seen[kExecutorsMax] = {};
};
inline constinit thread_local ThreadState thread_state;

// Around each handler and completion.
class CallbackScope {
 public:
  CallbackScope() noexcept { ++thread_state.callbacks; }
  ~CallbackScope() { --thread_state.callbacks; }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;
};

}  // namespace ayatori::net::offload
