// SPDX-License-Identifier: Apache-2.0
// The bars: ratios between runs that take turns within one round, so that a machine that changes its speed changes both
// sides. A bar's value is the median over the rounds of the ratio within a round; times are the programs' own.
//
// Capacity: what the cores give to two independent one-process copies at once, in units of one copy alone. With times
// t alone and a, b together it is t/a + t/b: between 1 (they share everything) and 2, here 1.8 to 2.2.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>

#include "driver.hpp"

namespace bench {
namespace {

constexpr int kTimeout_s = 300;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
using Words = std::vector<std::string>;

struct Program {
  std::string name;    // of the bar
  Words words, quick;  // program and arguments
  double limit;
};

// T(1 process) / T(2 processes), in units of the capacity.
const std::vector<Program>& speedups() {
  static const std::vector<Program> all = {
      {"speed-up fib", {"fib", "38"}, {"fib", "27"}, 0.9},
      {"speed-up nqueens", {"nqueens", "13"}, {"nqueens", "9"}, 0.9},
      {"speed-up uts", {"uts", "T1"}, {"uts", "T1"}, 0.9},
      {"speed-up cilksort", {"cilksort", "16777216"}, {"cilksort", "200000"}, 0.75},
      {"speed-up nbody", {"nbody", "65536"}, {"nbody", "2048", "--steps", "1"}, 0.75},
  };
  return all;
}

// T(1 process) / T(--serial), at the programs' own sizes.
const std::vector<Program>& overheads() {
  static const std::vector<Program> all = {
      {"overhead cilksort", {"cilksort"}, {"cilksort", "200000"}, 1.10},
      {"overhead matmul", {"matmul"}, {"matmul", "256"}, 1.10},
      {"overhead nbody", {"nbody"}, {"nbody", "2048", "--steps", "1"}, 1.10},
      {"overhead heat", {"heat"}, {"heat", "256", "--steps", "20"}, 1.10},
  };
  return all;
}

Command command_of(const Setup& setup, const Program& program, int processes) {
  Words words = setup.quick ? program.quick : program.words;
  words[0] = setup.programs + "/" + words[0];
  if (processes == 0) {
    words.emplace_back("--serial");
  } else {
    const Words launch = {setup.launcher, "run", "-n", std::to_string(processes), "-w", "1", "--"};
    words.insert(words.begin(), launch.begin(), launch.end());
  }
  return {words};
}

// The seconds of the line `time:`, if the run went well and its result is right.
double seconds_of(const Command& command, const Outcome& outcome) {
  const std::size_t time = outcome.out.find("time: ");
  if (outcome.ok() && time != outcome.out.npos && outcome.out.ends_with("check: ok\n"))
    return std::strtod(outcome.out.c_str() + time + 6, nullptr);
  complain(command, outcome);
  return kNone;
}

}  // namespace

double timed(const Command& command) {
  progress(text_of(command));
  return seconds_of(command, run(command, kTimeout_s));
}

std::pair<double, double> timed_together(const Command& command) {
  progress("two at once: " + text_of(command));
  Child a(command), b(command);
  const Outcome first = a.wait(kTimeout_s), second = b.wait(kTimeout_s);
  return {seconds_of(command, first), seconds_of(command, second)};
}

double ratio(const Results& results, const std::string& benchmark, const std::string& over, const std::string& under) {
  const Series* const a = results.find(benchmark, over);
  const Series* const b = results.find(benchmark, under);
  if (a == nullptr || b == nullptr) return kNone;
  const std::vector<double> x = a->values(), y = b->values();
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) ratios.push_back(x[i] / y[i]);
  return median(ratios);
}

double middle(const Results& results, const std::string& benchmark, const std::string& metric) {
  const Series* const series = results.find(benchmark, metric);
  return series == nullptr ? kNone : series->middle();
}

