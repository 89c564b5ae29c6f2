// SPDX-License-Identifier: Apache-2.0
// A steal between two processes of one worker: from the child's first instruction at the victim, which then computes
// without scheduling points until it sees that its parent's continuation has run elsewhere, to that continuation's first
// instruction at the thief.
//
// The continuation computes a little longer than the child, joins it and forks again: so the next thief, the worker that
// ran the child, has been idle for some microseconds and is still looking for work ("thief awake"). In the second series
// it has been idle for milliseconds and sleeps between its looks ("thief asleep").
#include "cases.hpp"

#include <memory>

namespace cases {
namespace {

constexpr std::int64_t kNsPerUs = 1000;
constexpr std::int64_t kPatience_ns = 100'000 * kNsPerUs;  // the child gives up: nobody steals

using Word = ayatori::atomic<std::uint64_t>;  // relaxed: goes straight to the owner's copy

struct Taken {
  Samples us;
  int tried = 0;
};

void measure(Taken& taken, Word* stolen, int rounds, std::int64_t pause_ns) {
  for (int i = 0; i < rounds; ++i) {
    if (pause_ns > 0) spin_until(now_ns() + pause_ns);
    std::int64_t began = 0;  // written by the child before anybody steals: goes with the stack
    const int home = ayatori::process_id();
    stolen->store(0, std::memory_order_relaxed);
    ayatori::thread t([&began, stolen] {
      const std::int64_t now = now_ns();
      began = now;
      while (stolen->load(std::memory_order_relaxed) == 0 && now_ns() < now + kPatience_ns) {
      }
    });
    const std::int64_t arrived = now_ns();
    stolen->store(1, std::memory_order_relaxed);
    if (ayatori::process_id() != home) taken.us.push_back(static_cast<double>(arrived - began) / 1e3);
    ++taken.tried;
    spin_until(arrived + 10 * kNsPerUs);
    t.join();
  }
}

}  // namespace

void steal(const Options& o) {
  const int rounds = o.quick ? 50 : 1000, sleeps = o.quick ? 5 : 40;
  const auto stolen = std::make_unique<Word>(0);
  Taken warm{room(20)}, awake{room(static_cast<std::size_t>(rounds))}, asleep{room(static_cast<std::size_t>(sleeps))};
  measure(warm, stolen.get(), 20, 0);
  measure(awake, stolen.get(), rounds, 0);
  measure(asleep, stolen.get(), sleeps, 4000 * kNsPerUs);
  report("busy victim, thief awake", "us", awake.us);
  report("busy victim, thief asleep", "us", asleep.us);
  const int missed = awake.tried - static_cast<int>(awake.us.size());
  report("never stolen", "%", Samples{100.0 * missed / awake.tried});
}

}  // namespace cases
