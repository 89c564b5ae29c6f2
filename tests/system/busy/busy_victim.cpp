// SPDX-License-Identifier: Apache-2.0
// A steal completes while its victim computes without a scheduling point: a child spins, without any call into the
// library but relaxed loads of an atomic, until its parent's continuation has run on another process. If a steal needed
// the victim's worker, this would never end. The other workers of the victim compute likewise, so that none of them takes
// the continuation. Then the same beneath a pinned thread, whose continuation nobody else may have: it must not hide the
// younger one.
//
// `busy_victim [ROUNDS]`; the last line is `check: ok` or `check: FAILED`. At least two processes.
#include <ayatori/ayatori.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

// Computes until `flag` is at least `want`. Of the loads, the one in sixteen thousand that looks is the only thing that is
// no computation. Returns the number of steps.
long compute_until(const ayatori::atomic<int>& flag, int want) {
  long n = 0;
  volatile long work = 0;
  do work = work + ++n;
  while (n % 16384 != 0 || flag.load(std::memory_order_relaxed) < want);
  return n;
}

int busy(std::span<char*> args) {
  const int rounds = args.size() > 1 ? std::atoi(args[1]) : 200;
  int wrong = 0, crossed = 0;
  for (int i = 0; i < rounds; ++i) {
    const int victim = ayatori::process_id(), others = ayatori::worker_count() - 1;
    ayatori::atomic<int> ran_on{-1}, computing{0}, over{0};
    std::vector<ayatori::thread> neighbours;
    for (int k = 0; k < others; ++k)
      neighbours.emplace_back(ayatori::on(victim), [&] {
        computing.fetch_add(1, std::memory_order_relaxed);
        compute_until(over, 1);
      });
    while (computing.load(std::memory_order_relaxed) < others) __builtin_ia32_pause();
    long steps = 0;
    int child_saw = -1;
    std::vector<int> before(1000, i);  // written before the fork: the thief must see it
    ayatori::thread child([&] {
      steps = compute_until(ran_on, 0);
      child_saw = ran_on.load(std::memory_order_relaxed);
    });
    const int here = ayatori::process_id();
    const int first = before[0], last = before[999];
    ran_on.store(here, std::memory_order_relaxed);
    child.join();
    if (first != i || last != i || child_saw != here) {
      std::printf("WRONG: round %d on %d, stolen by %d: the thief read %d and %d, the child saw %d after %ld steps\n",
                  i, victim, here, first, last, child_saw, steps);
      ++wrong;
    }
    over.store(1, std::memory_order_relaxed);
    for (auto& t : neighbours) t.join();
    crossed += here != victim;
  }
  std::printf("%d rounds, %d continuations ran on another process, %d wrong\n", rounds, crossed, wrong);
  bool ok = wrong == 0 && crossed == rounds;  // nobody else could have taken them

  int stayed = 0, hidden = 0;
  for (int i = 0; i < rounds; ++i) {
    const ayatori::pinned here;
    const int victim = ayatori::process_id();
    ayatori::atomic<int> ran_on{-1};
    ayatori::thread outer([&] {
      ayatori::thread inner([&] { compute_until(ran_on, 0); });
      ran_on.store(ayatori::process_id(), std::memory_order_relaxed);
      inner.join();
    });
    stayed += ayatori::process_id() == victim;
    outer.join();
    hidden += ran_on.load() == victim && ayatori::worker_count() == 1;
  }
  std::printf("beneath a pinned thread: %d rounds, it stayed in %d, the younger was hidden in %d\n", rounds, stayed,
              hidden);
  ok = ok && stayed == rounds && hidden == 0;
  std::printf("check: %s\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto args) { return busy(args); });
}
