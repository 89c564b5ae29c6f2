// SPDX-License-Identifier: Apache-2.0
// The plan of a soak of threads: `soak_plan RUNS SEED [--without TRANSPORT]... [--only KIND]... <KINDS` reads the names of
// kinds, one a line, and prints RUNS lines `KIND SEED SIZE TRANSPORT PROCESSES WORKERS ENGINE`, and on standard error how many
// of the valid pairs of two values they cover. Called by run.sh.
//
// V1. One process has one transport (shm): the others mean something from two processes on. All other pairs are valid.
// V2. The same arguments give the same plan.
// V3. Each line is the one of many random ones that covers most pairs which no line before has covered; when all are
//     covered, counting begins again, so that a longer plan has each pair as often as the others, as far as that goes.
// V4. Where a job talks by messages it is five times smaller, with one process more than twice as large.
// Under ThreadSanitizer one process is what there is; under a sanitizer runs are smaller.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using u64 = std::uint64_t;

#if defined(__SANITIZE_THREAD__)
constexpr int kProcesses = 1, kSize = 20;
#elif defined(__SANITIZE_ADDRESS__)
constexpr int kProcesses = 4, kSize = 20;
#else
constexpr int kProcesses = 4, kSize = 100;
#endif
constexpr int kWorkers = 4;

constexpr std::size_t kFactors = 5;
enum Factor { kKind, kTransport, kProcess, kWorker, kEngine };
using Row = std::array<int, kFactors>;

struct Plan {
  std::vector<std::string> kinds, transports{"shm"}, engines{"uffd", "mprotect"};
  int levels(std::size_t factor) const {
    switch (factor) {
      case kKind: return static_cast<int>(kinds.size());
      case kTransport: return static_cast<int>(transports.size());
      case kProcess: return kProcesses;
      case kWorker: return kWorkers;
      default: return static_cast<int>(engines.size());
    }
  }
};
bool valid(const Row& row) { return row[kProcess] > 0 || row[kTransport] == 0; }  // V1

using Pair = std::array<int, 4>;  // factor, level, factor, level
template <class F>
void each_pair(const Row& row, F f) {
  for (int a = 0; a < static_cast<int>(kFactors); ++a)
    for (int b = a + 1; b < static_cast<int>(kFactors); ++b)
      f(Pair{a, row[static_cast<std::size_t>(a)], b, row[static_cast<std::size_t>(b)]});
}

class Random {
 public:
  explicit Random(u64 seed) : state_(seed) {}
  u64 next() {
    u64 x = state_ += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  int below(int n) { return static_cast<int>(next() % static_cast<u64>(n)); }

 private:
  u64 state_;
};

std::set<Pair> all_pairs(const Plan& plan) {
  std::set<Pair> pairs;
  for (int a = 0; a < static_cast<int>(kFactors); ++a)
    for (int b = a + 1; b < static_cast<int>(kFactors); ++b)
      for (int x = 0; x < plan.levels(static_cast<std::size_t>(a)); ++x)
        for (int y = 0; y < plan.levels(static_cast<std::size_t>(b)); ++y)
          if (a != kTransport || b != kProcess || y > 0 || x == 0) pairs.insert(Pair{a, x, b, y});
  return pairs;
}

Row best_of(const Plan& plan, const std::set<Pair>& open, Random& random) {
  Row best = {};
  int most = -1;
  // Half of the candidates hold an open pair, so that the last ones are found.
  for (int i = 0; i < 60; ++i) {
    Row row;
    for (std::size_t f = 0; f < kFactors; ++f) row[f] = random.below(plan.levels(f));
    if (i % 2 == 0 && !open.empty()) {
      auto pair = open.begin();
      std::advance(pair, random.below(static_cast<int>(open.size())));
      row[static_cast<std::size_t>((*pair)[0])] = (*pair)[1];
      row[static_cast<std::size_t>((*pair)[2])] = (*pair)[3];
    }
    if (!valid(row)) continue;
    int covers = 0;
    each_pair(row, [&](const Pair& pair) { covers += open.count(pair) != 0; });
    if (covers > most) {
      most = covers;
      best = row;
    }
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s RUNS SEED [--without TRANSPORT]... [--only KIND]... <KINDS\n", argv[0]);
    return 2;
  }
  Plan plan;
  std::set<std::string> without, only;
  for (int i = 3; i + 1 < argc; i += 2) (std::strcmp(argv[i], "--only") == 0 ? only : without).insert(argv[i + 1]);
  if (kProcesses > 1)
    for (const char* transport : {"tcp", "ucx", "shm+tcp"})
      if (without.count(transport) == 0) plan.transports.emplace_back(transport);
  for (std::string kind; std::getline(std::cin, kind);)
    if (!kind.empty() && (only.empty() || only.count(kind) != 0)) plan.kinds.push_back(kind);
  if (plan.kinds.empty()) {
    std::fprintf(stderr, "%s: no kinds\n", argv[0]);
    return 2;
  }
  const long runs = std::strtol(argv[1], nullptr, 0);
  const u64 seed = std::strtoull(argv[2], nullptr, 0);
  const char* const size_given = std::getenv("AYT_SOAK_SIZE");  // NOLINT(concurrency-mt-unsafe): one thread
  const int size = size_given != nullptr ? std::atoi(size_given) : kSize;

  Random random(seed);
  const std::set<Pair> all = all_pairs(plan);
  std::set<Pair> open = all, covered;
  for (long r = 0; r < runs; ++r) {
    if (open.empty()) open = all;  // V3
    const Row row = best_of(plan, open, random);
    each_pair(row, [&](const Pair& pair) {
      open.erase(pair);
      covered.insert(pair);
    });
    // V4
    const int times = row[kProcess] == 0 ? 40 : row[kTransport] == 0 ? 15 : 3;
    std::printf("%s %llu %d %s %d %d %s\n", plan.kinds[static_cast<std::size_t>(row[kKind])].c_str(),
                static_cast<unsigned long long>(random.next() % 1000000), times * size,
                plan.transports[static_cast<std::size_t>(row[kTransport])].c_str(), row[kProcess] + 1, row[kWorker] + 1,
                plan.engines[static_cast<std::size_t>(row[kEngine])].c_str());
  }
  std::fprintf(stderr,
               "%zu of %zu valid pairs of kind, transport, processes, workers, engine are covered by %ld runs\n",
               covered.size(), all.size(), runs);
  return 0;
}
