// SPDX-License-Identifier: Apache-2.0
// The command ring of thesis 4.4.1-4.4.2 in shared memory: bounded, many producers (threads of all processes), one
// consumer at a time (a thread of the receiver that holds its consumer lock). Messages take one or more consecutive
// units, so that small ones stay small.
//
// The thesis claims by CAS on `tail` and then fills in; a producer that dies in between leaves a hole that nobody can
// attribute. Here the claim is a CAS on the slot's own word, which names the claimer, and `tail` follows:
//
// R1. word[t % units] is free(t) until one producer makes it claimed(t, process, units) by CAS, then ready(t) or pad(t), then
//     the consumer makes it free(t + ring units). Tickets only grow (40 bits in the word): no ABA.
// R2. `tail` moves from t to t + units(t) only after word[t] was claimed, by the claimer or by whoever finds it lagging.
//     Producers claim only at a value that `tail` had; hence units t+1 .. t+units-1 belong to the claimer of t.
// R3. The consumer frees units in ascending order; a producer that sees its last unit free owns all of them after its CAS.
// R4. A message lies in consecutive memory; the rest of the ring before the wrap is skipped by a pad message.
// R5. The low bit of `tail` says "the consumer sleeps or is about to". Whoever moves `tail` clears it and then owes one
//     wake-up. The consumer sets it by CAS only while tail == head, so no claim between its look and its sleep is lost.
// R6. A claimed slot of a failed process is freed unread by the consumer, which first makes `tail` pass it. (A claimer that is
//     merely slow or stopped holds up those behind it.)
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ayatori::net::shm {

class MpscRing {
 public:
  static constexpr std::size_t kUnitBytes = 256;
  static constexpr std::size_t kUnitsMin = 4;

  static std::size_t bytes_needed(std::size_t units) noexcept;  // of memory aligned to 64
  // Initialises zeroed memory; once, before the members are forked.
  static void format(void* memory, std::size_t units) noexcept;

  MpscRing(void* memory, std::size_t units) noexcept;  // a view; `units` as in format(): a power of two

  // --- producers ---
  struct Claim {
    std::byte* data = nullptr;  // nullptr: no room
    std::uint64_t ticket = 0;
    std::uint32_t units = 0;
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
  Front front() noexcept;
  void pop(const Front& front) noexcept;   // after kMessage and kPad
  void skip(const Front& front) noexcept;  // after kBusy of a failed process (R6)

  // Any thread of the receiver: announces sleep. False: the ring is not empty, do not sleep.
  bool prepare_sleep() noexcept;

 private:
  using Word = std::uint64_t;
  enum State : Word { kFree = 0, kClaimed = 1, kReady = 2, kPadding = 3 };
  static constexpr std::uint64_t kTicketMask = (std::uint64_t{1} << 40) - 1;

  static Word pack(std::uint64_t ticket, State state, std::uint32_t units, int process) noexcept {
    return (ticket & kTicketMask) << 24 | Word{units} << 16 | static_cast<Word>(process) << 8 | state;
  }
  static std::uint64_t ticket_of(Word word) noexcept { return word >> 24; }
  static std::uint32_t units_of(Word word) noexcept { return static_cast<std::uint32_t>(word >> 16 & 0xff); }
  static int process_of(Word word) noexcept { return static_cast<int>(word >> 8 & 0xff); }
  static State state_of(Word word) noexcept { return static_cast<State>(word & 3); }

  struct alignas(64) Shared {
    std::atomic<std::uint64_t> tail;              // ticket * 2 + sleep bit
    alignas(64) std::atomic<std::uint64_t> head;  // ticket; written by the consumer only
  };

  bool advance(std::uint64_t ticket, std::uint32_t units) noexcept;
  void free_units(std::uint64_t ticket, std::uint32_t units) noexcept;
  std::atomic<Word>& word(std::uint64_t ticket) const noexcept { return words_[ticket & mask_]; }

  Shared* shared_;
  std::atomic<Word>* words_;
  std::byte* data_;
  std::uint64_t mask_;
};

}  // namespace ayatori::net::shm
