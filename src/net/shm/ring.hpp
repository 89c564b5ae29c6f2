// SPDX-License-Identifier: Apache-2.0
// The command ring of thesis 4.4.1-4.4.2 in shared memory: bounded, many producers (threads of all processes), one
// consumer at a time (a thread of the receiver that holds its consumer lock). Messages take one or more consecutive
// units, so that small ones stay small; the smallest are one cache line (R7).
//
// The thesis claims by CAS on `tail` and then fills in; a producer that dies in between leaves a hole that nobody can
// attribute. Here the claim is a CAS on the slot's own word, which names the claimer, and `tail` follows. What the consumer
// polls lies in another line than what producers claim: else its look between claim and message would cost each message
// two more journeys of that line.
//
// R1. claim[t % units] is free(t) until one producer makes it claimed(t, process, units) by CAS, until the consumer makes it
//     free(t + ring units). Tickets only grow (40 bits in the word): no ABA.
// R2. `tail` moves from t to t + units(t) only after claim[t] was claimed, by the claimer or by whoever finds it lagging.
//     Producers claim only at a value that `tail` had; hence units t+1 .. t+units-1 belong to the claimer of t.
// R3. The consumer frees units in ascending order; a producer that sees its last unit free owns all of them after its CAS.
// R4. A message lies in consecutive memory; the rest of the ring before the wrap is skipped by a pad message.
// R5. The low bit of `tail` says "the consumer sleeps or is about to". Whoever moves `tail` clears it and then owes one
//     wake-up. The consumer sets it by CAS only while tail == head, so no claim between its look and its sleep is lost.
// R6. A claimed slot of a failed process is freed unread by the consumer, which first makes `tail` pass it. (A claimer that is
//     merely slow or stopped holds up those behind it.)
// R7. ready[t % units] is of an earlier lap until the claimer of t makes it message(t), small(t) or pad(t); the consumer never
//     writes it. A message of at most kSmallBytes lies in that line as small(t), the unit's memory stays unused.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ayatori::net::shm {

class MpscRing {
 public:
  static constexpr std::size_t kUnitBytes = 256;
  static constexpr std::size_t kUnitsMin = 4;
  static constexpr std::size_t kSmallBytes = 56;

  static std::size_t bytes_needed(std::size_t units) noexcept;  // of memory aligned to 64
  // Initialises zeroed memory; once, before the members are forked.
  static void format(void* memory, std::size_t units) noexcept;

  // A view; `units` as in format(): a power of two.
  MpscRing(void* memory, std::size_t units) noexcept
      : shared_(static_cast<Shared*>(memory)),
        slots_(reinterpret_cast<Slot*>(shared_ + 1)),
        data_(reinterpret_cast<std::byte*>(slots_ + units)),
        mask_(units - 1) {}

  // --- producers ---
  struct Claim {
    std::byte* data = nullptr;  // nullptr: no room
    std::uint64_t ticket = 0;
    std::uint32_t units = 0;
    bool small = false;  // R7
  };
  // *wake is set when the caller owes the consumer a wake-up, also when there was no room (R5).
  Claim claim(int process, std::size_t bytes, bool* wake) noexcept;
  void publish(const Claim& claim, int process) noexcept;
  // Clears the sleep bit; true: the caller owes a wake-up (for news that do not pass through the ring).
  bool rouse() noexcept;

  // --- the consumer ---
  enum class Peek { kEmpty, kBusy, kMessage, kPad };
  struct Front {
    Peek kind = Peek::kEmpty;
    int process = 0;  // kBusy, kMessage: the claimer
    std::uint32_t units = 0;
    const std::byte* data = nullptr;
  };
  // look_for_claims: without, kBusy is told as kEmpty, and no line is read that producers write before they send.
  Front front(bool look_for_claims = true) noexcept;
  // Any thread of the receiver, a hint: is there nothing to take?
  bool looks_empty() const noexcept;
  bool is_last(const Front& front) const noexcept;  // a hint: has nothing come behind it?
  void pop(const Front& front) noexcept;            // after kMessage and kPad
  void skip(const Front& front) noexcept;           // after kBusy of a failed process (R6)

  // Any thread of the receiver: announces sleep. False: the ring is not empty, do not sleep.
  bool prepare_sleep() noexcept;

 private:
  using Word = std::uint64_t;
  enum State : Word { kFree = 0, kClaimed = 1, kMessage = 2, kPadding = 3, kSmall = 4 };
  static constexpr std::uint64_t kTicketMask = (std::uint64_t{1} << 40) - 1;

  static Word pack(std::uint64_t ticket, State state, std::uint32_t units, int process) noexcept {
    return (ticket & kTicketMask) << 24 | Word{units} << 16 | static_cast<Word>(process) << 8 | state;
  }
  static std::uint64_t ticket_of(Word word) noexcept { return word >> 24; }
  static std::uint32_t units_of(Word word) noexcept { return static_cast<std::uint32_t>(word >> 16 & 0xff); }
  static int process_of(Word word) noexcept { return static_cast<int>(word >> 8 & 0xff); }
  static State state_of(Word word) noexcept { return static_cast<State>(word & 7); }

  struct alignas(64) Shared {
    std::atomic<std::uint64_t> tail;              // ticket * 2 + sleep bit
    alignas(64) std::atomic<std::uint64_t> head;  // ticket; written by the consumer only
  };

  struct Slot {
    alignas(64) std::atomic<Word> claim;
    alignas(64) std::atomic<Word> ready;
    std::byte small[kSmallBytes];  // R7
  };
  static_assert(sizeof(Slot) == 128);

  bool advance(std::uint64_t ticket, std::uint32_t units) noexcept;
  bool is_ready(std::uint64_t ticket) const noexcept;
  void free_units(std::uint64_t ticket, std::uint32_t units) noexcept;
  Slot& slot(std::uint64_t ticket) const noexcept { return slots_[ticket & mask_]; }

  Shared* shared_;
  Slot* slots_;
  std::byte* data_;
  std::uint64_t mask_;
};

}  // namespace ayatori::net::shm
