// SPDX-License-Identifier: Apache-2.0
// fib N: Fibonacci numbers by the doubly recursive definition, one thread a call, no cut-off. Nothing but forks and
// joins: the time is (threads forked) x (cost of fork and join).
#include "common/program.hpp"

namespace {

struct Options {
  std::int64_t n = 41;
  bool serial = false;
};

// The result comes back through a pointer to the caller's local: stacks are global memory. A call is a call, and what a
// child writes lies in memory: without threads the compiler would expand the recursion in itself and make a loop of the other half,
// and most of what --serial is to measure would be gone.
template <class Mode>
[[gnu::noinline]] std::int64_t fib(std::int64_t n) {
  if (n < 2) return n;
  std::int64_t first = 0;
  typename Mode::thread t([&first, n] { first = fib<Mode>(n - 1); });
  const std::int64_t second = fib<Mode>(n - 2);
  t.join();
  asm volatile("" : "+m"(first));
  return first + second;
}

std::int64_t closed(std::int64_t n) {
  std::int64_t a = 0, b = 1;
  for (; n > 0; --n) {
    a = std::exchange(b, a + b);
  }
  return a;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  common::Arguments arguments("fib", "Fibonacci number N with one thread a call, no cut-off.");
  arguments.size("N", &options.n, 0, 60, "which number");
  arguments.flag("--serial", &options.serial, "plain calls");
  if (const auto status = arguments.parse(argc, argv)) return *status;

  return common::start(argc, argv, options, options.serial, [](auto mode, const Options& o) {
    using Mode = decltype(mode);
    const common::Timer<Mode> timer;
    const std::int64_t result = fib<Mode>(o.n);
    const double seconds = timer.seconds();
    int status = 0;
    Mode::on_process_0([&] {
      std::printf("fib(%lld) = %lld\n", static_cast<long long>(o.n), static_cast<long long>(result));
      status = common::finish(seconds, result == closed(o.n));
    });
    return status;
  });
}
