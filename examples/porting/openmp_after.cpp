// SPDX-License-Identifier: Apache-2.0
// openmp_before.cpp on Ayatori.
// [all]
#include <ayatori/ayatori.hpp>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <vector>

static long count(int depth) {  // leaves of a binary tree
  if (depth == 0) return 1;
  long left = 0, right = 0;
  ayatori::thread task([&left, depth] { left = count(depth - 1); });
  right = count(depth - 1);
  task.join();
  return left + right;
}

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto) {
    constexpr std::size_t kSize = 1'000'000;
    constexpr std::size_t kGrain = 16'384;  // 128 KiB of doubles a thread: two writers rarely share a page
    std::vector<double> x(kSize);

    ayatori::parallel_for(std::size_t{0}, kSize, kGrain,
                          [&x](std::size_t i) { x[i] = 0.5 * static_cast<double>(i % 2); });

    const double sum = ayatori::parallel_reduce(
        std::size_t{0}, kSize, kGrain, 0.0, [&x](std::size_t i) { return x[i]; }, std::plus<>());

    const long leaves = count(12);

    const bool ok = sum == 250'000 && leaves == 4096;
    std::printf("%.0f %ld\ncheck: %s\n", sum, leaves, ok ? "ok" : "FAILED");
    return ok ? 0 : 1;
  });
}
// [/all]
