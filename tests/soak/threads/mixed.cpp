// SPDX-License-Identifier: Apache-2.0
// Kind mixed: small runs of the other kinds beside and after each other, so that stacks, memory and objects are used again
// for something else.
#include <cstring>

#include "soak.hpp"

namespace soak {
namespace {

void mixed(const Run& run) {
  constexpr u64 kStrands = 3;
  const int each = run.scaled(5);
  std::vector<Kind> kinds;
  for (const Kind& kind : all_kinds())
    if (std::strcmp(kind.name, "mixed") != 0) kinds.push_back(kind);
  ayatori::parallel_for(u64{0}, kStrands, 1, [&](u64 strand) {
    for (int i = 0; i < each; ++i) {
      const u64 r = mix(run.seed, strand * 1000 + static_cast<u64>(i));
      kinds[static_cast<std::size_t>(r % kinds.size())].run(Run{mix(r), 5 + r / 64 % 12});
    }
  });
}

constexpr Kind kKinds[] = {{"mixed", mixed}};
}  // namespace

std::span<const Kind> mixed_kinds() { return kKinds; }
}  // namespace soak
