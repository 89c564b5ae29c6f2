// SPDX-License-Identifier: Apache-2.0
// A directed test of lost writes: on each process one thread increments its own words of pages that all processes write,
// without any scheduling point, while siblings make the process acquire (mutex, join, atomic) again and again. An acquire
// that fetched before it sent, or that dropped a page before it was diffed, would undo increments.
#include "litmus.hpp"

using namespace litmus;

LITMUS(lost_write, "lost-write", "an increment is lost") {
  const int n = ayatori::process_count();
  constexpr std::size_t kPages = 3, kWords = kPages * 512;
  // 32-bit counters: two processes write into each 64-bit word that is compared and merged.
  std::vector<std::uint32_t> words(kWords * 2);
  ayatori::mutex mutex;
  ayatori::atomic<int> busy{n};
  std::vector<ayatori::thread> threads;
  for (int p = 0; p < n; ++p) {
    threads.emplace_back(ayatori::on(p), [&, p] {
      for (int step = 0; step < 100; ++step)
        for (std::size_t i = static_cast<std::size_t>(p); i < words.size(); i += static_cast<std::size_t>(n) * 7)
          ++words[i];
      busy.fetch_sub(1, std::memory_order_relaxed);
    });
    threads.emplace_back(ayatori::on(p), [&, p] {
      ayatori::pinned here;
      for (int i = 0; i < 20 && busy.load(std::memory_order_relaxed) > 0; ++i) {
        if (i % 3 == 0) {
          std::lock_guard lock(mutex);
          r.cell(3)[2 + p % 4] = static_cast<unsigned char>(i);
        } else if (i % 3 == 1) {
          (void)busy.load();
        } else {
          ayatori::thread(ayatori::on((p + 1) % n), [] {}).join();
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  long lost = 0;
  for (int p = 0; p < n; ++p)
    for (std::size_t i = static_cast<std::size_t>(p); i < words.size(); i += static_cast<std::size_t>(n) * 7)
      lost += words[i] != 100;
  return {lost != 0, lost == 0 ? "all there" : std::to_string(lost) + " words wrong", n > 1};
}
