// SPDX-License-Identifier: Apache-2.0
#include "tasks/atomics.hpp"

#include <cstring>

#include "tasks/runtime.hpp"
#include "ult/current.hpp"

namespace ayatori::tasks {

namespace {

template <class T>
std::uint64_t apply(void* at, AtomicOp op, std::uint64_t operand64, std::uint64_t expected64) noexcept {
  std::atomic_ref<T> word(*static_cast<T*>(at));
  const T operand = static_cast<T>(operand64);
  switch (op) {
    case AtomicOp::kLoad: return word.load();
    case AtomicOp::kStore:
    case AtomicOp::kExchange: return word.exchange(operand);
    case AtomicOp::kAdd: return word.fetch_add(operand);
    case AtomicOp::kAnd: return word.fetch_and(operand);
    case AtomicOp::kOr: return word.fetch_or(operand);
    case AtomicOp::kXor: return word.fetch_xor(operand);
    case AtomicOp::kCompareExchange: {
      T expected = static_cast<T>(expected64);
      word.compare_exchange_strong(expected, operand);
      return expected;
    }
  }
  return 0;
}

std::uint64_t apply_bytes(void* at, std::size_t bytes, AtomicOp op, std::uint64_t operand,
                          std::uint64_t expected) noexcept {
  return bytes == 8 ? apply<std::uint64_t>(at, op, operand, expected) : apply<std::uint32_t>(at, op, operand, expected);
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

void execute(void* argument) {
  Call& c = *static_cast<Call*>(argument);
  const gas::PageIndex page = gas::page_of(c.address);
  const std::size_t offset = gas::offset_of(c.address) % gas::kPageBytes;
  if (c.construct) {
    dsm::protocol().write_through(self(), page, offset, &c.operand, c.bytes);
    return;
  }
  if (c.destroy) {
    dsm::protocol().write_back(self(), page, offset, c.bytes);
    return;
  }
  if (c.release) dsm::release(self());
  c.result = dsm::protocol().at_owner(
      page, offset, [&](std::byte* at) { return apply_bytes(at, c.bytes, c.op, c.operand, c.expected); });
  if (c.acquire) dsm::acquire();
}

}  // namespace

std::uint64_t atomic_apply(void* address, std::size_t bytes, AtomicOp op, std::uint64_t operand, std::uint64_t expected,
                           std::memory_order order) noexcept {
  if (processes() == 1 || !gas::contains(address)) return apply_bytes(address, bytes, op, operand, expected);
  const bool release = op != AtomicOp::kLoad && releases(order);
  const bool acquire = op != AtomicOp::kStore && acquires(order);
  const gas::PageIndex page = gas::page_of(address);
  if (!release && !acquire && !gas::is_stack(page)) {
    // The owner of a heap page never changes: no lock, no change of stack.
    std::byte* at =
        gas::page_in(std::max(gas::static_owner(page), 0), page) + gas::offset_of(address) % gas::kPageBytes;
    return apply_bytes(at, bytes, op, operand, expected);
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
