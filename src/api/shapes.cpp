// SPDX-License-Identifier: Apache-2.0
// What include/ayatori/once.hpp, stop.hpp and future.hpp need of the layers below: numbers of callers, mutexes of flags outside
// the space, what a thread does when it ends. Called on any thread and stack.
#include <atomic>
#include <ayatori/ayatori.hpp>
#include <new>

#include "api/start.hpp"
#include "gas/space.hpp"
#include "tasks/address_table.hpp"
#include "tasks/keys.hpp"
#include "tasks/runtime.hpp"
#include "tasks/sync.hpp"

namespace ayatori::detail {

namespace keys = tasks::keys;
namespace sync = tasks::sync;

std::uint64_t caller_number() noexcept { return sync::caller_number(); }

// ------------------------------------------------------------------------------------------------ once

SyncHandle once_mutex(std::uint64_t* handle) {
  // acquire: pairs with the exchange below; in the space the program orders the flag's construction and its use
  const std::atomic_ref<std::uint64_t> own(*handle);
  std::uint64_t there = own.load(std::memory_order_acquire);
  if (there != 0) return there;
  api::ensure_started();  // a static initialiser may be earlier than the library's own
  const SyncHandle made = sync::mutex_create();
  if (own.compare_exchange_strong(there, made, std::memory_order_acq_rel)) return made;
  sync::mutex_destroy(made);
  return there;
}

void once_end(std::uint64_t* handle) noexcept {
  if (gas::contains(handle))
    mutex_destroy(handle, *handle);
  else if (!tasks::address_table::is_static(handle))  // else the process ends
    sync::mutex_destroy(*handle);
}

// ------------------------------------------------------------------------------------------------ ends of threads

void at_thread_exit(ExitCall* call) {
  keys::AtExit* const mine = keys::at_exit();
  if (mine == nullptr) throw std::bad_alloc();
  call->next = static_cast<ExitCall*>(mine->list);
  mine->list = call;
  mine->run = [](void* newest) {
    for (auto* c = static_cast<ExitCall*>(newest); c != nullptr;) {
      ExitCall* const next = c->next;
      c->run(c);  // which may free it
      c = next;
    }
  };
}

}  // namespace ayatori::detail
