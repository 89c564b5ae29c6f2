// SPDX-License-Identifier: Apache-2.0
// What offloading keeps per OS thread, for all transports of the process together: whether user code that may not wait runs
// on it, and how many completions it ran.
#pragma once

#include <cstddef>

namespace ayatori::net::offload {

struct ThreadState {
  int callbacks = 0;            // handlers and completions that run, nested
  std::size_t completions = 0;  // run so far
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
