// SPDX-License-Identifier: Apache-2.0
#include "tasks/atomics.hpp"

#include <algorithm>
#include <cstring>

#include "dsm/remote_coherence.hpp"
#include "tasks/remote.hpp"
#include "tasks/runtime.hpp"
#include "ult/current.hpp"

namespace ayatori::tasks {

namespace {

dsm::WordOperation operation(const void* address, std::size_t bytes, AtomicOp op, std::uint64_t operand,
                             std::uint64_t expected) noexcept {
  return {gas::page_of(address),
          static_cast<std::uint32_t>(gas::offset_of(address) % gas::kPageBytes),
          static_cast<std::uint32_t>(bytes),
          op,
          operand,
          expected};
}

struct Call {
  void* address;
  std::size_t bytes;
  AtomicOp op;
  std::uint64_t operand, expected, result;
  bool construct, destroy, release, acquire;
};
// Of this OS thread: arguments must not lie on a stack of the space. Not kept across a switch of threads.
thread_local Call call_slot;
[[gnu::noinline]] Call& slot() { return call_slot; }

bool releases(std::memory_order o) {
  return o == std::memory_order_release || o == std::memory_order_acq_rel || o == std::memory_order_seq_cst;
}
bool acquires(std::memory_order o) {
  return o == std::memory_order_acquire || o == std::memory_order_consume || o == std::memory_order_acq_rel ||
         o == std::memory_order_seq_cst;
}

// Where processes share no memory.
void execute_apart(Call& c) {
  const dsm::WordOperation o = operation(c.address, c.bytes, c.op, c.operand, c.expected);
  if (!remote::connected() && gas::owner_of(o.page) == self()) {  // a global of process 0, before the run
    c.result = dsm::operate(gas::page_in(self(), o.page) + o.offset, o);
    return;
  }
  remote::connect();
  if (c.release) dsm::remote()->release();
  c.result = dsm::remote()->at_owner(o);
  if (c.construct || c.destroy) dsm::remote()->patch(o.page, o.offset, c.construct ? &c.operand : &c.result, c.bytes);
  if (c.acquire) dsm::remote()->acquire();
}

void execute(void* argument) {
  Call& c = *static_cast<Call*>(argument);
  if (gas::apart()) return execute_apart(c);
  const dsm::WordOperation o = operation(c.address, c.bytes, c.op, c.operand, c.expected);
  if (c.construct) {
    dsm::protocol().write_through(self(), o.page, o.offset, &c.operand, c.bytes);
    return;
  }
  if (c.destroy) {
    dsm::protocol().write_back(self(), o.page, o.offset, c.bytes);
    return;
  }
  if (c.release) dsm::release(self());
  c.result = dsm::protocol().at_owner(o.page, o.offset, [&](std::byte* at) { return dsm::operate(at, o); });
  if (c.acquire) dsm::acquire();
}

}  // namespace

std::uint64_t atomic_apply(void* address, std::size_t bytes, AtomicOp op, std::uint64_t operand, std::uint64_t expected,
                           std::memory_order order) noexcept {
  const dsm::WordOperation o = operation(address, bytes, op, operand, expected);
  if (processes() == 1 || !gas::contains(address)) return dsm::operate(static_cast<std::byte*>(address), o);
  const bool release = op != AtomicOp::kLoad && releases(order);
  const bool acquire = op != AtomicOp::kStore && acquires(order);
  if (!release && !acquire && !gas::is_stack(o.page)) {
    // The owner of a heap page never changes: no lock, no change of stack.
    const int owner = std::max(gas::static_owner(o.page), 0);
    if (owner == self() || !gas::apart()) return dsm::operate(gas::page_in(owner, o.page) + o.offset, o);
  }
  Call& c = slot();
  c = {address, bytes, op, operand, expected, 0, false, false, release, acquire};
  call_native(&execute, &c);
  return slot().result;  // call_native does not switch threads
}

void atomic_construct(void* address, std::size_t bytes, std::uint64_t value) noexcept {
  if (processes() == 1 || !gas::contains(address)) {
    std::memcpy(address, &value, bytes);
    return;
  }
  Call& c = slot();
  c = {address, bytes, AtomicOp::kStore, value, 0, 0, true, false, false, false};
  call_native(&execute, &c);
}

void atomic_destroy(void* address, std::size_t bytes) noexcept {
  if (processes() == 1 || !gas::contains(address)) return;
  Call& c = slot();
  c = {address, bytes, AtomicOp::kLoad, 0, 0, 0, false, true, false, false};
  call_native(&execute, &c);
}

}  // namespace ayatori::tasks
