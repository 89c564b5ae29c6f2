// SPDX-License-Identifier: Apache-2.0
// joins stay|move: where does a thread go on that has waited for one of another process? A thread on process 1 ends after its
// joiner, on process 0, waits (as good as: it has said so and is given time; rounds in which it was late do not count).
// A joiner that is on process 1 afterwards without a steal there has been moved by the join. With `move` that must be
// seen, with `stay` never. Two processes of one worker.
#include <ayatori/ayatori.hpp>

#include <cstdio>
#include <cstring>

namespace {

constexpr int kRounds = 300, kRoundsMax = 20'000;

struct Seen {
  bool moved = false;
  int sum = 0;
};

Seen once() {
  Seen seen;
  ayatori::atomic<int> says(0);
  int local = 7;  // of the thread that moves, or stays
  std::uint64_t steals = 0;
  ayatori::thread from(ayatori::on(0), [&] {
    const int home = ayatori::process_id();
    ayatori::thread child(ayatori::on(1), [&] {
      const ayatori::pinned here;
      while (says.load(std::memory_order_acquire) == 0) ayatori::this_thread::yield();
      for (int i = 0; i < 200; ++i) ayatori::this_thread::yield();
      local += 35;
      steals = ayatori::snapshot().steals_remote;
    });
    says.store(1, std::memory_order_release);
    child.join();
    const ayatori::pinned here;
    const bool elsewhere = home == 0 && ayatori::process_id() == 1;
    seen.moved = elsewhere && ayatori::snapshot().steals_remote == steals;
    seen.sum = local;
  });
  from.join();
  return seen;
}

}  // namespace

int main(int argc, char** argv) {
  const bool move = argc > 1 && std::strcmp(argv[1], "move") == 0;
  return ayatori::run(argc, argv, [move](auto&&) {
    int moved = 0, rounds = 0;
    for (; rounds < kRounds || (move && moved == 0 && rounds < kRoundsMax); ++rounds) {
      const Seen seen = once();
      if (seen.sum != 42) {
        std::printf("WRONG: round %d gave %d\n", rounds, seen.sum);
        return 1;
      }
      moved += seen.moved ? 1 : 0;
    }
    std::printf("%d of %d joiners moved\n", moved, rounds);
    return (moved > 0) == move ? 0 : 1;
  });
}
