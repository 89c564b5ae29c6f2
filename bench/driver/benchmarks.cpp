// SPDX-License-Identifier: Apache-2.0
// The benchmarks. The jobs of one benchmark take turns, so that a disturbance meets all of them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "driver.hpp"

namespace bench {
namespace {

constexpr int kTimeout_s = 120;

constexpr Job kJobs[] = {
    {"fork_join", "fork_join", 1, ""},
    {"thread_operations", "threads", 1, ""},
    {"thread_operations", "threads_of_two", 1, "2 workers, ", "", 2},
    {"parallel", "parallel", 1, ""},
    {"steal", "steal", 2, ""},
    // 4K: the fault fetches the page it wants and no other, as the bare mechanism does.
    {"read_miss", "read_miss", 2, "one page, ", "AYATORI_BLOCK_SIZE=4K"},
    {"read_miss", "bare", 0, "bare mechanism, "},
    {"read_miss", "read_miss", 2, "default block, "},
    {"read_miss", "read_stream", 2, ""},
    {"write_miss", "write_miss", 2, ""},
    {"write_miss", "bare", 0, "bare mechanism, "},
    {"upgrade", "upgrade", 2, "", "AYATORI_BLOCK_SIZE=4K"},
    {"upgrade", "bare", 0, "bare mechanism, "},
    {"release_dirty", "release_dirty", 2, ""},
    {"acquire_cached", "acquire_cached", 2, ""},
    {"barrier", "barrier", 2, "2 processes, "},
    {"barrier", "barrier", 4, "4 processes, "},
    {"mutex_handoff", "mutex_handoff", 2, ""},
};

struct Start {
  int processes;
  const char* space;
};
constexpr Start kStarts[] = {{1, "1T"}, {2, "1T"}, {4, "1T"}, {8, "1T"}, {4, "1G"}, {4, "32G"}};

// The value of a line "started TAB NANOSECONDS".
std::int64_t started_at(const std::string& out) {
  const std::size_t at = out.find("started\t");
  return at == out.npos ? 0 : std::strtoll(out.c_str() + at + std::strlen("started\t"), nullptr, 10);
}

int add_samples(const std::string& benchmark, const std::string& variant, const std::string& out, Results& results) {
  int series = 0;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string word, metric, unit;
    if (!std::getline(fields, word, '\t') || word != "sample") continue;
    std::getline(fields, metric, '\t');
    std::getline(fields, unit, '\t');
    std::vector<double> values;
    for (double value; fields >> value;) values.push_back(value);
    results.add(benchmark, variant + metric, unit, std::move(values));
    ++series;
  }
  return series;
}

}  // namespace

const char* const kStartup = "startup";

bool complain(const Command& command, const Outcome& outcome) {
  progress("");
  std::fprintf(stderr, "ayatori-bench: %s: ", text_of(command).c_str());
  if (outcome.status == -1)
    std::fputs("took too long\n", stderr);
  else
    std::fprintf(stderr, "status %d\n", outcome.status);
  constexpr std::size_t kTail = 2000;
  const std::string text = outcome.out.substr(outcome.out.size() - std::min(outcome.out.size(), kTail)) +
                           outcome.err.substr(outcome.err.size() - std::min(outcome.err.size(), kTail));
  std::fputs(text.c_str(), stderr);
  return false;
}

bool run_samples(const Command& command, const std::string& benchmark, const std::string& variant, Results& results) {
  progress(text_of(command));
  const Outcome outcome = run(command, kTimeout_s);
  if (!outcome.ok() || add_samples(benchmark, variant, outcome.out, results) == 0) return complain(command, outcome);
  return true;
}

bool run_job(const Setup& setup, const Job& job, Results& results) {
  Command command;
  if (job.processes > 0)
    command.words = {
        setup.launcher, "run",       "-n",       std::to_string(job.processes), "-w", std::to_string(job.workers),
        "--",           setup.cases, job.program};
  else
    command.words = {setup.bare, job.benchmark};
  if (setup.quick) command.words.push_back("--quick");
  if (const char* equals = std::strchr(job.knob, '='))
    command.environment.emplace_back(std::string(job.knob, equals), equals + 1);
  return run_samples(command, job.benchmark, job.variant, results);
}

std::string startup_metric(int processes, const std::string& space, bool whole) {
  return std::to_string(processes) + (processes == 1 ? " process, " : " processes, ") + space +
         (whole ? ", start and end of the job" : ", until the first thread runs");
}

bool run_startup(const Setup& setup, int processes, const std::string& space, Results& results) {
  Command command;
  command.words = {setup.launcher, "run", "-n", std::to_string(processes), "-w", "1", "--", setup.cases, "startup"};
  command.environment = {{"AYATORI_SPACE_SIZE", space}};
  progress(text_of(command));
  const Outcome outcome = run(command, kTimeout_s);
  const std::int64_t started_ns = started_at(outcome.out);
  if (!outcome.ok() || started_ns == 0) return complain(command, outcome);
  const auto ms = [&outcome](std::int64_t ns) { return static_cast<double>(ns - outcome.started_ns) / 1e6; };
  results.add(kStartup, startup_metric(processes, space, false), "ms", {ms(started_ns)});
  results.add(kStartup, startup_metric(processes, space, true), "ms", {ms(outcome.ended_ns)});
  return true;
}

std::vector<std::string> benchmark_names() {
  std::vector<std::string> names;
  for (const Job& job : kJobs)
    if (names.empty() || names.back() != job.benchmark) names.emplace_back(job.benchmark);
  names.emplace_back(kStartup);
  return names;
}

bool measure_benchmarks(const Setup& setup, const std::vector<std::string>& names, Results& results) {
  bool good = true;
  for (const std::string& name : names.empty() ? benchmark_names() : names) {
    for (int i = 0; i < setup.repetitions; ++i) {
      for (const Job& job : kJobs)
        if (name == job.benchmark) good &= run_job(setup, job, results);
      if (name == kStartup)
        for (const Start& start : kStarts) good &= run_startup(setup, start.processes, start.space, results);
    }
  }
  progress("");
  return good;
}

}  // namespace bench
