// SPDX-License-Identifier: Apache-2.0
// ayatori-bench-SYSTEM PROBLEM [SIZE] [--workers=N] [--quick]: one of the programs on that system's threads. Programs end
// their output as those of apps/ do ("time: ", "check: "), `operations` prints samples as ayatori-bench-cases does.
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include <pthread.h>

#include "peer.hpp"

namespace {

using namespace peers;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kStackBytes = std::size_t{1} << 30;  // trees of 1,572 levels, and what is run within a wait
constexpr int kRounds = 5, kCutoff = 6;                    // as the case `threads`; as apps/nqueens

struct Arguments {
  std::string problem, size;
  int workers = 1;
  bool quick = false;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

int finish(double seconds, bool right) {
  std::printf("time: %.6f s\ncheck: %s\n", seconds, right ? "ok" : "FAILED");
  return right ? 0 : 1;
}

int run_fib(const Arguments& a) {
  const std::int64_t n = std::atoll(a.size.c_str());
  std::int64_t result = 0, before = 0, expected = 1;
  for (std::int64_t i = 0; i < n; ++i) before = std::exchange(expected, before + expected);
  the_system.fib(std::min<std::int64_t>(n, 10));  // the first threads
  const Clock::time_point start = Clock::now();
  result = the_system.fib(n);
  return finish(seconds_since(start), result == before);
}

int run_nqueens(const Arguments& a) {
  const int n = std::atoi(a.size.c_str());
  if (n < 1 || n > common::queens::kRowsMax) return 2;
  the_system.fib(10);
  const Clock::time_point start = Clock::now();
  const std::int64_t solutions = the_system.nqueens({}, n, 0, kCutoff);
  return finish(seconds_since(start), solutions == common::queens::kSolutions[n]);
}

int run_uts(const Arguments& a) {
  for (const common::tree::Tree& tree : common::tree::kTrees) {
    if (a.size != tree.name) continue;
    the_system.fib(10);
    const Clock::time_point start = Clock::now();
    const common::tree::Counts counts = the_system.uts(tree, common::tree::root_of(tree));
    return finish(seconds_since(start), counts.nodes == tree.nodes && counts.depth == tree.depth);
  }
  return 2;
}

int run_operations(const Arguments& a) {
  for (const Operation& operation : the_system.operations()) {
    const int count = a.quick ? std::min(operation.count, 100) : operation.count;
    std::printf("sample\t%s\tns\t", operation.name);
    for (int round = 0; round < (a.quick ? 1 : kRounds); ++round) {
      const Clock::time_point start = Clock::now();
      operation.run(count);
      std::printf("%.4g ", 1e9 * seconds_since(start) / count);
    }
    std::puts("");
  }
  return 0;
}

int run(const Arguments& a) {
  if (a.problem == "fib") return run_fib(a);
  if (a.problem == "nqueens" && the_system.nqueens != nullptr) return run_nqueens(a);
  if (a.problem == "uts" && the_system.uts != nullptr) return run_uts(a);
  if (a.problem == "operations") return run_operations(a);
  std::fprintf(stderr,
               "usage: ayatori-bench-SYSTEM fib N | nqueens N | uts TREE | operations [--workers=N] [--quick]\n");
  return 2;
}

// One worker: all threads of the process share one CPU, where the caller is. They inherit it.
void stay_on_one_cpu() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(std::max(0, sched_getcpu())), &one);
  sched_setaffinity(0, sizeof one, &one);
}

struct Job {
  Arguments arguments;
  int status = 0;
};
void* with_large_stack(void* argument) {
  Job& job = *static_cast<Job*>(argument);
  if (job.arguments.workers == 1) stay_on_one_cpu();
  the_system.with_workers(job.arguments.workers, [&job] { job.status = run(job.arguments); });
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  Job job;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick")
      job.arguments.quick = true;
    else if (word.starts_with("--workers="))
      job.arguments.workers = std::clamp(std::atoi(word.c_str() + std::strlen("--workers=")), 1, 1024);
    else
      (job.arguments.problem.empty() ? job.arguments.problem : job.arguments.size) = word;
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_t thread;
  if (pthread_attr_setstacksize(&attributes, kStackBytes) != 0 ||
      pthread_create(&thread, &attributes, with_large_stack, &job) != 0) {
    std::fputs("no memory for a stack\n", stderr);
    return 3;
  }
  pthread_join(thread, nullptr);
  return std::fflush(stdout) == 0 ? job.status : 3;
}
