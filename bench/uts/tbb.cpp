// SPDX-License-Identifier: Apache-2.0
#include <oneapi/tbb/task_group.h>

#include "peers/peer.hpp"

using namespace common::tree;

namespace {

// The children first .. last-1 of `parent`: as in apps/uts.cpp.
Counts visit_children(const Tree& tree, const Node& parent, int first, int last) {
  const auto child = [&parent](int number) { return child_of(parent, static_cast<std::uint32_t>(number)); };
  if (last - first == 1) return peers::uts(tree, child(first));
  Counts sum;
  tbb::task_group tasks;
  if (last - first > kFan) {
    const int middle = first + (last - first) / 2;
    Counts left;
    tasks.run([&, first, middle] { left = visit_children(tree, parent, first, middle); });
    sum = visit_children(tree, parent, middle, last);
    tasks.wait();
    return sum += left;
  }
  Counts counts[kFan];
  for (int i = 0; i < last - first - 1; ++i)
    tasks.run([&tree, child, number = first + i, result = &counts[i]] { *result = peers::uts(tree, child(number)); });
  sum = peers::uts(tree, child(last - 1));
  tasks.wait();
  for (int i = 0; i < last - first - 1; ++i) sum += counts[i];
  return sum;
}

}  // namespace

Counts peers::uts(const Tree& tree, const Node& node) {
  const int children = children_of(tree, node);
  Counts counts;
  if (children > 0) counts = visit_children(tree, node, 0, children);
  counts += {1, children == 0 ? 1u : 0u, node.depth};
  return counts;
}
