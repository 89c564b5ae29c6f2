// SPDX-License-Identifier: Apache-2.0
// Nanoseconds of the heap's paths in a job of one process, beside the C library's; remote frees in a job of two whose
// second member only exists in the tables. Prints a table; no arguments.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "gas/heap.hpp"

namespace {

namespace gas = ayatori::gas;
namespace heap = ayatori::gas::heap;

struct Space {
  static void* take(std::size_t n) { return heap::allocate(n); }
  static void give(void* p) { heap::deallocate(p); }
};
struct Local {
  static void* take(std::size_t n) { return std::malloc(n); }
  static void give(void* p) { std::free(p); }
};

template <class F>
double best_ns(long operations, F&& f) {
  double best = 1e18;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count() / static_cast<double>(operations));
  }
  return best;
}

template <class M>
double pairs(std::size_t bytes, long count) {
  return best_ns(count, [&] {
    for (long i = 0; i < count; ++i) {
      void* p = M::take(bytes);
      asm volatile("" : : "r"(p) : "memory");
      M::give(p);
    }
  });
}

template <class M>
double batches(std::size_t bytes, std::size_t live, long count) {
  std::vector<void*> all(live);
  return best_ns(count, [&] {
    for (long done = 0; done < count; done += static_cast<long>(live)) {
      for (void*& p : all) p = M::take(bytes);
      for (void* p : all) M::give(p);
    }
  });
}

template <class M>
double touched(std::size_t bytes, long count) {
  return best_ns(count, [&] {
    for (long i = 0; i < count; ++i) {
      void* p = M::take(bytes);
      std::memset(p, 1, bytes);
      asm volatile("" : : "r"(p) : "memory");
      M::give(p);
    }
  });
}

void row(const char* what, std::size_t bytes, double space, double local) {
  std::printf("%-44s %9zu B %10.1f ns %10.1f ns\n", what, bytes, space, local);
}

void make_space(int processes) {
  gas::Sizes sizes{};
  sizes.base = 0x280000000000;
  sizes.space_bytes = std::size_t{64} << 30;
  sizes.stack_bytes = 1 << 20;
  sizes.place_bytes = 1 << 20;
  gas::reserve(processes, sizes);
  heap::reserve(processes);
}

void alone() {
  make_space(1);
  gas::attach(0);
  heap::attach(0);
  std::printf("%-44s %11s %13s %13s\n", "one process, a malloc and its free", "", "space", "C library");
  for (const std::size_t n : {16, 64, 256, 1024, 8192})
    row("again and again", n, pairs<Space>(n, 2'000'000), pairs<Local>(n, 2'000'000));
  for (const std::size_t n : {16, 64, 256, 1024})
    row("10,000 at a time", n, batches<Space>(n, 10'000, 1'000'000), batches<Local>(n, 10'000, 1'000'000));
  for (const std::size_t n : {32'768, 200'000, 2'000'000, 16'000'000})
    row("filled", n, touched<Space>(n, 50), touched<Local>(n, 50));
  for (const std::size_t n : {32'768, 200'000, 2'000'000})
    row("not touched", n, pairs<Space>(n, 10'000), pairs<Local>(n, 10'000));
  for (const int threads : {1, 2}) {
    const double ns = best_ns(1'000'000, [&] {
      std::vector<std::thread> all;
      for (int t = 0; t < threads; ++t) all.emplace_back([] { batches<Space>(64, 1000, 200'000); });
      for (auto& t : all) t.join();
    });
    std::printf("%-44s %9d B %10.1f ns   (%d threads at once)\n", "1,000 at a time", 64, ns, threads);
  }
}

void release() {
  heap::begin_release(0);
  heap::deliver_pending(0);
}

// Process 1 allocates, then process 0 frees what it left.
void remote() {
  constexpr long kObjects = 1'000'000;
  make_space(2);
  auto** all = static_cast<void**>(gas::shared_map(kObjects * sizeof(void*), "the benchmark"));
  const pid_t child = fork();
  if (child == 0) {
    gas::attach(1);
    heap::attach(1);
    for (long i = 0; i < kObjects; ++i) all[i] = heap::allocate(64);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  gas::attach(0);
  heap::attach(0);
  heap::set_hooks({.request_release = release});
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < kObjects; ++i) heap::deallocate(all[i]);
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  std::printf("%-44s %9d B %10.1f ns\n", "free of another process's, with its delivery", 64, time.count() / kObjects);
}

template <class F>
void in_child(F&& f) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    f();
    std::fflush(nullptr);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

}  // namespace

int main() {
  in_child(alone);
  in_child(remote);
  return 0;
}
