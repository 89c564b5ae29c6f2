// SPDX-License-Identifier: Apache-2.0
// The soak program of threads: `soak_threads KIND SEED [SIZE]` runs one kind (README.md) and checks its results. SIZE is in
// percent, 100 if it is missing, in rounds of 100. `soak_threads --list` prints the kinds.
// Exit status 0 and a last line `check: ok`, or 1, a line for each wrong value and `check: FAILED`. Run by run.sh.
#include <cstring>

#include "soak.hpp"

namespace soak {
namespace {
ayatori::global<ayatori::atomic<long>> wrong_count;
}

void wrong(const char* what, u64 where, u64 got, u64 want) {
  if (wrong_count->fetch_add(1, std::memory_order_relaxed) >= 20) return;
  const ayatori::pinned here;
  std::printf("WRONG %s at %llx: got %llx, want %llx (process %d worker %d)\n", what,
              static_cast<unsigned long long>(where), static_cast<unsigned long long>(got),
              static_cast<unsigned long long>(want), ayatori::process_id(), ayatori::worker_id());
}
long wrong_values() { return wrong_count->load(); }

std::vector<Kind> all_kinds() {
  std::vector<Kind> all;
  for (const auto kinds : {tree_kinds(), memory_kinds(), lock_kinds(), signal_kinds(), life_kinds(), c_kinds(),
                           parallel_kinds(), atomic_kinds(), process_kinds(), mixed_kinds()})
    all.insert(all.end(), kinds.begin(), kinds.end());
  return all;
}

namespace {

int run(std::span<char*> args) {
  if (args.size() < 3 || args.size() > 4) {
    std::fprintf(stderr, "usage: %s KIND SEED [SIZE]\n       %s --list\n", args[0], args[0]);
    return 2;
  }
  const u64 seed = std::strtoull(args[2], nullptr, 0);
  const u64 size = args.size() > 3 ? std::strtoull(args[3], nullptr, 0) : 100;
  for (const Kind& kind : all_kinds()) {
    if (std::strcmp(kind.name, args[1]) != 0) continue;
    // Rounds of at most 100 percent, each with a seed of its own: threads, stacks, memory and objects are used again.
    for (u64 round = 0; round * 100 < size; ++round)
      kind.run(Run{mix(seed, round), std::min<u64>(100, size - round * 100)});
    const long bad = wrong_values();
    const ayatori::pinned here;
    std::printf("check: %s\n", bad == 0 ? "ok" : "FAILED");
    return bad == 0 ? 0 : 1;
  }
  std::fprintf(stderr, "%s: there is no kind %s\n", args[0], args[1]);
  return 2;
}

}  // namespace
}  // namespace soak

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const soak::Kind& kind : soak::all_kinds()) std::printf("%s\n", kind.name);
    return 0;
  }
  return ayatori::run(argc, argv, [](auto args) { return soak::run(args); });
}
