// SPDX-License-Identifier: Apache-2.0
#include "net/shm/ring.hpp"

#include <new>

#include "base/cache_line.hpp"
#include "base/check.hpp"

namespace ayatori::net::shm {

std::size_t MpscRing::bytes_needed(std::size_t units) noexcept {
  return sizeof(Shared) + units * (sizeof(Slot) + kUnitBytes);
}

void MpscRing::format(void* memory, std::size_t units) noexcept {
  AYT_CHECK(units >= kUnitsMin && (units & (units - 1)) == 0, "ring of {} units", units);
  const MpscRing ring(memory, units);
  new (ring.shared_) Shared{};
  for (std::size_t i = 0; i < units; ++i) {
    new (&ring.slots_[i].claim) std::atomic<Word>(pack(i, kFree, 0, 0));
    new (&ring.slots_[i].ready) std::atomic<Word>(pack(i - units, kMessage, 0, 0));  // R7: of an earlier lap
  }
}

// Makes `tail` pass `ticket`. True: this call cleared the sleep bit (R5).
bool MpscRing::advance(std::uint64_t ticket, std::uint32_t units) noexcept {
  std::uint64_t tail = shared_->tail.load(std::memory_order_relaxed);  // the CAS validates it
  while (tail >> 1 == ticket) {
    // release: the claim of `ticket` happens before whatever is claimed behind it; acquire and the single total order of
    // seq_cst: pairs with prepare_sleep()
    if (shared_->tail.compare_exchange_weak(tail, (ticket + units) << 1, std::memory_order_seq_cst,
                                            std::memory_order_relaxed))
      return (tail & 1) != 0;
  }
  return false;
}

MpscRing::Claim MpscRing::claim(int process, std::size_t bytes, bool* wake) noexcept {
  const auto units = static_cast<std::uint32_t>((bytes + kUnitBytes - 1) / kUnitBytes);
  const std::uint64_t ring_units = mask_ + 1;
  AYT_CHECK(units >= 1 && units <= ring_units && units <= 255, "message of {} bytes for a ring of {} units", bytes,
            ring_units);
  while (true) {
    const std::uint64_t ticket = shared_->tail.load(std::memory_order_acquire) >> 1;  // pairs with advance()
    std::atomic<Word>& word = slot(ticket).claim;
    base::prefetch_to_write(&word);
    Word seen = word.load(std::memory_order_acquire);  // pairs with free_units()
    if (ticket_of(seen) != (ticket & kTicketMask)) {
      if (ticket_of(seen) == ((ticket - ring_units) & kTicketMask)) return {};  // a lap behind: full
      continue;                                                                 // our `tail` is old
    }
    if (state_of(seen) != kFree) {  // claimed, `tail` lags (R2)
      if (advance(ticket, units_of(seen))) *wake = true;
      continue;
    }
    const std::uint64_t before_wrap = ring_units - (ticket & mask_);
    const bool pad = units > before_wrap;  // R4
    const std::uint32_t take = pad ? static_cast<std::uint32_t>(before_wrap) : units;
    if (take > 1) {
      // acquire: pairs with free_units(), the consumer has read what lay there (R3)
      const Word last = slot(ticket + take - 1).claim.load(std::memory_order_acquire);
      if (last != pack(ticket + take - 1, kFree, 0, 0)) {
        if (shared_->tail.load(std::memory_order_relaxed) >> 1 == ticket) return {};  // a hint: the caller retries
        continue;
      }
    }
    // acquire: pairs with free_units() of this very word
    if (!word.compare_exchange_strong(seen, pack(ticket, kClaimed, take, process), std::memory_order_acq_rel,
                                      std::memory_order_relaxed))
      continue;
    if (advance(ticket, take)) *wake = true;
    const bool small = bytes <= kSmallBytes;
    if (!pad) return {small ? slot(ticket).small : data_ + (ticket & mask_) * kUnitBytes, ticket, take, small};
    slot(ticket).ready.store(pack(ticket, kPadding, take, process), std::memory_order_release);  // pairs with front()
  }
}

void MpscRing::publish(const Claim& claim, int process) noexcept {
  // release: the payload; pairs with front()
  slot(claim.ticket)
      .ready.store(pack(claim.ticket, claim.small ? kSmall : kMessage, claim.units, process),
                   std::memory_order_release);
  base::prefetch_to_write(&slot(claim.ticket + claim.units).claim);  // of the next message: the consumer has freed it
}

bool MpscRing::rouse() noexcept {
  // seq_cst: what the caller announced before this load is seen by a consumer that sets the bit after it
  std::uint64_t tail = shared_->tail.load(std::memory_order_seq_cst);
  while ((tail & 1) != 0) {
    if (shared_->tail.compare_exchange_weak(tail, tail & ~std::uint64_t{1}, std::memory_order_seq_cst,
                                            std::memory_order_seq_cst))
      return true;
  }
  return false;
}

MpscRing::Front MpscRing::front(bool look_for_claims) noexcept {
  const std::uint64_t head = shared_->head.load(std::memory_order_relaxed);  // ours: the consumer lock orders consumers
  Slot& at = slot(head);
  Word seen = at.ready.load(std::memory_order_acquire);  // pairs with publish() and with pads
  Front front;
  if (ticket_of(seen) != (head & kTicketMask)) {
    if (!look_for_claims) return front;
    seen = at.claim.load(std::memory_order_acquire);  // pairs with claim()
    AYT_CHECK(ticket_of(seen) == (head & kTicketMask), "ring: ticket {} at head {}", ticket_of(seen), head);  // R1
  }
  front.process = process_of(seen);
  front.units = units_of(seen);
  switch (state_of(seen)) {
    case kFree: front.kind = Peek::kEmpty; break;
    case kClaimed: front.kind = Peek::kBusy; break;
    case kPadding: front.kind = Peek::kPad; break;
    case kMessage:
      front.kind = Peek::kMessage;
      front.data = data_ + (head & mask_) * kUnitBytes;
      break;
    case kSmall:
      front.kind = Peek::kMessage;
      front.data = at.small;
      break;
  }
  return front;
}

// relaxed: who finds something takes it by front()
bool MpscRing::is_ready(std::uint64_t ticket) const noexcept {
  return ticket_of(slot(ticket).ready.load(std::memory_order_relaxed)) == (ticket & kTicketMask);
}

bool MpscRing::looks_empty() const noexcept { return !is_ready(shared_->head.load(std::memory_order_relaxed)); }

bool MpscRing::is_last(const Front& front) const noexcept {
  return !is_ready(shared_->head.load(std::memory_order_relaxed) + front.units);
}

void MpscRing::free_units(std::uint64_t ticket, std::uint32_t units) noexcept {
  // release: our reads of the payload; pairs with the acquires in claim(). Ascending (R3).
  for (std::uint32_t i = 0; i < units; ++i)
    slot(ticket + i).claim.store(pack(ticket + mask_ + 1 + i, kFree, 0, 0), std::memory_order_release);
  shared_->head.store(ticket + units, std::memory_order_release);  // pairs with prepare_sleep()
}

void MpscRing::pop(const Front& front) noexcept {
  free_units(shared_->head.load(std::memory_order_relaxed), front.units);
}

void MpscRing::skip(const Front& front) noexcept {
  const std::uint64_t head = shared_->head.load(std::memory_order_relaxed);
  advance(head, front.units);  // R6; the consumer is awake: nobody needs the wake-up
  free_units(head, front.units);
}

bool MpscRing::prepare_sleep() noexcept {
  const std::uint64_t head = shared_->head.load(std::memory_order_acquire);  // pairs with free_units()
  std::uint64_t tail = shared_->tail.load(std::memory_order_seq_cst);
  while (tail >> 1 == head) {
    if ((tail & 1) != 0) return true;  // set already; whoever clears it wakes all sleepers
    // seq_cst: pairs with advance() and rouse()
    if (shared_->tail.compare_exchange_weak(tail, tail | 1, std::memory_order_seq_cst, std::memory_order_seq_cst))
      return true;
  }
  return false;
}

}  // namespace ayatori::net::shm
