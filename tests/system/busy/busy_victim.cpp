// SPDX-License-Identifier: Apache-2.0
// A steal completes while its victim computes without a scheduling point: a child spins, without any call into the
// library but relaxed loads of an atomic, until its parent's continuation has run on another process. If a steal needed
// the victim's worker, this would never end.
//
// `busy_victim [ROUNDS]`; the last line is `check: ok` or `check: FAILED`. At least two processes of one worker.
#include <ayatori/ayatori.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

int busy(std::span<char*> args) {
  const int rounds = args.size() > 1 ? std::atoi(args[1]) : 200;
  int wrong = 0, crossed = 0;
  for (int i = 0; i < rounds; ++i) {
    const int victim = ayatori::process_id();
    ayatori::atomic<int> ran_on{-1};
    long spins = 0;
    int child_saw = -1;
    std::vector<int> before(1000, i);  // written before the fork: the thief must see it
    ayatori::thread child([&] {
      long n = 0;
      int there;
      // Of the loads, the one in sixteen thousand that looks is the only thing that is no computation.
      for (volatile long work = 0; (there = n % 16384 == 0 ? ran_on.load(std::memory_order_relaxed) : -1) < 0; ++n)
        work = work + n;
      spins = n;
      child_saw = there;
    });
    const int here = ayatori::process_id();
    if (before[999] != i || before[0] != i) ++wrong;
    ran_on.store(here, std::memory_order_relaxed);
    child.join();
    if (child_saw != here || spins <= 0) ++wrong;
    crossed += here != victim;
  }
  std::printf("%d rounds, %d continuations ran on another process, %d wrong\n", rounds, crossed, wrong);
  // With one worker a process nobody else could have taken the continuation.
  const bool ok = wrong == 0 && (ayatori::worker_count() == 1 ? crossed == rounds : crossed > 0);
  std::printf("check: %s\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto args) { return busy(args); });
}
