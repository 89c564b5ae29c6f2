// SPDX-License-Identifier: Apache-2.0
// The inner loops of nbody; see force.hpp. Compiled with -fno-math-errno, so that square roots vectorise.
#include "force.hpp"

namespace nbody {
namespace {

// One source, all targets: no sum runs across lanes, so that the compiler may vectorise without reordering anything.
[[gnu::always_inline]] inline void sum(const Source* sources, int n, Targets& t, int lanes, double softening2) {
  for (int s = 0; s < n; ++s) {
    const Source source = sources[s];
    for (int i = 0; i < lanes; ++i) {
      const double dx = source.x - t.x[i], dy = source.y - t.y[i], dz = source.z - t.z[i];
      const double inverse = 1 / __builtin_sqrt(dx * dx + dy * dy + dz * dz + softening2);
      const double potential = source.mass * inverse;
      const double pull = potential * inverse * inverse;
      t.ax[i] += pull * dx;
      t.ay[i] += pull * dy;
      t.az[i] += pull * dz;
      t.potential[i] -= potential;
    }
  }
}

void sum_baseline(const Source* sources, int n, Targets& t, int lanes, double softening2) {
  sum(sources, n, t, lanes / kLanes * kLanes, softening2);
}

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void sum_avx2(const Source* sources, int n, Targets& t, int lanes, double softening2) {
  sum(sources, n, t, lanes / kLanes * kLanes, softening2);
}
#endif

struct Box {
  Vec low, high;
  double distance2(Vec p) const {
    const auto outside = [](double x, double l, double h) { return std::max({l - x, x - h, 0.0}); };
    const Vec d{outside(p.x, low.x, high.x), outside(p.y, low.y, high.y), outside(p.z, low.z, high.z)};
    return dot(d, d);
  }
};

}  // namespace

Kernel choose_kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return sum_avx2;
#endif
  return sum_baseline;
}

void attract(const Node* nodes, std::int64_t size, std::int64_t leaf, const Body* bodies, double softening,
             Kernel kernel, Field* fields) {
  constexpr int kSources = 256;
  Source sources[kSources];
  Targets targets;
  const std::int64_t end = nodes[leaf].first + std::int64_t{nodes[leaf].count};
  // More than one round only where very many bodies share one cell of the finest level.
  for (std::int64_t first = nodes[leaf].first; first < end; first += kTargets) {
    const int count = static_cast<int>(std::min<std::int64_t>(kTargets, end - first));
    const int lanes = (count + kLanes - 1) / kLanes * kLanes;
    Box box{bodies[first].position, bodies[first].position};
    for (int i = 0; i < lanes; ++i) {
      const Vec p = bodies[i < count ? first + i : first].position;
      targets.x[i] = p.x, targets.y[i] = p.y, targets.z[i] = p.z;
      targets.ax[i] = targets.ay[i] = targets.az[i] = targets.potential[i] = 0;
      box.low = {std::min(box.low.x, p.x), std::min(box.low.y, p.y), std::min(box.low.z, p.z)};
      box.high = {std::max(box.high.x, p.x), std::max(box.high.y, p.y), std::max(box.high.z, p.z)};
    }
    int n = 0;
    const auto add = [&](Vec p, double mass) {
      sources[n++] = {p.x, p.y, p.z, mass};
      if (n == kSources) {
        kernel(sources, n, targets, lanes, softening * softening);
        n = 0;
      }
    };
    for (std::int64_t i = 0; i < size;) {
      const Node& node = nodes[i];
      if (box.distance2(node.centre) > node.reach2) {
        add(node.centre, node.mass);
        i += node.skip;
        continue;
      }
      for (std::uint32_t b = node.first; b < node.first + node.count; ++b) add(bodies[b].position, bodies[b].mass);
      ++i;
    }
    kernel(sources, n, targets, lanes, softening * softening);
    for (int i = 0; i < count; ++i)  // each body is among its sources: no force, but a potential
      fields[first + i] = {{targets.ax[i], targets.ay[i], targets.az[i]},
                           targets.potential[i] + bodies[first + i].mass / softening};
  }
}

Field attract_directly(const Body* bodies, std::int64_t n, std::int64_t i, double softening) {
  Field field;
  for (std::int64_t j = 0; j < n; ++j) {
    if (j == i) continue;
    const Vec d = bodies[j].position - bodies[i].position;
    const double inverse = 1 / std::sqrt(dot(d, d) + softening * softening);
    field.acceleration = field.acceleration + (bodies[j].mass * inverse * inverse * inverse) * d;
    field.potential -= bodies[j].mass * inverse;
  }
  return field;
}

}  // namespace nbody
