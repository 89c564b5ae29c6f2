// SPDX-License-Identifier: Apache-2.0
#include "fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace bench {
namespace {

enum Unknown : unsigned { kL, kG0, kG1, kUnknowns };  // L, g, G

// coefficients * unknowns = value, all divided by what was measured.
struct Equation {
  std::array<double, kUnknowns> coefficients;
  double value;
};

using Vector = std::array<double, kUnknowns>;

double error_of(const Equation& equation, const Vector& x) {
  double sum = -equation.value;
  for (unsigned i = 0; i < kUnknowns; ++i) sum += equation.coefficients[i] * x[i];
  return sum;
}

double squares(std::span<const Equation> equations, const Vector& x) {
  double sum = 0;
  for (const Equation& equation : equations) sum += error_of(equation, x) * error_of(equation, x);
  return sum;
}

// The normal equations of the unknowns in `free`, the others being 0; by elimination with pivots. nullopt: singular.
std::optional<Vector> solve(std::span<const Equation> equations, unsigned free) {
  std::array<std::array<double, kUnknowns + 1>, kUnknowns> m{};
  for (unsigned i = 0; i < kUnknowns; ++i) {
    if ((free >> i & 1) == 0) {
      m[i][i] = 1;
      continue;
    }
    for (const Equation& equation : equations) {
      for (unsigned j = 0; j < kUnknowns; ++j)
        if ((free >> j & 1) != 0) m[i][j] += equation.coefficients[i] * equation.coefficients[j];
      m[i][kUnknowns] += equation.coefficients[i] * equation.value;
    }
  }
  for (unsigned column = 0; column < kUnknowns; ++column) {
    unsigned pivot = column;
    for (unsigned row = column + 1; row < kUnknowns; ++row)
      if (std::fabs(m[row][column]) > std::fabs(m[pivot][column])) pivot = row;
    constexpr double kSingular = 1e-12;
    if (std::fabs(m[pivot][column]) < kSingular) return std::nullopt;
    std::swap(m[pivot], m[column]);
    for (unsigned row = 0; row < kUnknowns; ++row) {
      if (row == column) continue;
      const double factor = m[row][column] / m[column][column];
      for (unsigned j = column; j <= kUnknowns; ++j) m[row][j] -= factor * m[column][j];
    }
  }
  Vector x;
  for (unsigned i = 0; i < kUnknowns; ++i) x[i] = m[i][kUnknowns] / m[i][i];
  return x;
}

bool usable(std::span<const Observation> observations) {
  bool varies = false;
  for (const Observation& o : observations) {
    if (!(o.ns > 0)) return false;
    varies |= o.bytes != observations.front().bytes;
  }
  return varies;
}

double root_mean(double sum, std::size_t count) { return std::sqrt(sum / static_cast<double>(count)); }

}  // namespace

std::optional<LogGP> fit_loggp(const PathShape& shape, double overhead_ns, std::span<const Observation> latencies,
                               std::span<const Observation> gaps) {
  if (!usable(latencies) || !usable(gaps)) return std::nullopt;
  std::vector<Equation> equations;
  for (const Observation& o : latencies)
    equations.push_back(
        {{shape.latencies / o.ns, 0, shape.transfers * o.bytes / o.ns}, (o.ns - shape.overheads * overhead_ns) / o.ns});
  for (const Observation& o : gaps) equations.push_back({{0, 1 / o.ns, o.bytes / o.ns}, 1});
  Vector norms{};  // each unknown is counted in units that make its coefficients a vector of length 1
  for (unsigned i = 0; i < kUnknowns; ++i) {
    for (const Equation& equation : equations) norms[i] += equation.coefficients[i] * equation.coefficients[i];
    norms[i] = std::sqrt(norms[i]);
    for (Equation& equation : equations) equation.coefficients[i] /= norms[i];
  }

  Vector best{};  // all 0
  double least = squares(equations, best);
  for (unsigned free = 1; free < 1u << kUnknowns; ++free) {
    const std::optional<Vector> x = solve(equations, free);
    if (!x || std::any_of(x->begin(), x->end(), [](double value) { return value < 0; })) continue;  // Q1
    const double sum = squares(equations, *x);
    if (sum >= least) continue;
    least = sum;
    best = *x;
  }
  const std::span all(equations);
  LogGP fit;
  fit.latency_ns = best[kL] / norms[kL];
  fit.overhead_ns = overhead_ns;
  fit.gap_ns = best[kG0] / norms[kG0];
  fit.gap_per_byte_ns = best[kG1] / norms[kG1];
  fit.latency_residual = root_mean(squares(all.first(latencies.size()), best), latencies.size());
  fit.gap_residual = root_mean(squares(all.last(gaps.size()), best), gaps.size());
  return fit;
}

net::sim::SimParams simulated(const LogGP& fit) {
  net::sim::SimParams params;
  params.latency_ns = std::llround(fit.latency_ns);
  params.overhead_ns = std::llround(fit.overhead_ns);
  params.gap_ns = std::llround(fit.gap_ns);
  params.gap_per_kib_ns = std::llround(fit.gap_per_byte_ns * 1024);
  params.jitter_ns = 0;
  return params;
}

}  // namespace bench
