// SPDX-License-Identifier: Apache-2.0
// What ayatori-bench does: the benchmarks of one mechanism each, the bars that a release must keep, and comparisons.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "process.hpp"
#include "results.hpp"

namespace bench {

struct Setup {
  std::string launcher, cases, bare;  // programs
  std::string programs;               // folder of fib, nqueens, ...
  std::string plot;                   // folder for pictures and their data; "": none
  bool quick = false;                 // tiny sizes, one repetition: does everything run?
  int repetitions = 5;
};

// A table for a document, in Markdown.
struct Table {
  std::string name;  // `what`, of `ayatori bench what`, and the measurement
  std::string text;
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

// What has an `ayatori bench WORD` of its own: threads beside those of other systems (threads.cpp), hidden latency
// (latency.cpp), policies of stealing and joining (policies.cpp).
struct Comparison {
  const char* word;
  const char* about;
  std::vector<const char*> programs;  // of Setup::programs
  std::vector<std::string> (*names)();
  bool draws;  // takes --plot
  // As measure_bars(); adds tables.
  bool (*measure)(const Setup&, const std::vector<std::string>& names, Results&, std::vector<Bar>&,
                  std::vector<Table>&);
};
extern const Comparison kThreads, kLatency, kPolicies;
std::string machine_and_date();  // for a table's caption
// Puts each table into the file, between the lines "<!-- bench NAME -->" and "<!-- /bench -->". False: a message was given.
bool put_tables(const std::string& path, const std::vector<Table>& tables);

// The parts that both use.
// Seconds that the program tells of itself; NaN after a message.
double timed(const Command& command);
std::pair<double, double> timed_together(const Command& command);  // two copies at once
// Medians of all rounds of two metrics, one over the other, round by round; NaN where there are none.
double ratio(const Results& results, const std::string& benchmark, const std::string& over, const std::string& under);
double middle(const Results& results, const std::string& benchmark, const std::string& metric);
bool run_samples(const Command& command, const std::string& benchmark, const std::string& variant, Results& results);
bool run_job(const Setup& setup, const Job& job, Results& results);
bool run_startup(const Setup& setup, int processes, const std::string& space, Results& results);
bool complain(const Command& command, const Outcome& outcome);  // false
extern const char* const kStartup;                              // metric names of run_startup begin with it
std::string startup_metric(int processes, const std::string& space, bool whole);

}  // namespace bench
