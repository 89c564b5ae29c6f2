// SPDX-License-Identifier: Apache-2.0
// The README's program: Fibonacci numbers by fork and join, results through pointers into stacks.
#include <ayatori/ayatori.hpp>

#include <cstdio>
#include <cstdlib>

long fib(long n) {
  if (n < 2) return n;
  long a = 0;                                      // on this thread's stack, which is global memory
  ayatori::thread t([&a, n] { a = fib(n - 1); });  // may be stolen by any process: &a stays valid there
  const long b = fib(n - 2);
  t.join();  // now a is visible here
  return a + b;
}

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto args) {
    const long n = args.size() > 1 ? std::atol(args[1]) : 30;
    std::printf("fib(%ld) = %ld on %d processes\n", n, fib(n), ayatori::process_count());
    return 0;
  });
}
