// SPDX-License-Identifier: Apache-2.0
// Gravity of a tree on one of its leaves: the leaf's bodies walk the tree together, as a box, and collect a list of
// points (far nodes, near bodies), which is then summed for all of them. Called by any thread; touches no shared state.
#pragma once

#include "tree.hpp"

namespace nbody {

// Up to this many bodies are summed together. Lanes beyond the last body repeat the first.
constexpr int kTargets = 32;
constexpr int kLanes = 4;  // targets are counted in multiples of it
static_assert(kTargets % kLanes == 0);

struct Source {
  double x, y, z, mass;
};

struct Targets {
  alignas(64) double x[kTargets], y[kTargets], z[kTargets];
  alignas(64) double ax[kTargets], ay[kTargets], az[kTargets], potential[kTargets];
};

// Adds to targets [0, lanes) what sources [0, n) do; the inverse square law is softened by softening2.
using Kernel = void (*)(const Source* sources, int n, Targets& targets, int lanes, double softening2);
Kernel choose_kernel();  // for this CPU

// fields[i] for the bodies i of leaf `leaf` of the tree.
void attract(const Node* nodes, std::int64_t size, std::int64_t leaf, const Body* bodies, double softening,
             Kernel kernel, Field* fields);

// The same for one body by direct summation over all n; the measure of the tree's error.
Field attract_directly(const Body* bodies, std::int64_t n, std::int64_t i, double softening);

}  // namespace nbody
