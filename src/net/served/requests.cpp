// SPDX-License-Identifier: Apache-2.0
#include "net/served/requests.hpp"

#include <bit>

namespace ayatori::net::served {

RequestTable::RequestTable(std::uint32_t slots) : slots_(slots), requests_(std::make_unique<Request[]>(slots)) {
  for (std::uint32_t slot = 0; slot < slots; ++slot)
    free_[slot / 64].fetch_or(std::uint64_t{1} << (slot % 64), std::memory_order_relaxed);  // before threads exist
}

std::uint32_t RequestTable::take(std::uint32_t hint) noexcept {
  const std::uint32_t words = (slots_ + 63) / 64;
  for (std::uint32_t i = 0; i < words; ++i) {
    const std::uint32_t index = (hint + i) % words;
    std::uint64_t bits = free_[index].load(std::memory_order_relaxed);  // the CAS validates it
    while (bits != 0) {
      // acquire: pairs with give_back()
      if (free_[index].compare_exchange_weak(bits, bits & (bits - 1), std::memory_order_acquire,
                                             std::memory_order_relaxed))
        return index * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
    }
  }
  return kNone;
}

void RequestTable::give_back(std::uint32_t slot) noexcept {
  free_[slot / 64].fetch_or(std::uint64_t{1} << (slot % 64), std::memory_order_release);  // pairs with take()
}

std::uint64_t RequestTable::publish(std::uint32_t slot) noexcept {
  const std::uint64_t serial = next_serial_.fetch_add(1, std::memory_order_relaxed);  // only unique
  // seq_cst: before the caller's look at the peer's standing; pairs with find(), and with ServedTransport::retire()
  requests_[slot].state.store(serial * 2 + 1, std::memory_order_seq_cst);
  return serial;
}

bool RequestTable::claim(std::uint32_t slot, std::uint64_t serial) noexcept {
  std::uint64_t expected = serial * 2 + 1;
  // acquire: pairs with publish(); release: with the load in one_sided_waits()
  return requests_[slot].state.compare_exchange_strong(expected, serial * 2, std::memory_order_acq_rel);
}

Request* RequestTable::find(std::uint32_t slot, std::uint64_t serial, ProcessId process) noexcept {
  if (slot >= slots_) return nullptr;
  Request& request = requests_[slot];
  // acquire: pairs with publish()
  if (request.state.load(std::memory_order_acquire) != serial * 2 + 1) return nullptr;
  const bool is_its = request.process.load(std::memory_order_relaxed) == process;  // released by state
  // acquire: of an unanswered one, which others than the caller complete, the slot may have become another's since
  if (request.unanswered.load(std::memory_order_acquire) || !is_its) return nullptr;
  return request.state.load(std::memory_order_relaxed) == serial * 2 + 1 ? &request : nullptr;
}

bool RequestTable::one_sided_waits(ProcessId peer, std::uint64_t serial) const noexcept {
  for (std::uint32_t slot = 0; slot < slots_; ++slot) {
    const Request& request = requests_[slot];
    // acquire: pairs with publish(), and with claim() when it is over
    const std::uint64_t state = request.state.load(std::memory_order_acquire);
    if ((state & 1) == 0 || state >= serial * 2) continue;
    const Request::Kind kind = request.kind.load(std::memory_order_relaxed);  // see Request
    if (kind == Request::Kind::kRpc || kind == Request::Kind::kMessage) continue;
    if (peer == kAllProcesses || request.process.load(std::memory_order_relaxed) == peer) return true;
  }
  return false;
}

}  // namespace ayatori::net::served
