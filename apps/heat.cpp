// SPDX-License-Identifier: Apache-2.0
// heat N: the heat equation on a square plate with cold edges, N x N inner points, explicit steps (Jacobi) over two
// grids, parallel over blocks of rows.
//
// The start is a sum of sine modes. Each is an eigenvector of the discrete step with a known eigenvalue, so that the
// check compares every point with the exact answer of the scheme: a row that was lost, late or read twice shows.
// Rows are padded to whole cache lines; neighbouring blocks share at most one page.
#include "common/program.hpp"

#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <utility>

namespace {

struct Options {
  std::int64_t n = 1024;
  std::int64_t steps = 500;
  std::int64_t grain = 0;
  bool placed = false;
  bool hints = false;
  bool serial = false;
};

constexpr double kRatio = 0.24;  // alpha dt / h^2; stable up to 0.25

struct Mode2d {
  int kx, ky;
  double amplitude;
};
constexpr Mode2d kModes[] = {{1, 1, 1.0}, {2, 3, 0.5}, {7, 4, -0.25}, {16, 11, 0.125}};

struct Grid {
  double* data;
  std::int64_t stride;
  double* row(std::int64_t i) const { return data + i * stride; }
};

void step_row(const double* above, const double* here, const double* below, double* out, std::int64_t n) {
  for (std::int64_t j = 1; j <= n; ++j)
    out[j] = here[j] + kRatio * (above[j] + below[j] + here[j - 1] + here[j + 1] - 4 * here[j]);
}

// The scheme's exact solution after `steps`.
class Exact {
 public:
  Exact(std::int64_t n, std::int64_t steps) : h_(std::numbers::pi / static_cast<double>(n + 1)) {
    for (std::size_t m = 0; m < std::size(kModes); ++m) {
      const double sx = std::sin(kModes[m].kx * h_ / 2), sy = std::sin(kModes[m].ky * h_ / 2);
      factor_[m] = kModes[m].amplitude * std::pow(1 - 4 * kRatio * (sx * sx + sy * sy), static_cast<double>(steps));
    }
  }
  double at(std::int64_t i, std::int64_t j) const {
    double value = 0;
    for (std::size_t m = 0; m < std::size(kModes); ++m)
      value += factor_[m] * std::sin(kModes[m].kx * h_ * static_cast<double>(j)) *
               std::sin(kModes[m].ky * h_ * static_cast<double>(i));
    return value;
  }

 private:
  double h_;
  double factor_[std::size(kModes)];
};

// f(begin, end) of a band of the rows 1 .. n for each process, started there: the same rows each time.
template <class Mode, class F>
void on_bands(std::int64_t n, F f) {
  constexpr int kBandsMax = 64;
  typename Mode::thread threads[kBandsMax];
  const int bands = std::min(Mode::process_count(), kBandsMax);
  for (int p = 0; p < bands; ++p)
    threads[p] = Mode::thread_on(p, [=] { f(1 + n * p / bands, 1 + n * (p + 1) / bands); });
  for (int p = 0; p < bands; ++p) threads[p].join();
}

template <class Mode>
int run(const Options& o) {
  const std::int64_t n = o.n, rows = n + 2, stride = (n + 2 + 7) / 8 * 8;
  // About 256 KiB of a grid a thread: tens of microseconds of work.
  const std::int64_t grain = o.grain ? o.grain : std::max<std::int64_t>(1, 32768 / stride);
  const auto elements = static_cast<std::size_t>(rows * stride);
  const auto first = std::make_unique_for_overwrite<double[]>(elements);
  const auto second = std::make_unique_for_overwrite<double[]>(elements);
  Grid now{first.get(), stride}, next{second.get(), stride};
  Mode::for_each(0, rows, grain, [=, start = Exact(n, 0)](std::int64_t i) {
    std::memset(now.row(i), 0, static_cast<std::size_t>(stride) * sizeof(double));
    std::memset(next.row(i), 0, static_cast<std::size_t>(stride) * sizeof(double));
    if (i >= 1 && i <= n)
      for (std::int64_t j = 1; j <= n; ++j) now.row(i)[j] = start.at(i, j);
  });

  const common::Timer<Mode> timer;
  for (std::int64_t s = 0; s < o.steps; ++s) {
    const auto rows_of = [=](std::int64_t begin, std::int64_t end) {
      Mode::for_each(begin, end, grain,
                     [=](std::int64_t i) { step_row(now.row(i - 1), now.row(i), now.row(i + 1), next.row(i), n); });
    };
    if (o.placed)
      on_bands<Mode>(n, rows_of);
    else
      rows_of(1, n + 1);
    std::swap(now, next);
  }
  const double seconds = timer.seconds();

  struct Result {
    double error = 0, sum = 0;
  };
  const std::int64_t blocks = (n + grain - 1) / grain;
  const Result result = Mode::reduce(
      0, blocks, Result{},
      [=, exact = Exact(n, o.steps)](std::int64_t b) {
        Result part;
        for (std::int64_t i = b * grain + 1; i <= std::min(n, (b + 1) * grain); ++i)
          for (std::int64_t j = 1; j <= n; ++j) {
            const double error = std::abs(now.row(i)[j] - exact.at(i, j));
            if (!(error <= part.error)) part.error = error;
            part.sum += now.row(i)[j];
          }
        return part;
      },
      [](Result a, Result b) { return Result{a.error <= b.error ? b.error : a.error, a.sum + b.sum}; });

  int status = 0;
  Mode::on_process_0([&] {
    std::printf("mean %.12g after %lld steps, largest error %.2g\n",
                result.sum / (static_cast<double>(n) * static_cast<double>(n)), static_cast<long long>(o.steps),
                result.error);
    status = common::finish(seconds, result.error <= 1e-11);
  });
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  common::Arguments arguments("heat", "Heat equation on a plate of N x N points.");
  arguments.size("N", &options.n, 1, 200'000, "rows and columns");
  arguments.number("--steps", &options.steps, 0, 100'000'000, "time steps");
  arguments.number("--grain", &options.grain, 0, 200'000, "rows of one thread, 0: by size");
  arguments.flag("--placed", &options.placed, "start the same rows on the same process in every step");
  arguments.flag("--hints", &options.hints, "each process begins the part of the work whose data it has");
  arguments.flag("--serial", &options.serial, "plain calls");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return common::start(argc, argv, options, options.serial, options.hints,
                       [](auto mode, const Options& o) { return run<decltype(mode)>(o); });
}
