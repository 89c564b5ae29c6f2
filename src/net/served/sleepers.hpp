// SPDX-License-Identifier: Apache-2.0
// Threads of one process that sleep until somebody rings or a descriptor is readable. Any thread.
//
// Z1. A sleeper has (a) said that it sleeps, then (b) looked at its condition; who rings has changed the condition before it
//     looks who sleeps. Bells are eventfds: a ring before the sleep ends it at once. So no wake-up is lost.
// Z2. More than kBells sleepers take naps of kNapNs instead.
// Z3. A ring may come when its sleeper, whose time was over, has gone. Then it ends the next sleep at this bell, once: whoever
//     is woken by a bell empties it, although nobody rang for him. A bell that nobody empties would let nobody sleep.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "net/served/descriptor.hpp"

namespace ayatori::net::served {

class Sleepers {
 public:
  // Sleeps for `limit_ns` at most unless ready(data). `watched`: a descriptor that ends the sleep too, -1: none.
  void sleep(int watched, std::int64_t limit_ns, bool (*ready)(void* data), void* data);
  // seq_cst, a read-modify-write: either it sees the sleeper, or the sleeper sees what the caller did before (Z1)
  bool any() noexcept { return asleep_.fetch_or(0, std::memory_order_seq_cst) != 0; }
  void ring() noexcept;  // all that sleep now

 private:
  static constexpr int kBells = 64;
  static constexpr std::int64_t kNapNs = 1'000'000;

  int take_bell();
  void give_back(int bell) noexcept;

  std::mutex mutex_;  // guards in_use_; bells_ are made under it
  std::uint64_t in_use_ = 0;
  std::array<Descriptor, kBells> bells_;
  std::atomic<std::uint64_t> asleep_{0};  // bit: bell
};

}  // namespace ayatori::net::served
