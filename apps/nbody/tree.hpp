// SPDX-License-Identifier: Apache-2.0
// The octree of Barnes and Hut over bodies sorted along a Morton curve, built in parallel.
//
// 1. A node stands for a range of the sorted bodies. Nodes lie in preorder in one array; `skip` is the size of a node's
//    subtree, so that a walk is a loop without stack, and subtrees can be copied as they are.
// 2. Chains of nodes with one child are left out: every inner node has at least two children.
// 3. The tree is a function of the bodies alone: who built which part, and on which process, does not show.
//
// Subtrees of up to kBuildGrain bodies are built by one thread into a vector of its own; then all are copied to their
// places at once. The vectors grow wherever their thread runs and are freed by whoever copied them.
#pragma once

#include "body.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

namespace nbody {

constexpr std::int64_t kLeafBodies = 32;
constexpr std::int64_t kBuildGrain = 4096;
constexpr int kLevels = 21;  // bits of a coordinate in a code

struct Key {
  std::uint64_t code;   // coordinates with their bits interleaved
  std::uint64_t index;  // of the body before sorting
  friend bool operator<(const Key& a, const Key& b) { return a.code != b.code ? a.code < b.code : a.index < b.index; }
};

struct Cube {
  Vec low;
  double side = 1;
};

struct Node {
  Vec centre;  // of mass
  double mass;
  double reach2;        // a group farther from `centre` than this (squared) may take the node as one point
  std::uint32_t skip;   // nodes of this subtree
  std::uint32_t first;  // leaf: its bodies
  std::uint32_t count;  // 0: inner node
};

inline std::uint64_t spread_bits(std::uint64_t x) {  // bit i goes to bit 3 i
  x = (x | x << 32) & 0x1f00000000ffffu;
  x = (x | x << 16) & 0x1f0000ff0000ffu;
  x = (x | x << 8) & 0x100f00f00f00f00fu;
  x = (x | x << 4) & 0x10c30c30c30c30c3u;
  return (x | x << 2) & 0x1249249249249249u;
}

inline std::uint64_t morton_code(const Cube& cube, Vec p) {
  const double scale = static_cast<double>(1 << kLevels) / cube.side;
  const auto cell = [&](double x, double low) {
    return static_cast<std::uint64_t>(std::clamp((x - low) * scale, 0.0, static_cast<double>((1 << kLevels) - 1)));
  };
  return spread_bits(cell(p.x, cube.low.x)) << 2 | spread_bits(cell(p.y, cube.low.y)) << 1 |
         spread_bits(cell(p.z, cube.low.z));
}

struct Tree {
  std::unique_ptr<Node[]> nodes;
  std::int64_t size = 0;
};

template <class Mode>
class TreeBuilder {
 public:
  TreeBuilder(const Key* keys, const Body* bodies, const Cube& cube, double theta)
      : keys_(keys), bodies_(bodies), cube_(cube), theta_(theta) {}

  Tree build(std::int64_t n) const {
    Part root;
    grow(root, 0, n);
    Tree tree{std::make_unique_for_overwrite<Node[]>(root.size), static_cast<std::int64_t>(root.size)};
    place(root, tree.nodes.get());
    return tree;
  }

 private:
  // A subtree: either finished in `nodes`, or `top` with the subtrees of its children.
  struct Part {
    std::vector<Node> nodes;
    std::vector<Part> children;
    Node top;
    std::size_t size = 0;
  };

  // The boundaries of the children of the node of [first, last) in bounds[0..n]; the node's level; n = 0: not to split.
  int split(std::int64_t first, std::int64_t last, std::int64_t* bounds, int* level) const {
    const std::uint64_t differing = keys_[first].code ^ keys_[last - 1].code;
    *level = differing == 0 ? kLevels : kLevels - 1 - (63 - std::countl_zero(differing)) / 3;
    if (last - first <= kLeafBodies || differing == 0) return 0;
    const int shift = 3 * (kLevels - 1 - *level);
    int n = 0;
    for (bounds[0] = first; bounds[n] < last; ++n) {
      const std::uint64_t end = ((keys_[bounds[n]].code >> shift) + 1) << shift;  // the next octant
      bounds[n + 1] =
          std::partition_point(keys_ + bounds[n], keys_ + last, [end](const Key& key) { return key.code < end; }) -
          keys_;
    }
    return n;
  }

