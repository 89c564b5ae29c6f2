// SPDX-License-Identifier: Apache-2.0
// Parallel loops, reductions, scans, sorts and task groups: against the serial algorithms, with parts stolen by other
// processes. The last line is `check: ok` or `check: FAILED`.
#include <chrono>
#include <cstdio>

#include "cases.hpp"

void check(bool is, const char* what, int line) {
  if (is) return;
  if (failures->fetch_add(1) > 20) return;
  const ayatori::pinned pinned;
  std::printf("line %d: not true on process %d: %s\n", line, ayatori::process_id(), what);
}

void spin(int microseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

std::uint64_t remote_steals() {
  std::uint64_t sum = 0;
  for (int p = 0; p < ayatori::process_count(); ++p)
    ayatori::thread(ayatori::on(p), [&sum] {
      const ayatori::pinned stay;
      sum += ayatori::snapshot().steals_remote;
    }).join();
  return sum;
}

int main(int argc, char** argv) {
  // Outside of the run everything happens in the caller.
  int serial[100] = {};
  ayatori::parallel_for(0, 100, 1, [&](int i) { serial[i] = 99 - i; });
  ayatori::parallel_for(serial, serial + 100, [](int& i) { i *= 2; });
  ayatori::parallel_sort(serial, serial + 100);
  bool right = true;
  for (int i = 0; i < 100; ++i) right &= serial[i] == 2 * i;
  return ayatori::run(argc, argv, [right](auto) {
    CHECK(right);
    loops();
    scans();
    sorts();
    task_groups();
    const int failed = failures->load();
    std::printf("check: %s\n", failed == 0 ? "ok" : "FAILED");
    return failed == 0 ? 0 : 1;
  });
}
