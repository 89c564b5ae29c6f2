// SPDX-License-Identifier: Apache-2.0
// The two fences, as functions of what they find: a release with N dirty pages, an acquire with N cached ones. Pages of
// process 0, fences of process 1, asked for through an ayatori::atomic that lies there.
#include "cases.hpp"

#include <memory>

namespace cases {
namespace {

using Word = ayatori::atomic<std::uint64_t>;

double us_of(auto&& f) {
  const std::int64_t start = now_ns();
  f();
  return static_cast<double>(now_ns() - start) / 1e3;
}

// 0 stands for what the fence costs with nothing to do.
constexpr std::size_t kCounts[] = {0, 1, 4, 16, 64, 256, 1024, 4096};
constexpr const char* kDirty[] = {"0 pages",  "1 page",    "4 pages",    "16 pages",
                                  "64 pages", "256 pages", "1024 pages", "4096 pages"};
constexpr const char* kIdle[] = {"",
                                 "1 page, unchanged since the last",
                                 "4 pages, unchanged since the last",
                                 "16 pages, unchanged since the last",
                                 "64 pages, unchanged since the last",
                                 "256 pages, unchanged since the last",
                                 "1024 pages, unchanged since the last",
                                 "4096 pages, unchanged since the last"};
constexpr const char* kChanged[] = {"",
                                    "1 page, changed at the owner",
                                    "4 pages, changed at the owner",
                                    "16 pages, changed at the owner",
                                    "64 pages, changed at the owner",
                                    "256 pages, changed at the owner",
                                    "1024 pages, changed at the owner",
                                    "4096 pages, changed at the owner"};

std::size_t counts(const Options& o) { return o.quick ? 5 : std::size(kCounts); }
constexpr int kRounds = 15;

}  // namespace

// One word of each page changes between two releases; "unchanged": none does, the pages are only looked at.
void release_dirty(const Options& o) {
  for (std::size_t c = 0; c < counts(o); ++c) {
    const Pages all = pages_of(0, kCounts[c]);
    Samples changed, idle;
    on_process(1, [&] {
      const Pages pages = all;
      const auto word = std::make_unique<Word>(0);
      Samples mine = room(kRounds), mine_idle = room(kRounds);
      for (int round = 0; round < kRounds; ++round) {
        for (std::byte* const page : pages) poke(page + 64, static_cast<unsigned char>(round + 100));
        mine.push_back(us_of([&] { word->store(1, std::memory_order_release); }));
        mine_idle.push_back(us_of([&] { word->store(2, std::memory_order_release); }));
      }
      changed = mine;
      idle = mine_idle;
    });
    report(kDirty[c], "us", changed);
    if (kCounts[c] != 0) report(kIdle[c], "us", idle);
  }
}

// The owner changes a word of each page on request, without synchronising: its copy is the truth.
void acquire_cached(const Options& o) {
  for (std::size_t c = 0; c < counts(o); ++c) {
    const Pages all = pages_of(0, kCounts[c]);
    const auto asked = std::make_unique<Word>(0), done = std::make_unique<Word>(0);
    Samples clean, changed;
    ayatori::thread reader(ayatori::on(1), [&] {
      const ayatori::pinned here;
      const Pages pages = all;
      const auto word = std::make_unique<Word>(0);
      Word *const ask = asked.get(), *const answer = done.get();
      Samples mine = room(kRounds), mine_changed = room(kRounds);
      for (int round = 1; round <= kRounds; ++round) {
        for (std::byte* const page : pages) peek(page);
        mine.push_back(us_of([&] { word->load(std::memory_order_acquire); }));
        for (std::byte* const page : pages) peek(page);  // those that grew too old
        ask->store(static_cast<std::uint64_t>(round), std::memory_order_relaxed);
        while (answer->load(std::memory_order_relaxed) != static_cast<std::uint64_t>(round)) {
        }
        mine_changed.push_back(us_of([&] { word->load(std::memory_order_acquire); }));
      }
      clean = mine;
      changed = mine_changed;
    });
    ayatori::thread owner(ayatori::on(0), [&] {
      const ayatori::pinned here;
      const Pages pages = all;
      Word *const ask = asked.get(), *const answer = done.get();
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        while (ask->load(std::memory_order_relaxed) != round) {
        }
        for (std::byte* const page : pages) poke(page + 64, static_cast<unsigned char>(round));
        answer->store(round, std::memory_order_relaxed);
      }
    });
    owner.join();
    reader.join();
    report(kDirty[c], "us", clean);
    if (kCounts[c] != 0) report(kChanged[c], "us", changed);
  }
}

}  // namespace cases
