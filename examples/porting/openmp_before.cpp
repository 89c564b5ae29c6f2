// SPDX-License-Identifier: Apache-2.0
// Ported by openmp_after.cpp: a task tree, a parallel loop and a reduction.
// [all]
#include <cstddef>
#include <cstdio>
#include <vector>

static long count(int depth) {  // leaves of a binary tree
  if (depth == 0) return 1;
  long left = 0, right = 0;
#pragma omp task shared(left)
  left = count(depth - 1);
  right = count(depth - 1);
#pragma omp taskwait
  return left + right;
}

int main() {
  constexpr std::size_t kSize = 1'000'000;
  std::vector<double> x(kSize);
  double sum = 0;
  long leaves = 0;

#pragma omp parallel for
  for (std::size_t i = 0; i < kSize; ++i) x[i] = 0.5 * static_cast<double>(i % 2);

#pragma omp parallel for reduction(+ : sum)
  for (std::size_t i = 0; i < kSize; ++i) sum += x[i];

#pragma omp parallel
#pragma omp single
  leaves = count(12);

  const bool ok = sum == 250'000 && leaves == 4096;
  std::printf("%.0f %ld\ncheck: %s\n", sum, leaves, ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}
// [/all]
