// SPDX-License-Identifier: Apache-2.0
// The two things that ayatori-bench does: the benchmarks of one mechanism each, and the bars that a release must keep.
#pragma once

#include <string>
#include <vector>

#include "process.hpp"
#include "results.hpp"

namespace bench {

struct Setup {
  std::string launcher, cases, bare;  // programs
  std::string programs;               // folder of fib, nqueens, ...
  bool quick = false;                 // tiny sizes, one repetition: does everything run?
  int repetitions = 5;
};

// One run of a case, or of the bare mechanism, and where its samples go.
struct Job {
  const char* benchmark;
  const char* program;    // a case of ayatori-bench-cases; "bare": of ayatori-bench-bare
  int processes;          // 0: without the launcher
  const char* variant;    // begins the metric's name
  const char* knob = "";  // NAME=VALUE
  int workers = 1;        // of each process
};

// Names of the benchmarks and of the bars, in order.
std::vector<std::string> benchmark_names();
std::vector<std::string> bar_names();

// Measures those whose names are given, all when none is. False: something did not run; standard error says what.
bool measure_benchmarks(const Setup& setup, const std::vector<std::string>& names, Results& results);
bool measure_bars(const Setup& setup, const std::vector<std::string>& names, Results& results, std::vector<Bar>& bars);

// The parts that both use.
bool run_job(const Setup& setup, const Job& job, Results& results);
bool run_startup(const Setup& setup, int processes, const std::string& space, Results& results);
bool complain(const Command& command, const Outcome& outcome);  // false
extern const char* const kStartup;                              // metric names of run_startup begin with it
std::string startup_metric(int processes, const std::string& space, bool whole);

}  // namespace bench
