// SPDX-License-Identifier: Apache-2.0
// The program on the README's first screen.
// [program]
#include <ayatori/ayatori.hpp>
#include <cstdio>
long fib(long n) {
  if (n < 2) return n;
  long a;                                      // on this thread's stack, which is global memory
  ayatori::thread t([&] { a = fib(n - 1); });  // may be stolen by any process: &a stays valid there
  long b = fib(n - 2);
  t.join();  // now a is visible here
  return a + b;
}
int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto) {
    std::printf("%ld\n", fib(30));
    return 0;
  });
}
// [/program]
