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

  // Process `thief` takes a continuation from `victim`. take() is called under both process locks and returns false when
  // somebody was faster; otherwise it sets the slot and the first used page of the stack. map() is called before the
  // locks are left, to make the stack resident at the thief.
  template <class Take, class Map>
  bool steal(int victim, int thief, Take&& take, Map&& map) {
    base::SharedLock& first = coherence_.process(victim < thief ? victim : thief).lock;
    base::SharedLock& second = coherence_.process(victim < thief ? thief : victim).lock;
    env_.lock(first);
    env_.lock(second);
    gas::SlotIndex slot = gas::kNoSlot;
    gas::PageIndex first_used = 0;
    const bool taken = take(&slot, &first_used);
    if (taken) {
      env_.point();
      coherence_.release_locked(victim);
      coherence_.acquire_locked(thief);
      coherence_.hand_over(slot, first_used, victim, thief);
      map(slot, first_used);
    }
    env_.unlock(second);
    env_.unlock(first);
    return taken;
  }

  // Something that was ordered at process `from` (an end, an unlock, an arrival) is seen at process `to`; run at `to`.
  void pass(int from, int to) {
    if (from == to) return;
    coherence_.release(from);
    coherence_.acquire(to);
  }

  // The two halves of pass() where giver and taker meet through a queue.
  void give(int from) { coherence_.release(from); }
  void take(int to) { coherence_.acquire(to); }

 private:
  Env& env_;
  dsm::Coherence<Env>& coherence_;
};

}  // namespace ayatori::tasks
