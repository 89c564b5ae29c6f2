// SPDX-License-Identifier: Apache-2.0
// Whom a worker that has nothing to run asks next, of the other processes of the job: those of its own machine first. The
// workers of its own process come before all of them (ult). Its worker only, on its native stack.
//
// V1. Between two processes of other machines at least as many of its own machine are asked in vain as there are, at random.
// V2. While those of other machines have nothing either, a random number of further ones comes before, up to a bound that
//     doubles up to kMost: the workers of a machine do not ask at the same time, and not for ever more rarely.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace ayatori::tasks {

// Sets of processes, a bit each (gas::kMaxProcesses is 64).
struct Peers {
  std::uint64_t here = 0;  // of this machine, without this process
  std::uint64_t beyond = 0;
};

class Victims {
 public:
  // -1: there is no other process.
  int next(const Peers& peers, std::uint64_t random) noexcept {
    const auto here = static_cast<std::uint32_t>(std::popcount(peers.here));
    const bool near = peers.beyond == 0 || (here != 0 && left_ != 0);
    if (near) {
      if (left_ != 0) --left_;
      return here != 0 ? pick(peers.here, random) : -1;
    }
    left_ = here == 0 ? 0 : here + static_cast<std::uint32_t>(random >> 32) % rarity_;
    return pick(peers.beyond, random);
  }
  // What came of asking that process.
  void asked(const Peers& peers, int process, bool found) noexcept {
    const bool beyond = (peers.beyond >> process & 1) != 0;
    if (beyond && found) ++steals_beyond_;
    if (beyond) rarity_ = found ? 1 : std::min(2 * rarity_, kMost);
    if (!beyond && found) left_ = std::max(left_, static_cast<std::uint32_t>(std::popcount(peers.here)));
  }

  // From other machines so far. Late, from other threads.
  std::uint64_t steals_beyond() const noexcept { return steals_beyond_; }

  static constexpr std::uint32_t kMost = 16;

 private:
  static int pick(std::uint64_t set, std::uint64_t random) noexcept {
    auto skip = static_cast<std::uint32_t>(random) % static_cast<std::uint32_t>(std::popcount(set));
    while (skip-- > 0) set &= set - 1;
    return std::countr_zero(set);
  }

  std::uint32_t left_ = 1;    // of this machine's that come before the next one beyond
  std::uint32_t rarity_ = 1;  // V2
  std::uint64_t steals_beyond_ = 0;
};

}  // namespace ayatori::tasks
