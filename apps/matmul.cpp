// SPDX-License-Identifier: Apache-2.0
// matmul N: C = A B for matrices of N x N doubles, by halving the largest dimension; halves of C are computed at once,
// halves of the inner dimension one after the other.
//
// Matrices are stored by tiles of 64 x 64 (32 KiB in one piece), padded with zeros: a leaf of the recursion touches
// whole pages, and no two threads write the same one.
// The check is Freivalds': C r = A (B r) for a random vector r; a wrong C passes with probability 0 but for rounding.
#include "common/program.hpp"
#include "common/random.hpp"

#include <cmath>
#include <memory>

namespace {

constexpr std::int64_t kTile = 64;
constexpr std::int64_t kTileElements = kTile * kTile;

struct Options {
  std::int64_t n = 2048;
  bool serial = false;
};

// Four doubles; the compiler makes of it what the target has. Loaded and stored with memcpy: tiles are aligned to 16.
using Vector [[gnu::vector_size(32)]] = double;

[[gnu::always_inline]] inline void load(Vector& v, const double* p) { __builtin_memcpy(&v, p, sizeof v); }
[[gnu::always_inline]] inline void add(double* p, const Vector& v) {
  Vector old;
  load(old, p);
  old += v;
  __builtin_memcpy(p, &old, sizeof old);
}

// c += a b, one tile each, by patches of 4 x 8 whose sums stay in registers.
[[gnu::always_inline]] inline void multiply_tile(const double* a, const double* b, double* c) {
  for (std::int64_t i = 0; i < kTile; i += 4) {
    const double* a0 = a + i * kTile;
    const double *a1 = a0 + kTile, *a2 = a1 + kTile, *a3 = a2 + kTile;
    for (std::int64_t j = 0; j < kTile; j += 8) {
      Vector s00{}, s01{}, s10{}, s11{}, s20{}, s21{}, s30{}, s31{}, b0, b1;
      for (std::int64_t k = 0; k < kTile; ++k) {
        load(b0, b + k * kTile + j);
        load(b1, b + k * kTile + j + 4);
        s00 += a0[k] * b0;
        s01 += a0[k] * b1;
        s10 += a1[k] * b0;
        s11 += a1[k] * b1;
        s20 += a2[k] * b0;
        s21 += a2[k] * b1;
        s30 += a3[k] * b0;
        s31 += a3[k] * b1;
      }
      double* out = c + i * kTile + j;
      add(out, s00);
      add(out + 4, s01);
      add(out + kTile, s10);
      add(out + kTile + 4, s11);
      add(out + 2 * kTile, s20);
      add(out + 2 * kTile + 4, s21);
      add(out + 3 * kTile, s30);
      add(out + 3 * kTile + 4, s31);
    }
  }
}

using Kernel = void (*)(const double*, const double*, double*);
void multiply_baseline(const double* a, const double* b, double* c) { multiply_tile(a, b, c); }
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void multiply_avx2(const double* a, const double* b, double* c) { multiply_tile(a, b, c); }
#endif

Kernel choose_kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return multiply_avx2;
#endif
  return multiply_baseline;
}

// Square, of `tiles` x `tiles` tiles.
struct Matrix {
  double* data;
  std::int64_t tiles;
  double* tile(std::int64_t i, std::int64_t j) const { return data + (i * tiles + j) * kTileElements; }
  double at(std::int64_t i, std::int64_t j) const { return tile(i / kTile, j / kTile)[i % kTile * kTile + j % kTile]; }
};

struct Product {
  Matrix a, b, c;
  Kernel kernel;
};

// A box of the iteration space, in tiles.
struct Box {
  std::int64_t i, ni, j, nj, k, nk;
};

