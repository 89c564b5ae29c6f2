// SPDX-License-Identifier: Apache-2.0
// tbb_before.cpp on Ayatori.
// [all]
#include <algorithm>
#include <ayatori/ayatori.hpp>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <vector>

static void sort(long* first, long* last) {
  if (last - first < 1000) return std::sort(first, last);
  long* const middle = first + (last - first) / 2;
  std::nth_element(first, middle, last);
  ayatori::parallel_invoke([=] { sort(first, middle); }, [=] { sort(middle, last); });
}

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto) {
    constexpr std::size_t kSize = 200'000;
    constexpr std::size_t kGrain = 8'192;
    std::vector<long> x(kSize);
    ayatori::parallel_for(std::size_t{0}, kSize, kGrain,
                          [&](std::size_t i) { x[i] = static_cast<long>(i * 7919 % kSize); });
    sort(x.data(), x.data() + kSize);
    const long misplaced = ayatori::parallel_reduce(
        std::size_t{0}, kSize, kGrain, 0L, [&](std::size_t i) { return long{x[i] != static_cast<long>(i)}; },
        std::plus<>());
    std::printf("%ld misplaced\ncheck: %s\n", misplaced, misplaced == 0 ? "ok" : "FAILED");
    return misplaced == 0 ? 0 : 1;
  });
}
// [/all]