  // reach2 by Barnes' criterion: cell size over theta, plus how far the centre of mass lies off the cell's centre.
  void close(Node& node, std::uint64_t code, int level, Vec moment, double mass) const {
    node.mass = mass;
    node.centre = (1 / mass) * moment;
    const double side = std::ldexp(cube_.side, -level);
    const auto axis = [&](int bit) {
      std::uint64_t cell = 0;
      for (int l = 0; l < level; ++l) cell = cell << 1 | ((code >> (3 * (kLevels - 1 - l) + bit)) & 1);
      return (static_cast<double>(cell) + 0.5) * side;
    };
    const Vec off = node.centre - (cube_.low + Vec{axis(2), axis(1), axis(0)});
    const double reach = side / theta_ + std::sqrt(dot(off, off));
    node.reach2 = reach * reach;
  }

  void grow_here(std::vector<Node>& out, std::int64_t first, std::int64_t last) const {
    std::int64_t bounds[9];
    int level;
    const int children = split(first, last, bounds, &level);
    const std::size_t self = out.size();
    out.emplace_back();
    Vec moment;
    double mass = 0;
    if (children == 0) {
      for (std::int64_t i = first; i < last; ++i) {
        moment = moment + bodies_[i].mass * bodies_[i].position;
        mass += bodies_[i].mass;
      }
    }
    for (int c = 0; c < children; ++c) {
      const std::size_t child = out.size();
      grow_here(out, bounds[c], bounds[c + 1]);
      moment = moment + out[child].mass * out[child].centre;
      mass += out[child].mass;
    }
    Node& node = out[self];
    node.first = static_cast<std::uint32_t>(first);
    node.count = children ? 0 : static_cast<std::uint32_t>(last - first);
    node.skip = static_cast<std::uint32_t>(out.size() - self);
    close(node, keys_[first].code, level, moment, mass);
  }

  void grow(Part& part, std::int64_t first, std::int64_t last) const {
    std::int64_t bounds[9];
    int level;
    const int children = last - first > kBuildGrain ? split(first, last, bounds, &level) : 0;
    if (children == 0) {
      grow_here(part.nodes, first, last);
      part.top = part.nodes.front();
      part.size = part.nodes.size();
      return;
    }
    part.children.resize(static_cast<std::size_t>(children));
    Mode::for_each(0, children, 1,
                   [&, below = part.children.data()](std::int64_t c) { grow(below[c], bounds[c], bounds[c + 1]); });
    Vec moment;
    double mass = 0;
    part.size = 1;
    for (const Part& child : part.children) {
      moment = moment + child.top.mass * child.top.centre;
      mass += child.top.mass;
      part.size += child.size;
    }
    part.top.first = static_cast<std::uint32_t>(first);
    part.top.count = 0;
    part.top.skip = static_cast<std::uint32_t>(part.size);
    close(part.top, keys_[first].code, level, moment, mass);
  }

  // Copies the subtree to its place and frees it.
  static void place(Part& part, Node* out) {
    if (part.children.empty()) {
      std::memcpy(out, part.nodes.data(), part.size * sizeof(Node));
      part.nodes = {};
      return;
    }
    out[0] = part.top;
    std::size_t starts[9] = {1};
    for (std::size_t c = 0; c < part.children.size(); ++c) starts[c + 1] = starts[c] + part.children[c].size;
    Mode::for_each(0, static_cast<std::int64_t>(part.children.size()), 1,
                   [&](std::int64_t c) { place(part.children[static_cast<std::size_t>(c)], out + starts[c]); });
  }

  const Key* keys_;
  const Body* bodies_;
  Cube cube_;
  double theta_;
};

}  // namespace nbody