namespace {

bool repeat(const Setup& setup, const std::function<bool()>& round) {
  for (int i = 0; i < setup.repetitions; ++i)
    if (!round()) return false;
  return true;
}

bool fork_join(const Setup& setup, Results& results, std::vector<Bar>& bars) {
  const bool good = repeat(setup, [&] { return run_job(setup, {"fork_join", "fork_join", 1, ""}, results); });
  bars.push_back({"fork + join of an unstolen thread", "time of fib 35 / its forks, 1 worker", "ns", Side::kAtMost, 30,
                  middle(results, "fork_join", "fork + join")});
  return good;
}

bool steal(const Setup& setup, Results& results, std::vector<Bar>& bars) {
  const bool good = repeat(setup, [&] { return run_job(setup, {"steal", "steal", 2, ""}, results); });
  bars.push_back({"steal between processes, busy victim", "child's first instruction to the continuation's", "us",
                  Side::kAtMost, 15, middle(results, "steal", "busy victim, thief awake")});
  return good;
}

bool read_miss(const Setup& setup, Results& results, std::vector<Bar>& bars) {
  const bool good = repeat(setup, [&] {
    return run_job(setup, {"read_miss", "read_miss", 2, "", "AYATORI_BLOCK_SIZE=4K"}, results) &&
           run_job(setup, {"read_miss", "bare", 0, "bare "}, results);
  });
  for (const char* const when : {"first time", "again"})
    bars.push_back({std::string("read miss / bare mechanism, ") + when, "4 KiB page of the other process", "",
                    Side::kAtMost, 1.5, ratio(results, "read_miss", when, std::string("bare ") + when)});
  return good;
}

bool startup(const Setup& setup, Results& results, std::vector<Bar>& bars) {
  const bool good = repeat(setup, [&] { return run_startup(setup, 4, "1T", results); });
  bars.push_back({"start of 4 processes, 1 TiB of space", "exec of the launcher until the first thread runs", "ms",
                  Side::kAtMost, 300, middle(results, kStartup, startup_metric(4, "1T", false))});
  return good;
}

bool speedup(const Setup& setup, const Program& program, Results& results, std::vector<Bar>& bars) {
  std::vector<double> values, capacities;
  const bool good = repeat(setup, [&] {
    const Command one = command_of(setup, program, 1);
    const double alone = timed(one), two = timed(command_of(setup, program, 2));
    const auto [a, b] = timed_together(one);
    if (std::isnan(alone + two + a + b)) return false;
    const double capacity = alone / a + alone / b;
    results.add(program.name, "1 process", "s", {alone});
    results.add(program.name, "2 processes", "s", {two});
    results.add(program.name, "1 process, two copies at once", "s", {a, b});
    results.add(program.name, "capacity", "", {capacity});
    results.add(program.name, "1 process / 2 processes", "", {alone / two});
    capacities.push_back(capacity);
    values.push_back(alone / two / capacity);
    return true;
  });
  char how[96];
  std::snprintf(how, sizeof how, "T(1 process) / T(2) = %.2f, capacity %.2f",
                middle(results, program.name, "1 process / 2 processes"), median(capacities));
  bars.push_back({program.name + " / capacity", how, "", Side::kAtLeast, program.limit, median(values)});
  return good;
}

bool overhead(const Setup& setup, const Program& program, Results& results, std::vector<Bar>& bars) {
  std::vector<double> values;
  const bool good = repeat(setup, [&] {
    const double serial = timed(command_of(setup, program, 0)), one = timed(command_of(setup, program, 1));
    if (std::isnan(serial + one)) return false;
    results.add(program.name, "--serial", "s", {serial});
    results.add(program.name, "1 process", "s", {one});
    values.push_back(one / serial);
    return true;
  });
  bars.push_back(
      {program.name, "T(1 process, 1 worker) / T(--serial)", "", Side::kAtMost, program.limit, median(values)});
  return good;
}

struct Measurement {
  std::string name;
  std::function<bool(const Setup&, Results&, std::vector<Bar>&)> run;
};

std::vector<Measurement> measurements() {
  std::vector<Measurement> all = {
      {"fork_join", fork_join}, {"steal", steal}, {"read_miss", read_miss}, {"startup", startup}};
  const auto named = [](const Program& program) {
    std::string name = program.name;
    std::replace(name.begin(), name.end(), ' ', '_');
    return name;
  };
  for (const Program& program : speedups())
    all.push_back({named(program),
                   [&program](const Setup& s, Results& r, std::vector<Bar>& b) { return speedup(s, program, r, b); }});
  for (const Program& program : overheads())
    all.push_back({named(program),
                   [&program](const Setup& s, Results& r, std::vector<Bar>& b) { return overhead(s, program, r, b); }});
  return all;
}

}  // namespace

std::vector<std::string> bar_names() {
  std::vector<std::string> names;
  for (const Measurement& m : measurements()) names.push_back(m.name);
  return names;
}

bool measure_bars(const Setup& setup, const std::vector<std::string>& names, Results& results, std::vector<Bar>& bars) {
  bool good = true;
  for (const Measurement& m : measurements())
    if (names.empty() || std::find(names.begin(), names.end(), m.name) != names.end())
      good &= m.run(setup, results, bars);
  progress("");
  return good;
}

}  // namespace bench
