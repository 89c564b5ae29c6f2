// SPDX-License-Identifier: Apache-2.0
// Ported by tbb_after.cpp: parallel_invoke, parallel_for over a blocked range, parallel_reduce.
// [all]
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_invoke.h>
#include <tbb/parallel_reduce.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <vector>

static void sort(long* first, long* last) {
  if (last - first < 1000) return std::sort(first, last);
  long* const middle = first + (last - first) / 2;
  std::nth_element(first, middle, last);
  tbb::parallel_invoke([=] { sort(first, middle); }, [=] { sort(middle, last); });
}

int main() {
  constexpr std::size_t kSize = 200'000;
  using Range = tbb::blocked_range<std::size_t>;
  std::vector<long> x(kSize);
  tbb::parallel_for(Range(0, kSize), [&](const Range& r) {
    for (std::size_t i = r.begin(); i < r.end(); ++i) x[i] = static_cast<long>(i * 7919 % kSize);
  });
  sort(x.data(), x.data() + kSize);
  const long misplaced = tbb::parallel_reduce(
      Range(0, kSize), 0L,
      [&](const Range& r, long n) {
        for (std::size_t i = r.begin(); i < r.end(); ++i) n += x[i] != static_cast<long>(i);
        return n;
      },
      std::plus<>());
  std::printf("%ld misplaced\ncheck: %s\n", misplaced, misplaced == 0 ? "ok" : "FAILED");
  return misplaced == 0 ? 0 : 1;
}
// [/all]
