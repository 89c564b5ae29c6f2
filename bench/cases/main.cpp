// SPDX-License-Identifier: Apache-2.0
// ayatori-bench-cases CASE [--quick]: measures one thing, as one job, and prints the samples. Started by ayatori-bench.
#include "cases.hpp"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

namespace cases {

std::int64_t now_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec;
}

void spin_until(std::int64_t when_ns) noexcept {
  while (now_ns() < when_ns) {
  }
}

void report(const char* metric, const char* unit, const Samples& samples) {
  on_process(0, [&] {
    std::string line = std::string("sample\t") + metric + "\t" + unit + "\t";
    char number[32];
    for (const double value : samples) {
      std::snprintf(number, sizeof number, "%.4g ", value);
      line += number;
    }
    line += "\n";
    std::fwrite(line.data(), 1, line.size(), stdout);
  });
}

Pages pages_of(int process, std::size_t count) {
  Pages pages;
  on_process(process, [&] {
    Pages mine;
    for (std::size_t chunk = 0; chunk < (count + kChunkPages - 1) / kChunkPages; ++chunk) {
      // Below 1 MiB memory belongs to the process that asks for it.
      auto* at = static_cast<std::byte*>(ayatori::allocate(kChunkPages * kPageBytes, kPageBytes));
      std::memset(at, static_cast<int>(chunk % 251) + 1, kChunkPages * kPageBytes);
      for (std::size_t i = 0; i < kChunkPages; ++i) mine.push_back(at + i * kPageBytes);
    }
    mine.resize(count);
    pages = std::move(mine);
  });
  return pages;
}

// A page is dropped after 16 that did not see it used.
void drop_cached() {
  const auto word = std::make_unique<ayatori::atomic<std::uint64_t>>(0);
  for (int i = 0; i < 24; ++i) word->load(std::memory_order_acquire);
}

void fail(const char* what) {
  std::fprintf(stderr, "ayatori-bench-cases: %s\n", what);
  std::_Exit(3);
}

Samples room(std::size_t count) {
  Samples samples(count, -1.0);
  samples.clear();
  return samples;
}

namespace {

// Tells the driver when the first thread ran.
void startup(const Options&) {
  const std::int64_t now = now_ns();
  std::printf("started\t%lld\n", static_cast<long long>(now));
}

constexpr Case kCases[] = {
    {"fork_join", 1, fork_join},
    {"threads", 1, threads},
    {"threads_of_two", 1, threads_of_two},
    {"parallel", 1, parallel},
    {"steal", 2, steal},
    {"read_miss", 2, read_miss},
    {"read_stream", 2, read_stream},
    {"write_miss", 2, write_miss},
    {"upgrade", 2, upgrade},
    {"release_dirty", 2, release_dirty},
    {"acquire_cached", 2, acquire_cached},
    {"latency", 2, latency},
    {"barrier", 1, barrier},
    {"mutex_handoff", 2, mutex_handoff},
    {"startup", 1, startup},
};

int usage() {
  if (ayatori::process_id() == 0) {
    std::fputs("usage: ayatori-bench-cases CASE [--quick]\ncases:", stderr);
    for (const Case& c : kCases) std::fprintf(stderr, " %s", c.name);
    std::fputs("\n", stderr);
  }
  return 2;
}

}  // namespace
}  // namespace cases

int main(int argc, char** argv) {
  using namespace cases;
  Options options;
  const Case* chosen = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--quick") {
      options.quick = true;
      continue;
    }
    for (const Case& c : kCases)
      if (std::string_view(argv[i]) == c.name) chosen = &c;
    if (chosen == nullptr) return usage();
  }
  if (chosen == nullptr) return usage();
  if (ayatori::process_count() < chosen->processes_min) {
    std::fprintf(stderr, "%s takes at least %d processes\n", chosen->name, chosen->processes_min);
    return 2;
  }
  // `run` is an address of the program: the same in every process.
  return ayatori::run(argc, argv, [options, run = chosen->run](auto&&) {
    run(options);
    return 0;
  });
}
