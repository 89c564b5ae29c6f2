// SPDX-License-Identifier: Apache-2.0
// std_future_before.cpp on Ayatori: main moves into ayatori::run, std:: becomes ayatori:: for futures and stop tokens.
// [all]
#include <ayatori/ayatori.hpp>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <vector>

static long sum(const std::vector<long>& numbers, std::size_t first, std::size_t last) {
  long s = 0;
  for (std::size_t i = first; i < last; ++i) s += numbers[i];
  return s;
}

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto) {
    const std::vector<long> numbers(1'000'000, 1);
    ayatori::promise<long> total;
    ayatori::shared_future<long> result = total.get_future().share();
    ayatori::jthread waiter(ayatori::on(ayatori::process_count() - 1), [result](ayatori::stop_token token) {
      if (!token.stop_requested()) std::printf("total %ld\n", result.get());
    });
    auto half = ayatori::async(ayatori::launch::async, sum, std::cref(numbers), 0, numbers.size() / 2);
    const long other = sum(numbers, numbers.size() / 2, numbers.size());
    total.set_value(half.get() + other);
    waiter.join();
    std::printf("check: %s\n", result.get() == 1'000'000 ? "ok" : "FAILED");
    return result.get() == 1'000'000 ? 0 : 1;
  });
}
// [/all]
