// SPDX-License-Identifier: Apache-2.0
// A user's program: sums a vector that lives in the space from threads of all processes.
#include <ayatori/ayatori.hpp>
#include <cstdio>
#include <numeric>
#include <vector>

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto) {
    std::vector<long> values(1000);
    std::iota(values.begin(), values.end(), 0L);
    const long sum = ayatori::parallel_reduce(
        0, 1000, 50, 0L, [&](int i) { return values[static_cast<std::size_t>(i)]; },
        [](long a, long b) { return a + b; });
    std::printf("sum %ld\n", sum);
    return 0;
  });
}
