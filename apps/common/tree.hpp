// SPDX-License-Identifier: Apache-2.0
// The trees of Unbalanced Tree Search (Olivier et al., LCPC 2006; version 1.1 of the benchmark), the same in every version
// of the search: apps/uts.cpp, bench/uts. A node is a SHA-1 digest: its last four bytes say how many children it has, a
// child's digest is that of (parent's digest, its number).
#pragma once

#include <nettle/sha1.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace common::tree {

constexpr int kFan = 8;            // more children than these are halved first
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

inline void put_big_endian(std::uint8_t* out, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<std::uint8_t>(value >> (24 - 8 * i));
}

inline Node root_of(const Tree& tree) {
  std::uint8_t seed[SHA1_DIGEST_SIZE] = {};
  put_big_endian(seed + 16, tree.seed);
  Node root{{}, 0};
  sha1_ctx context;
  sha1_init(&context);
  sha1_update(&context, sizeof seed, seed);
  sha1_digest(&context, sizeof root.state, root.state);
  return root;
}

inline Node child_of(const Node& parent, std::uint32_t number) {
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

inline int children_of(const Tree& tree, const Node& node) {
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

}  // namespace common::tree
