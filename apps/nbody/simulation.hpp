// SPDX-License-Identifier: Apache-2.0
// A run of nbody: leapfrog steps (kick, drift, kick) with the forces of a new Barnes-Hut tree each step.
//
// 1. Bodies are sorted along a Morton curve each step: neighbours in space share pages, and a leaf is a range.
// 2. Loops run over fixed blocks and sums over fixed trees: results do not depend on processes, workers or luck.
// 3. Big arrays are allocated once. Threads take pointers to them by value: the simulation's own members, on the root
//    thread's stack, are not looked up from other processes in loops.
#pragma once

#include "force.hpp"

#include "../common/merge_sort.hpp"

#include <memory>
#include <utility>

namespace nbody {

struct Options {
  std::int64_t n = 16384;
  std::int64_t steps = 8;
  double theta = 0.5;
  double dt = 0.01;
  double softening = 0.02;
  std::int64_t seed = 1;
  bool pair = false;
};

template <class Mode>
class Simulation {
 public:
  explicit Simulation(const Options& o)
      : o_(o),
        kernel_(choose_kernel()),
        bodies_(make<Body>()),
        other_(make<Body>()),
        fields_(make<Field>()),
        keys_(make<Key>()),
        scratch_(make<Key>()) {
    Mode::for_each(0, o.n, kBlock, [o, body = bodies_.get()](std::int64_t i) {
      const auto seed = static_cast<std::uint64_t>(o.seed);
      body[i] = o.pair ? pair_body(i, o.n, seed) : plummer_body(i, o.n, seed);
    });
    const Sum drift = sum([body = bodies_.get()](std::int64_t i) {
      return Sum{body[i].mass * body[i].position, body[i].mass * body[i].velocity, 0, 0};
    });
    Mode::for_each(0, o.n, kBlock, [drift, body = bodies_.get()](std::int64_t i) {  // total mass is 1
      body[i].position = body[i].position - drift.moment;
      body[i].velocity = body[i].velocity - drift.momentum;
    });
    update_fields(0);
  }

  void step() {
    const double dt = o_.dt;
    Mode::for_each(0, o_.n, kBlock, [dt, body = bodies_.get(), field = fields_.get()](std::int64_t i) {
      body[i].velocity = body[i].velocity + (dt / 2) * field[i].acceleration;
      body[i].position = body[i].position + dt * body[i].velocity;
    });
    update_fields(dt / 2);
  }

  double energy() const {
    const Sum s = sum([body = bodies_.get(), field = fields_.get()](std::int64_t i) {
      return Sum{
          {}, {}, dot(body[i].velocity, body[i].velocity) * body[i].mass / 2, field[i].potential * body[i].mass / 2};
    });
    return s.kinetic + s.potential;
  }

  // Root mean square error of the forces on some bodies, relative to the root mean square force.
  double force_error() const {
    const std::int64_t samples = std::min<std::int64_t>(o_.n, 64);
    const Sum s = Mode::reduce(
        0, samples, Sum{},
        [n = o_.n, samples, softening = o_.softening, body = bodies_.get(), field = fields_.get()](std::int64_t k) {
          const std::int64_t i = k * (n / samples);
          const Vec right = attract_directly(body, n, i, softening).acceleration;
          const Vec error = field[i].acceleration - right;
          return Sum{{}, {}, dot(error, error), dot(right, right)};
        },
        [](Sum a, Sum b) { return a + b; });
    return std::sqrt(s.kinetic / s.potential);
  }

  const Body* bodies() const { return bodies_.get(); }  // in no particular order

 private:
  static constexpr std::int64_t kBlock = 1024;     // bodies, 64 KiB of them
  static constexpr std::int64_t kForceGrain = 16;  // nodes whose leaves one thread does: about a millisecond

  struct Sum {
    Vec moment, momentum;
    double kinetic = 0, potential = 0;
    friend Sum operator+(const Sum& a, const Sum& b) {
      return {a.moment + b.moment, a.momentum + b.momentum, a.kinetic + b.kinetic, a.potential + b.potential};
    }
  };

  template <class T>
  std::unique_ptr<T[]> make() const {
    return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(o_.n));
  }

  // Folds f(i) of all bodies, block by block.
  template <class F>
  Sum sum(F f) const {
    return Mode::reduce(
        0, (o_.n + kBlock - 1) / kBlock, Sum{},
        [f, n = o_.n](std::int64_t block) {
          Sum s;
          for (std::int64_t i = block * kBlock; i < std::min(n, (block + 1) * kBlock); ++i) s = s + f(i);
          return s;
        },
        [](Sum a, Sum b) { return a + b; });
  }

  Cube bounding_cube() const {
    struct Range {
      Vec low{1e300, 1e300, 1e300}, high{-1e300, -1e300, -1e300};
    };
    const auto unite = [](const Range& a, const Range& b) {
      return Range{{std::min(a.low.x, b.low.x), std::min(a.low.y, b.low.y), std::min(a.low.z, b.low.z)},
                   {std::max(a.high.x, b.high.x), std::max(a.high.y, b.high.y), std::max(a.high.z, b.high.z)}};
    };
    const Range r = Mode::reduce(
        0, (o_.n + kBlock - 1) / kBlock, Range{},
        [unite, n = o_.n, body = bodies_.get()](std::int64_t block) {
          Range part;
          for (std::int64_t i = block * kBlock; i < std::min(n, (block + 1) * kBlock); ++i)
            part = unite(part, {body[i].position, body[i].position});
          return part;
        },
        unite);
    const Vec extent = r.high - r.low;
    return {r.low, std::max({extent.x, extent.y, extent.z, 1e-9}) * (1 + 1e-9)};
  }

  // Sorts the bodies, builds the tree, computes all fields, and kicks the velocities for `dt`.
  void update_fields(double dt) {
    const std::int64_t n = o_.n;
    const Cube cube = bounding_cube();
    Mode::for_each(0, n, kBlock, [cube, key = keys_.get(), body = bodies_.get()](std::int64_t i) {
      key[i] = {morton_code(cube, body[i].position), static_cast<std::uint64_t>(i)};
    });
    common::MergeSort<Mode, Key, std::less<>>({}).sort(keys_.get(), scratch_.get(), static_cast<std::size_t>(n));
    Mode::for_each(0, n, kBlock, [key = keys_.get(), from = bodies_.get(), to = other_.get()](std::int64_t i) {
      to[i] = from[key[i].index];
    });
    std::swap(bodies_, other_);
    const Tree tree = TreeBuilder<Mode>(keys_.get(), bodies_.get(), cube, o_.theta).build(n);
    Mode::for_each(0, tree.size, kForceGrain,
                   [size = tree.size, nodes = tree.nodes.get(), body = bodies_.get(), field = fields_.get(),
                    softening = o_.softening, kernel = kernel_](std::int64_t i) {
                     if (nodes[i].count) attract(nodes, size, i, body, softening, kernel, field);
                   });
    // Not in the loop above: velocities share lines with positions, which other threads still read.
    Mode::for_each(0, n, kBlock, [dt, body = bodies_.get(), field = fields_.get()](std::int64_t i) {
      body[i].velocity = body[i].velocity + dt * field[i].acceleration;
    });
  }

  // Constant after construction.
  Options o_;
  Kernel kernel_;
  // Of n elements each; written by the threads of one phase, read by those of the next.
  std::unique_ptr<Body[]> bodies_, other_;
  std::unique_ptr<Field[]> fields_;
  std::unique_ptr<Key[]> keys_, scratch_;
};

}  // namespace nbody
