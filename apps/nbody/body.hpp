// SPDX-License-Identifier: Apache-2.0
// What the parts of nbody have in common: vectors, bodies, and the initial state (any thread may make any body).
// Units are N-body units: G = 1, total mass 1, energy -1/4.
#pragma once

#include "../common/random.hpp"

#include <cmath>
#include <cstdint>
#include <numbers>

namespace nbody {

struct Vec {
  double x = 0, y = 0, z = 0;
  friend Vec operator+(Vec a, Vec b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
  friend Vec operator-(Vec a, Vec b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
  friend Vec operator*(double s, Vec a) { return {s * a.x, s * a.y, s * a.z}; }
  friend double dot(Vec a, Vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
};

// One cache line.
struct Body {
  Vec position, velocity;
  double mass;
  std::int64_t id;
};
static_assert(sizeof(Body) == 64);

// What acts on a body.
struct Field {
  Vec acceleration;
  double potential = 0;
};

// Body `id` of a Plummer sphere of `n` bodies (Aarseth, Henon, Wielen: Astronomy and Astrophysics 37, 1974).
// 99.9 % of the mass: the rest would lie arbitrarily far away.
inline Body plummer_body(std::int64_t id, std::int64_t n, std::uint64_t seed) {
  std::uint64_t counter = 0;
  const std::uint64_t stream = common::random_bits(seed, static_cast<std::uint64_t>(id));
  const auto next = [&] { return common::random_unit(stream, counter++); };
  const auto direction = [&](double length) {
    const double z = 2 * next() - 1, angle = 2 * std::numbers::pi * next(), flat = std::sqrt(1 - z * z);
    return length * Vec{flat * std::cos(angle), flat * std::sin(angle), z};
  };
  const double within = 0.999 * next() + 1e-12;
  const double radius = 1 / std::sqrt(std::pow(within, -2.0 / 3) - 1);
  double q = 0, g = 1;
  while (g > q * q * std::pow(1 - q * q, 3.5)) {  // density of the speed in units of the escape speed, by rejection
    q = next();
    g = 0.1 * next();
  }
  const double speed = q * std::numbers::sqrt2 * std::pow(1 + radius * radius, -0.25);
  constexpr double kScale = 3 * std::numbers::pi / 16;
  Body body;
  body.position = direction(kScale * radius);
  body.velocity = direction(speed / std::sqrt(kScale));
  body.mass = 1.0 / static_cast<double>(n);
  body.id = id;
  return body;
}

// Two half-size spheres about to pass each other: halves of the bodies, on an orbit that ends in a merger.
inline Body pair_body(std::int64_t id, std::int64_t n, std::uint64_t seed) {
  Body body = plummer_body(id, n, seed);
  const double side = id % 2 ? 1 : -1;
  body.position = 0.5 * body.position + side * Vec{1.0, 0.35, 0};
  body.velocity = body.velocity - side * Vec{0.35, 0, 0};
  return body;
}

}  // namespace nbody
