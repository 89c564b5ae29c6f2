// SPDX-License-Identifier: Apache-2.0
#include "tasks/sync_ask.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "tasks/remote.hpp"
#include "ult/cancellation.hpp"
#include "ult/current.hpp"

namespace ayatori::tasks::sync {

namespace {

using ult::ThreadState;
using ult::Worker;

// A question on its way to the native stack: the caller's own may lie in the space. Set and read on one worker.
[[gnu::noinline]] Call& question() {
  thread_local Call call;
  return call;
}
std::uint64_t& answered() {
  thread_local std::uint64_t value;
  return value;
}

bool orders_before(Ask ask) noexcept {  // what the asker wrote must be seen by others
  return ask != Ask::kLock && ask != Ask::kTryLock && ask != Ask::kWaitPhase && ask != Ask::kSemaphoreWait &&
         ask != Ask::kSemaphoreTryWait && ask != Ask::kRwLock && ask != Ask::kRwTryLock && ask < Ask::kDestroy;
}
// Tables of addresses are process 0's.
int keeper_of(const Call& c) noexcept { return c.ask < Ask::kFindAddress ? holder_of(c.object) : 0; }

void* op_ask(Worker& w, Descriptor* self_, void*) {
  Call c = question();
  put_waiter(c, self_);
  self_->state = c.ask == Ask::kLock || c.ask == Ask::kRwLock ? ThreadState::kLocking : ThreadState::kWaiting;
  ult::set_wait_object(self_, nullptr);
  self_->wait_value = c.object;  // for people
  self_->timed_out = false;
  if (orders_before(c.ask)) dsm::release(self());
  remote::ask(keeper_of(c), c);
  return ult::schedule(w);
}

void ask_value_native(void*) {
  const Call c = question();
  if (orders_before(c.ask)) dsm::release(self());
  answered() = remote::ask_value(keeper_of(c), c);
}

}  // namespace

Call about(Ask ask, Handle h) noexcept {
  Call c{};
  c.ask = ask;
  c.actor = self();
  c.object = h;
  c.waiter_process = -1;
  c.wait_ns = kForEver;
  return c;
}

std::int64_t time_left(std::int64_t deadline_ns) noexcept {
  return deadline_ns == kForEver ? kForEver : std::max<std::int64_t>(0, deadline_ns - base::real_now_ns());
}

void put_waiter(Call& c, const Descriptor* d) {
  const remote::Waiter w = remote::waiter_of(d);
  c.waiter_process = w.process;
  c.waiter_index = w.index;
  c.waiter_os = w.os;
}

const Descriptor* ask_and_wait(const Call& call) {
  if (ult::on_user_thread()) {
    question() = call;
    ult::on_native(&op_ask, nullptr);
    return ult::current_thread();
  }
  Descriptor* d = os_descriptor();
  d->timed_out = false;
  Call c = call;
  put_waiter(c, d);
  if (orders_before(c.ask)) dsm::release(self());
  remote::ask(keeper_of(c), c);
  os_block(d);
  dsm::acquire();
  return d;
}

std::uint64_t ask_value(const Call& call) {
  question() = call;
  call_native(&ask_value_native, nullptr);
  return answered();  // call_native does not switch threads
}

bool table_is_away() noexcept { return gas::apart() && self() != 0; }
Handle ask_table(Ask ask, const void* address, Handle before, Handle handle) noexcept {
  Call c = about(ask, before);
  c.count = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(address));
  c.other = handle;
  return ask_value(c);
}

}  // namespace ayatori::tasks::sync
