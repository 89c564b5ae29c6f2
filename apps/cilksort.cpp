// SPDX-License-Identifier: Apache-2.0
// cilksort N: sorts N 32-bit integers by parallel merge sort with parallel merge (common/merge_sort.hpp).
// The input is a pure function of the index, so that the threads that make it and check it may run anywhere.
#include "common/merge_sort.hpp"
#include "common/program.hpp"
#include "common/random.hpp"

#include <memory>

namespace {

struct Options {
  std::int64_t n = 8 << 20;
  std::int64_t leaf = 16384;
  bool hints = false;
  bool serial = false;
};

constexpr std::int64_t kBlock = 64 * 1024;  // elements made or checked by one thread

std::int32_t element(std::int64_t i) {
  return static_cast<std::int32_t>(common::random_bits(1, static_cast<std::uint64_t>(i)));
}

struct Digest {
  std::uint64_t sum = 0;
  bool sorted = true;
};

Digest operator+(const Digest& a, const Digest& b) { return {a.sum + b.sum, a.sorted && b.sorted}; }

// Of data[0, n): a hash of the multiset, and whether it is in order.
template <class Mode>
Digest digest(const std::int32_t* data, std::int64_t n) {
  return Mode::reduce(
      0, (n + kBlock - 1) / kBlock, Digest{},
      [=](std::int64_t block) {
        Digest d;
        for (std::int64_t i = block * kBlock; i < std::min(n, (block + 1) * kBlock); ++i) {
          d.sum += common::mix(static_cast<std::uint32_t>(data[i]));
          d.sorted &= i == 0 || data[i - 1] <= data[i];
        }
        return d;
      },
      [](Digest a, Digest b) { return a + b; });
}

template <class Mode>
int run(const Options& o) {
  const auto n = static_cast<std::size_t>(o.n);
  const auto data = std::make_unique_for_overwrite<std::int32_t[]>(n);
  const auto scratch = std::make_unique_for_overwrite<std::int32_t[]>(n);
  std::int32_t* numbers = data.get();
  Mode::for_each(0, o.n, kBlock, [numbers](std::int64_t i) { numbers[i] = element(i); });
  // First touch of the scratch is not part of the sort: it would measure the kernel's zeroing of pages.
  Mode::for_each(0, o.n, kBlock, [p = scratch.get()](std::int64_t i) { p[i] = 0; });
  const Digest before = digest<Mode>(numbers, o.n);

  const common::Timer<Mode> timer;
  const auto leaf = static_cast<std::size_t>(o.leaf);
  const common::MergeSort<Mode, std::int32_t, std::less<>> sorter({}, leaf, leaf);
  sorter.sort(numbers, scratch.get(), n);
  const double seconds = timer.seconds();

  const Digest after = digest<Mode>(numbers, o.n);
  int status = 0;
  Mode::on_process_0([&] {
    std::printf("sorted %lld integers: smallest %d, median %d, largest %d\n", static_cast<long long>(o.n), numbers[0],
                numbers[n / 2], numbers[n - 1]);
    status = common::finish(seconds, after.sorted && after.sum == before.sum);
  });
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  common::Arguments arguments("cilksort", "Sorts N random integers by parallel merge sort.");
  arguments.size("N", &options.n, 1, std::int64_t{1} << 34, "how many");
  arguments.number("--leaf", &options.leaf, 4, 1 << 30, "elements sorted by one thread");
  arguments.flag("--hints", &options.hints, "each process begins the part of the work whose data it has");
  arguments.flag("--serial", &options.serial, "plain calls");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return common::start(argc, argv, options, options.serial, options.hints,
                       [](auto mode, const Options& o) { return run<decltype(mode)>(o); });
}
