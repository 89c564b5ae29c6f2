// SPDX-License-Identifier: Apache-2.0
// uts T1|T3|T1L: Unbalanced Tree Search (Olivier et al., LCPC 2006; version 1.1 of the benchmark). A node is a SHA-1
// digest: its last four bytes say how many children it has, a child's digest is that of (parent's digest, its number).
// Counts nodes, leaves and depth of a tree of which nothing is known beforehand; the published counts are the check.
//
// A node's children are threads; their results lie in an array in the parent's frame. More than kFan children are
// halved first, so that frames stay small (the root of T3 has 2,000) and T3 needs one stack a level of its 1,572.
#include "common/program.hpp"

#include <nettle/sha1.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace {

constexpr int kFan = 8;
constexpr int kChildrenMax = 100;  // of any node but a binomial root

struct Tree {
  const char* name;
  bool binomial;
  std::uint32_t seed;
  double b0;            // geometric: expected children; binomial: children of the root
  int depth_max;        // geometric, shape "fixed"
  double q;             // binomial: probability of having m children
  int m;                //
  std::uint64_t nodes;  // published
  int depth;            // published
};

// T1: -t 1 -a 3 -d 10 -b 4 -r 19; T3: -t 0 -b 2000 -q 0.124875 -m 8 -r 42; T1L: -t 1 -a 3 -d 13 -b 4 -r 29.
constexpr Tree kTrees[] = {{"T1", false, 19, 4, 10, 0, 0, 4'130'071, 10},
                           {"T3", true, 42, 2000, 0, 0.124875, 8, 4'112'897, 1572},
                           {"T1L", false, 29, 4, 13, 0, 0, 102'181'082, 13}};

struct Options {
  common::Text tree = {"T1"};
  bool serial = false;
};

struct Node {
  std::uint8_t state[SHA1_DIGEST_SIZE];
  std::int32_t depth;
};

struct Counts {
  std::uint64_t nodes = 0, leaves = 0;
  std::int64_t depth = 0;
  Counts& operator+=(const Counts& other) {
    nodes += other.nodes;
    leaves += other.leaves;
    depth = std::max(depth, other.depth);
    return *this;
  }
};

void put_big_endian(std::uint8_t* out, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<std::uint8_t>(value >> (24 - 8 * i));
}

Node root_of(const Tree& tree) {
  std::uint8_t seed[SHA1_DIGEST_SIZE] = {};
  put_big_endian(seed + 16, tree.seed);
  Node root{{}, 0};
  sha1_ctx context;
  sha1_init(&context);
  sha1_update(&context, sizeof seed, seed);
  sha1_digest(&context, sizeof root.state, root.state);
  return root;
}

Node child_of(const Node& parent, std::uint32_t number) {
  std::uint8_t message[SHA1_DIGEST_SIZE + 4];
  std::memcpy(message, parent.state, sizeof parent.state);
  put_big_endian(message + SHA1_DIGEST_SIZE, number);
  Node child{{}, parent.depth + 1};
  sha1_ctx context;
  sha1_init(&context);
  sha1_update(&context, sizeof message, message);
  sha1_digest(&context, sizeof child.state, child.state);
  return child;
}

int children_of(const Tree& tree, const Node& node) {
  if (tree.binomial && node.depth == 0) return static_cast<int>(tree.b0);
  const std::uint8_t* s = node.state;
  const std::uint32_t bits =
      (std::uint32_t{s[16]} << 24 | std::uint32_t{s[17]} << 16 | std::uint32_t{s[18]} << 8 | std::uint32_t{s[19]}) &
      0x7fffffffu;
  const double unit = bits / 2147483648.0;
  if (tree.binomial) return unit < tree.q ? tree.m : 0;
  if (node.depth >= tree.depth_max) return 0;
  const double p = 1.0 / (1.0 + tree.b0);
  return std::min(kChildrenMax, static_cast<int>(std::floor(std::log(1.0 - unit) / std::log(1.0 - p))));
}

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
