// SPDX-License-Identifier: Apache-2.0
// Short messages of collectives between processes that share memory: a cache line for each sender, receiver and slot of an
// operation, written by the sender and looked at by the receiver. Called by Collectives under its lock.
//
// I1. A process sends at most one letter to each other in one operation. Cell (receiver, sequence % kSlots, sender) is written
//     by that sender alone, for `sequence` when the receiver has completed sequence - kSlots (net/collectives.hpp C2).
// I2. The stamp is stored last. Who posts then rouses the receiver; who goes to sleep says so and then looks at the stamps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <ayatori/net/types.hpp>
#include "base/cache_line.hpp"

namespace ayatori::net {

class Letters {
 public:
  static constexpr std::size_t kBytes = 56;
  static constexpr std::size_t kSlots = 16;  // those of Collectives; constant: no division on the way

  Letters() = default;  // there are none
  // `memory`: zeroed, aligned to 64. rouse(context, to): see I2.
  Letters(void* memory, int processes, ProcessId self, void (*rouse)(void*, ProcessId), void* context) noexcept
      : cells_(static_cast<Cell*>(memory)),
        processes_(static_cast<std::size_t>(processes)),
        self_(self),
        rouse_(rouse),
        context_(context) {}
  static std::size_t bytes_needed(int processes) noexcept {
    return sizeof(Cell) * kSlots * static_cast<std::size_t>(processes) * static_cast<std::size_t>(processes);
  }

  explicit operator bool() const noexcept { return cells_ != nullptr; }

  void post(ProcessId to, std::uint64_t sequence, const void* letter) const noexcept {
    Cell& cell = at(to, sequence, self_);
    std::memcpy(cell.letter, letter, kBytes);
    cell.stamp.store(sequence + 1, std::memory_order_seq_cst);  // release: the letter, pairs with look(); seq_cst: I2
    rouse_(context_, to);
  }
  // Fetches the line of a letter that may be posted next, which its receiver has; it does not look at it before it calls, too.
  void prepare(ProcessId to, std::uint64_t sequence) const noexcept {
    base::prefetch_to_write(&at(to, sequence, self_));
  }
  // nullptr: it has not come. The letter stays until its sender is kSlots operations further.
  const void* look(ProcessId from, std::uint64_t sequence) const noexcept {
    const Cell& cell = at(self_, sequence, from);
    return cell.stamp.load(std::memory_order_seq_cst) == sequence + 1 ? cell.letter : nullptr;  // pairs with post()
  }

 private:
  struct alignas(64) Cell {
    std::atomic<std::uint64_t> stamp;  // sequence + 1
    std::byte letter[kBytes];
  };
  static_assert(sizeof(Cell) == 64);

  Cell& at(ProcessId to, std::uint64_t sequence, ProcessId from) const noexcept {
    return cells_[(static_cast<std::size_t>(to) * kSlots + sequence % kSlots) * processes_ +
                  static_cast<std::size_t>(from)];
  }

  Cell* cells_ = nullptr;
  std::size_t processes_ = 0;
  ProcessId self_ = 0;
  void (*rouse_)(void*, ProcessId) = nullptr;
  void* context_ = nullptr;
};

}  // namespace ayatori::net