template <class Mode>
void multiply(const Product& p, const Box& box) {
  Box low = box, high = box;
  if (box.ni == 1 && box.nj == 1 && box.nk == 1) {
    p.kernel(p.a.tile(box.i, box.k), p.b.tile(box.k, box.j), p.c.tile(box.i, box.j));
    return;
  }
  if (box.nk > box.ni && box.nk > box.nj) {
    low.nk = box.nk / 2;
    high.k += low.nk;
    high.nk -= low.nk;
    multiply<Mode>(p, low);
    multiply<Mode>(p, high);
    return;
  }
  if (box.ni >= box.nj) {
    low.ni = box.ni / 2;
    high.i += low.ni;
    high.ni -= low.ni;
  } else {
    low.nj = box.nj / 2;
    high.j += low.nj;
    high.nj -= low.nj;
  }
  Mode::invoke([p, low] { multiply<Mode>(p, low); }, [&p, high] { multiply<Mode>(p, high); });
}

template <class Mode>
int run(const Options& o) {
  const std::int64_t n = o.n, tiles = (n + kTile - 1) / kTile;
  const auto elements = static_cast<std::size_t>(tiles * tiles * kTileElements);
  const auto make = [&] { return std::make_unique_for_overwrite<double[]>(elements); };
  const auto a = make(), b = make(), c = make();
  const Product p{{a.get(), tiles}, {b.get(), tiles}, {c.get(), tiles}, choose_kernel()};
  Mode::for_each(0, tiles * tiles, 4, [p, n](std::int64_t t) {
    const std::int64_t ti = t / p.a.tiles, tj = t % p.a.tiles;
    double *ta = p.a.tile(ti, tj), *tb = p.b.tile(ti, tj), *tc = p.c.tile(ti, tj);
    for (std::int64_t e = 0; e < kTileElements; ++e) {
      const std::int64_t i = ti * kTile + e / kTile, j = tj * kTile + e % kTile;
      const bool inside = i < n && j < n;
      const auto index = static_cast<std::uint64_t>(i * n + j);
      ta[e] = inside ? common::random_unit(1, index) - 0.5 : 0;
      tb[e] = inside ? common::random_unit(2, index) - 0.5 : 0;
      tc[e] = 0;
    }
  });

  const common::Timer<Mode> timer;
  multiply<Mode>(p, {0, tiles, 0, tiles, 0, tiles});
  const double seconds = timer.seconds();

  const auto vector = [n] { return std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(n)); };
  const auto r = vector(), br = vector();
  for (std::int64_t i = 0; i < n; ++i) r[i] = common::random_unit(3, static_cast<std::uint64_t>(i)) - 0.5;
  const auto row_times = [n](const Matrix& m, std::int64_t i, const double* x) {
    double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += m.at(i, j) * x[j];
    return sum;
  };
  Mode::for_each(0, n, kTile,
                 [p, row_times, x = r.get(), y = br.get()](std::int64_t i) { y[i] = row_times(p.b, i, x); });
  struct Error {
    double error = 0, trace = 0;
  };
  const Error e = Mode::reduce(
      0, tiles, Error{},
      [p, n, row_times, x = r.get(), y = br.get()](std::int64_t t) {
        Error part;
        for (std::int64_t i = t * kTile; i < std::min(n, (t + 1) * kTile); ++i) {
          part.error = std::max(part.error, std::abs(row_times(p.c, i, x) - row_times(p.a, i, y)));
          part.trace += p.c.at(i, i);
        }
        return part;
      },
      [](Error x, Error y) {
        // NaN in either must not get lost.
        return Error{x.error > y.error || std::isnan(x.error) ? x.error : y.error, x.trace + y.trace};
      });
  // Entries of C are sums of n products of size 1/12: rounding grows like n sqrt(n) here, errors are of size 0.1.
  const double tolerance = 1e-13 * static_cast<double>(n) + 1e-12;

  int status = 0;
  Mode::on_process_0([&] {
    const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    std::printf("trace %.9g, error %.2g, %.2f GFlop/s\n", e.trace, e.error, flops / seconds * 1e-9);
    status = common::finish(seconds, e.error <= tolerance);
  });
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  common::Arguments arguments("matmul", "Multiplies two matrices of N x N doubles by recursive halving.");
  arguments.size("N", &options.n, 1, 100'000, "rows and columns");
  arguments.flag("--serial", &options.serial, "plain calls");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return common::start(argc, argv, options, options.serial,
                       [](auto mode, const Options& o) { return run<decltype(mode)>(o); });
}
