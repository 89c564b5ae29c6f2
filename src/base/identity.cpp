// SPDX-License-Identifier: Apache-2.0
#include "base/identity.hpp"

#include <atomic>

namespace ayatori::base {
namespace {

struct IdentityState {
  // Relaxed: set before the process has a second thread; later readers are ordered by the threads' creation.
  std::atomic<int> process{-1};
  std::atomic<int> processes{0};
};
constinit IdentityState identity_state;
constinit thread_local int worker_of_thread = -1;

}  // namespace

void set_identity(int process, int processes) noexcept {
  identity_state.process.store(process, std::memory_order_relaxed);
  identity_state.processes.store(processes, std::memory_order_relaxed);
}

[[gnu::noinline]] void set_worker(int worker) noexcept { worker_of_thread = worker; }

Identity identity() noexcept {
  return {identity_state.process.load(std::memory_order_relaxed),
          identity_state.processes.load(std::memory_order_relaxed), worker_of_thread};
}

}  // namespace ayatori::base
