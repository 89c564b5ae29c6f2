// SPDX-License-Identifier: Apache-2.0
// Cancellation and cleanup handlers, as include/ayatori/ayatori.h declares them.
#include "api/c_cancel.hpp"

#include <cerrno>

#include "ayatori/ayatori.h"
#include "ult/cancellation.hpp"

namespace ayatori::api {

namespace {

using ult::Descriptor;

// ayatori_thread_cleanup_np of the header as C sees it.
struct Handler {
  void (*routine)(void*);
  void* argument;
  Handler* previous;
};

// The caller; its word is its own (X1): it may be what the last thread in this descriptor left.
Descriptor* own() noexcept {
  Descriptor* d = ult::current_thread();
  if (d->cancel.load(std::memory_order_relaxed) >> ult::kCancelBits != d->generation) ult::begin_cancellation(d, 0);
  return d;
}

// Sets or clears one of its own bits. Returns whether it was set.
bool set(std::uint64_t bit, bool on) noexcept {
  std::atomic<std::uint64_t>& word = own()->cancel;
  // seq_cst: as in X2, what it may wait for afterwards is looked at by who cancels
  const std::uint64_t before =
      on ? word.fetch_or(bit, std::memory_order_seq_cst) : word.fetch_and(~bit, std::memory_order_seq_cst);
  return (before & bit) != 0;
}

}  // namespace

void cancellation_point_at_once() {
  if (cancelled() && (own()->cancel.load(std::memory_order_relaxed) & ult::kCancelAtOnce) != 0) end_cancelled();
}

bool cancelled() noexcept {
  if (!ult::on_user_thread()) return false;
  const Descriptor* d = ult::current_thread();
  const std::uint64_t word = d->cancel.load(std::memory_order_relaxed);  // nothing is ordered by a cancellation
  return ult::is_cancelled(word) && word >> ult::kCancelBits == d->generation;
}

bool may_be_cancelled() noexcept {
  if (!ult::on_user_thread()) return false;
  return (own()->cancel.load(std::memory_order_relaxed) & (ult::kCancellable | ult::kCancelDisabled)) ==
         ult::kCancellable;
}

void end_cancelled() { ayatori_thread_exit(AYATORI_CANCELED); }

void disable_cancellation() noexcept { set(ult::kCancelDisabled, true); }

void run_cleanup(const void* limit) {
  for (;;) {
    Descriptor* d = own();  // a handler may have gone on elsewhere
    auto* const newest = static_cast<Handler*>(d->cleanup);
    if (!newest || newest >= limit) return;
    d->cleanup = newest->previous;
    newest->routine(newest->argument);
  }
}

}  // namespace ayatori::api

namespace {
namespace api = ayatori::api;
namespace ult = ayatori::ult;
}  // namespace

extern "C" {

int ayatori_thread_setcancelstate(int cancel_state, int* old) {
  if (!ult::on_user_thread()) return EPERM;
  if (cancel_state != AYATORI_CANCEL_ENABLE && cancel_state != AYATORI_CANCEL_DISABLE) return EINVAL;
  const bool was = api::set(ult::kCancelDisabled, cancel_state == AYATORI_CANCEL_DISABLE);
  if (old) *old = was ? AYATORI_CANCEL_DISABLE : AYATORI_CANCEL_ENABLE;
  api::cancellation_point_at_once();
  return 0;
}

int ayatori_thread_setcanceltype(int type, int* old) {
  if (!ult::on_user_thread()) return EPERM;
  if (type != AYATORI_CANCEL_DEFERRED && type != AYATORI_CANCEL_ASYNCHRONOUS) return EINVAL;
  const bool was = api::set(ult::kCancelAtOnce, type == AYATORI_CANCEL_ASYNCHRONOUS);
  if (old) *old = was ? AYATORI_CANCEL_ASYNCHRONOUS : AYATORI_CANCEL_DEFERRED;
  api::cancellation_point_at_once();
  return 0;
}

void ayatori_thread_testcancel(void) { api::cancellation_point(); }

void ayatori_thread_cleanup_push_np(api::Handler* handler) {
  ult::Descriptor* d = api::own();
  handler->previous = static_cast<api::Handler*>(d->cleanup);
  d->cleanup = handler;
}

void ayatori_thread_cleanup_pop_np(api::Handler* handler, int execute) {
  api::own()->cleanup = handler->previous;
  if (execute != 0) handler->routine(handler->argument);
}

}  // extern "C"
