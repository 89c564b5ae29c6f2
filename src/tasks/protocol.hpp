// SPDX-License-Identifier: Apache-2.0
// The fences of fork and join over the space: exactly the list of thesis 6.2.2, as code that both the runtime and the
// simulation run.
//
//   event                                             release_all in            acquire_all in
//   a process takes a continuation from another one   the victim                the thief, before it runs it
//   a thread joins one that ended elsewhere           where that one ended      the joiner's process
//   the last child resumes a parent that waits with   the child's process       the parent's process, before it runs
//   its stack in another process
//   a lock, barrier or message passes between two     the one it comes from     the one it goes to
//   processes
// Nothing else, and nothing between workers of one process (P11).
//
// Who calls it: workers on native stacks.
// F1. A continuation that was resumed from another process is run by the process that holds its stack only after an
//     acquire there; a thief's own acquire covers it.
#pragma once

#include "base/shared_lock.hpp"
#include "dsm/coherence.hpp"
#include "ult/join_word.hpp"

namespace ayatori::tasks {

using ult::JoinWord;

template <class Env>
class Fences {
 public:
  Fences(Env& env, dsm::Coherence<Env>& coherence) : env_(env), coherence_(coherence) {}

  // Process `thief` takes a continuation from `victim`. take() is called under the victim's lock and returns false when
  // somebody was faster; otherwise it sets the slot and the first used page of the stack. map(slot, first, end) is called
  // under both locks, to make these pages of the stack resident at the thief; what follows is so already. No process is locked while the other one's pages are compared.
  template <class Take, class Map>
  bool steal(int victim, int thief, Take&& take, Map&& map) {
    base::SharedLock& theirs = coherence_.process(victim).lock;
    base::SharedLock& ours = coherence_.process(thief).lock;
    gas::SlotIndex slot = gas::kNoSlot;
    gas::PageIndex first_used = 0;
    env_.lock(theirs);
    const bool taken = take(&slot, &first_used);
    if (taken) {
      env_.point();
      coherence_.release_locked(victim);
    }
    env_.unlock(theirs);
    if (!taken) return false;
    coherence_.acquire(thief);
    env_.lock(victim < thief ? theirs : ours);
    env_.lock(victim < thief ? ours : theirs);
    map(slot, first_used, coherence_.hand_over(slot, first_used, victim, thief));
    env_.unlock(ours);
    env_.unlock(theirs);
    return true;
  }

  // Something that was ordered at process `from` (an end, an unlock, an arrival) is seen at process `to`; run at `to`.
  // `since`: a tick taken after it; fences that have happened since then are not repeated.
  void pass(int from, int to, std::uint64_t since = dsm::Coherence<Env>::kUnknownTick) {
    if (from != to) coherence_.pass(from, to, since);
  }
  std::uint64_t tick() { return coherence_.tick(); }

  // The two halves of pass() where giver and taker meet through a queue.
  void give(int from) { coherence_.release(from); }
  void take(int to) { coherence_.acquire(to); }

 private:
  Env& env_;
  dsm::Coherence<Env>& coherence_;
};

}  // namespace ayatori::tasks
