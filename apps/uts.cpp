// SPDX-License-Identifier: Apache-2.0
// uts T1|T3|T1L: Unbalanced Tree Search (Olivier et al., LCPC 2006; version 1.1 of the benchmark). A node is a SHA-1
// digest: its last four bytes say how many children it has, a child's digest is that of (parent's digest, its number).
// Counts nodes, leaves and depth of a tree of which nothing is known beforehand; the published counts are the check.
//
// A node's children are threads; their results lie in an array in the parent's frame. More than kFan children are
// halved first, so that frames stay small (the root of T3 has 2,000) and T3 needs one stack a level of its 1,572.
#include "common/program.hpp"
#include "common/tree.hpp"

#include <algorithm>
#include <cstring>

namespace {

using namespace common::tree;

struct Options {
  common::Text tree = {"T1"};
  bool serial = false;
};

template <class Mode>
Counts visit(const Tree& tree, const Node& node);

// The children first .. last-1 of `parent`.
template <class Mode>
Counts visit_children(const Tree& tree, const Node& parent, int first, int last) {
  if (last - first == 1) return visit<Mode>(tree, child_of(parent, static_cast<std::uint32_t>(first)));
  Counts sum;
  if (last - first > kFan) {
    const int middle = first + (last - first) / 2;
    Counts left;
    // A node is 24 bytes: copied into the thread rather than read from the parent's process.
    typename Mode::thread t(
        [&tree, parent, first, middle, &left] { left = visit_children<Mode>(tree, parent, first, middle); });
    sum = visit_children<Mode>(tree, parent, middle, last);
    t.join();
    return sum += left;
  }
  Counts counts[kFan];
  typename Mode::thread threads[kFan];
  const int forked = last - first - 1;
  for (int i = 0; i < forked; ++i) {
    Counts* result = &counts[i];
    threads[i] = typename Mode::thread([&tree, parent, number = first + i, result] {
      *result = visit<Mode>(tree, child_of(parent, static_cast<std::uint32_t>(number)));
    });
  }
  sum = visit<Mode>(tree, child_of(parent, static_cast<std::uint32_t>(last - 1)));
  for (int i = 0; i < forked; ++i) {
    threads[i].join();
    sum += counts[i];
  }
  return sum;
}

template <class Mode>
Counts visit(const Tree& tree, const Node& node) {
  const int children = children_of(tree, node);
  Counts counts;
  if (children > 0) counts = visit_children<Mode>(tree, node, 0, children);
  counts += {1, children == 0 ? 1u : 0u, node.depth};
  return counts;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  common::Arguments arguments("uts", "Unbalanced Tree Search: counts the nodes of a tree that SHA-1 unfolds.");
  arguments.word("TREE", &options.tree, false, "which of the published trees", {"T1", "T3", "T1L"});
  arguments.flag("--serial", &options.serial, "plain calls");
  if (const auto status = arguments.parse(argc, argv)) return *status;

  return common::start(argc, argv, options, options.serial, [](auto mode, const Options& o) {
    using Mode = decltype(mode);
    // kTrees is constant: the same in every process, so a reference to it may travel.
    const Tree& tree = *std::find_if(std::begin(kTrees), std::end(kTrees),
                                     [&o](const Tree& t) { return !std::strcmp(t.name, o.tree.text); });
    const common::Timer<Mode> timer;
    const Counts counts = visit<Mode>(tree, root_of(tree));
    const double seconds = timer.seconds();
    int status = 0;
    Mode::on_process_0([&] {
      std::printf("%s: %llu nodes, %llu leaves, depth %lld\n", tree.name, static_cast<unsigned long long>(counts.nodes),
                  static_cast<unsigned long long>(counts.leaves), static_cast<long long>(counts.depth));
      status = common::finish(seconds, counts.nodes == tree.nodes && counts.depth == tree.depth);
    });
    return status;
  });
}
