// SPDX-License-Identifier: Apache-2.0
// Cancellation points of the C interface. On any thread; others than user-level threads are never cancelled.
#pragma once

#include <atomic>

#include "ult/current.hpp"
#include "ult/scheduler.hpp"

namespace ayatori::api {

// Has the caller been asked to end, and may it be?
bool cancelled() noexcept;
bool may_be_cancelled() noexcept;   // by anybody, now
[[noreturn]] void end_cancelled();  // unwinds the caller
inline void cancellation_point() {
  if (cancelled()) end_cancelled();
}
void cancellation_point_at_once();  // only for a thread of type AYATORI_CANCEL_ASYNCHRONOUS

// Runs wait(), which a cancellation of the caller ends as a timeout does.
template <class Wait>
auto cancellable(const Wait& wait) {
  if (!ult::on_user_thread()) return wait();
  ult::current_thread()->cancel_point.store(true, std::memory_order_relaxed);
  const auto result = wait();
  ult::current_thread()->cancel_point.store(false, std::memory_order_relaxed);  // elsewhere, perhaps
  return result;
}

// For c_threads.cpp, of the caller: its end has begun, it is not cancelled any more; the handlers whose place on the stack
// is below `limit` run, newest first.
void disable_cancellation() noexcept;
void run_cleanup(const void* limit);

}  // namespace ayatori::api
