// SPDX-License-Identifier: Apache-2.0
// Latency hidden by other threads (as EM-X did, and thesis 3.3): threads of process 1's worker follow chains of pointers
// through pages of process 0. Each step is a fault; while its page is on its way the worker runs another thread. One chain
// a thread, together always the same number of steps; what a step takes is the whole time over all steps.
#include "cases.hpp"

#include <algorithm>
#include <random>

namespace cases {
namespace {

constexpr std::size_t kStride = 8;  // pages apart: no fault continues another one's run
constexpr int kThreads[] = {1, 2, 4, 8};
constexpr const char* kNames[] = {"1 thread, a step", "2 threads, a step", "4 threads, a step", "8 threads, a step"};
constexpr int kRounds = 3;

// Pages of process 0 in random order, in each the address of the next one.
Pages chain_of(std::size_t steps) {
  const Pages all = pages_of(0, steps * kStride);
  Pages pages;
  on_process(0, [&] {
    Pages mine;
    for (std::size_t i = 0; i < all.size(); i += kStride) mine.push_back(all[i]);
    std::shuffle(mine.begin(), mine.end(), std::mt19937(42));
    for (std::size_t i = 0; i < mine.size(); ++i) *reinterpret_cast<std::byte**>(mine[i]) = mine[(i + 1) % mine.size()];
    pages = mine;
  });
  return pages;
}

std::byte* follow(std::byte* page, std::size_t steps) {
  for (std::size_t i = 0; i < steps; ++i) page = *reinterpret_cast<std::byte* volatile*>(page);
  return page;
}

// Nanoseconds a step. On process 1.
double chase(const Pages& pages, int count) {
  const std::size_t steps = pages.size() / static_cast<std::size_t>(count);
  std::vector<std::byte*> starts, ends(static_cast<std::size_t>(count));
  for (int k = 0; k < count; ++k) starts.push_back(pages[static_cast<std::size_t>(k) * steps]);
  std::vector<ayatori::thread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  drop_cached();
  const std::int64_t start = now_ns();
  for (int k = 0; k < count; ++k)
    threads.emplace_back([from = starts[static_cast<std::size_t>(k)], to = &ends[static_cast<std::size_t>(k)], steps] {
      const ayatori::pinned here;
      *to = follow(from, steps);
    });
  for (ayatori::thread& t : threads) t.join();
  const auto time = static_cast<double>(now_ns() - start);
  for (int k = 0; k < count; ++k)
    if (ends[static_cast<std::size_t>(k)] != pages[(static_cast<std::size_t>(k) + 1) * steps % pages.size()]) return -1;
  return time / static_cast<double>(pages.size());
}

}  // namespace

void latency(const Options& o) {
  const Pages all = chain_of(o.quick ? 64 : 1024);
  std::vector<Samples> samples(std::size(kThreads));
  on_process(1, [&] {
    const Pages pages = all;
    std::vector<Samples> mine(std::size(kThreads), room(kRounds));
    chase(pages, 1);  // the pages' memory
    for (int round = 0; round < (o.quick ? 1 : kRounds); ++round)
      for (std::size_t i = 0; i < std::size(kThreads); ++i) mine[i].push_back(chase(pages, kThreads[i]) / 1e3);
    samples = mine;
  });
  for (std::size_t i = 0; i < std::size(kThreads); ++i) {
    if (*std::min_element(samples[i].begin(), samples[i].end()) < 0) fail("a thread came to the wrong page");
    report(kNames[i], "us", samples[i]);
  }
}

}  // namespace cases
