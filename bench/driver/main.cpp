// SPDX-License-Identifier: Apache-2.0
// ayatori-bench: what `ayatori bench` becomes. Not linked with the library: it starts jobs and reads their samples.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "driver.hpp"
#include "json.hpp"
#include "picture.hpp"

namespace {

using namespace bench;

constexpr int kBadArguments = 125, kNotMeasured = 3;  // 125: as elsewhere in `ayatori`
constexpr const char* kPrograms[] = {"fib", "nqueens", "uts", "cilksort", "nbody", "matmul", "heat"};  // of the bars

constexpr const Comparison* kComparisons[] = {&kThreads, &kLatency, &kPolicies};

struct Options {
  bool bars = false;
  const Comparison* comparison = nullptr;
  std::string json, tables;
  std::vector<std::string> names;
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " " + word;
  return text;
}

void usage_of(const Comparison& what) {
  std::printf(
      "Usage: ayatori bench %s [NAME...] [--json=FILE]\n\n%s\n\n"
      "  --json=FILE         the samples as JSON\n"
      "  --tables=FILE       writes the tables into a Markdown file that has \"<!-- bench ... -->\" where they belong\n"
      "%s"
      "  --repetitions=N     rounds [5]\n"
      "  --quick             tiny sizes, one repetition: does everything run? The figures mean nothing\n"
      "  --programs=FOLDER   of fib, nqueens and the others [this program's]\n\n"
      "Status 1: a bar is missed, 3: something could not be measured. Names:%s\n",
      what.word, what.about, what.draws ? "  --plot=FOLDER       pictures and their data; gnuplot draws them\n" : "",
      joined(what.names()).c_str());
}

void usage() {
  std::printf(
      "Usage: ayatori bench [NAME...] [--json=FILE]\n\n"
      "Measures the runtime: the named benchmarks, or all of them. Takes turns between what is compared; prints the\n"
      "median, lowest and highest of the repetitions. Meant for a machine that does nothing else.\n\n"
      "  --json=FILE         the samples as JSON\n"
      "  --repetitions=N     runs of everything [5]\n"
      "  --quick             tiny sizes, one repetition: does everything run? The figures mean nothing\n"
      "  --bars              instead: the bars that a release keeps; status 1 when one is missed\n"
      "  --programs=FOLDER   of fib, nqueens and the others, for --bars [this program's]\n\n"
      "Others have options of their own (`ayatori bench threads --help`):\n"
      "  net                 the transports between processes\n"
      "  latency             latency of remote pages that other threads hide\n"
      "  policies            where joined threads go on, what idle workers do\n"
      "  threads             threads, beside those of oneTBB, OpenMP and the C++ library\n\n"
      "Benchmarks:%s\nBars:%s\n",
      joined(benchmark_names()).c_str(), joined(bar_names()).c_str());
}

int complain_about(const std::string& what) {
  std::fprintf(stderr, "ayatori-bench: %s (`ayatori bench --help`)\n", what.c_str());
  return kBadArguments;
}

// The status to end with, or -1.
int parse(int argc, char** argv, Setup& setup, Options& options) {
  for (const Comparison* const comparison : kComparisons)
    if (argc > 1 && comparison->word == std::string_view(argv[1])) options.comparison = comparison;
  for (int i = options.comparison != nullptr ? 2 : 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto value = [&](std::string_view name) -> const char* {
      if (word == name && i + 1 < argc) return argv[++i];
      if (word.starts_with(name) && word.substr(name.size()).starts_with('=')) return argv[i] + name.size() + 1;
      return nullptr;
    };
    if (word == "--help" || word == "-h") {
      options.comparison != nullptr ? usage_of(*options.comparison) : usage();
      return 0;
    }
    if (word == "--bars" && options.comparison == nullptr) {
      options.bars = true;
    } else if (word == "--quick") {
      setup.quick = true;
      setup.repetitions = 1;
    } else if (const char* file = value("--json")) {
      options.json = file;
    } else if (const char* plots =
                   options.comparison != nullptr && options.comparison->draws ? value("--plot") : nullptr) {
      setup.plot = plots;
    } else if (const char* page = options.comparison != nullptr ? value("--tables") : nullptr) {
      options.tables = page;
    } else if (const char* folder = value("--programs")) {
      setup.programs = folder;
    } else if (const char* count = value("--repetitions")) {
      char* end = nullptr;
      const long n = std::strtol(count, &end, 10);
      if (end == count || *end != '\0' || n < 1 || n > 1000)
        return complain_about(std::string("--repetitions takes 1..1000, not ") + count);
      setup.repetitions = static_cast<int>(n);
    } else if (word.starts_with('-')) {
      return complain_about("unknown option " + std::string(word));
    } else {
      options.names.emplace_back(word);
    }
  }
  const std::vector<std::string> known = options.comparison != nullptr ? options.comparison->names()
                                         : options.bars                ? bar_names()
                                                                       : benchmark_names();
  for (const std::string& name : options.names) {
    bool found = false;
    for (const std::string& other : known) found |= name == other;
    if (!found)
      return complain_about("no " + std::string(options.bars ? "bar" : "benchmark") + " is named " + name +
                            "; there are:" + joined(known));
  }
  if (!setup.plot.empty() && !can_draw(setup.plot)) return kBadArguments;
  if (!options.json.empty() && !can_write(options.json)) return kBadArguments;
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Setup setup;
  Options options;
  const std::string folder = own_folder();
  setup.programs = folder;
  setup.cases = folder + "/ayatori-bench-cases";
  setup.bare = folder + "/ayatori-bench-bare";
  setup.launcher = launcher_path();
  if (const int status = parse(argc, argv, setup, options); status >= 0) return status;
  std::vector<std::string> all_needed = {setup.launcher, setup.cases, setup.bare};
  if (options.bars)
    for (const char* const program : kPrograms) all_needed.push_back(setup.programs + "/" + program);
  if (options.comparison != nullptr)
    for (const char* const program : options.comparison->programs) all_needed.push_back(setup.programs + "/" + program);
  for (const std::string& needed : all_needed) {
    if (executable(needed)) continue;
    std::fprintf(stderr, "ayatori-bench: there is no %s\n", needed.c_str());
    return kNotMeasured;
  }

  Results results;
  std::vector<Bar> bars;
  std::vector<Table> tables;
  bool measured = options.comparison != nullptr
                      ? options.comparison->measure(setup, options.names, results, bars, tables)
                  : options.bars ? measure_bars(setup, options.names, results, bars)
                                 : measure_benchmarks(setup, options.names, results);
  print_series(results.all());
  for (const Table& table : tables) std::printf("\n%s\n", table.text.c_str());
  bool kept = true;
  if (!bars.empty()) {
    std::puts("");
    print_bars(bars);
    for (const Bar& bar : bars) kept &= bar.kept();
  }
  if (setup.quick) std::puts("quick: tiny sizes; the figures and verdicts above mean nothing");
  if (!options.json.empty()) {
    Document document;
    document.kind = options.comparison != nullptr ? options.comparison->word : options.bars ? "bars" : "benchmarks";
    document.machine = run({{setup.launcher, "info", "--json"}}, 30).out;
    document.quick = setup.quick;
    document.results = &results;
    document.bars = options.bars || options.comparison != nullptr ? &bars : nullptr;
    if (!write_json(options.json, document)) return kNotMeasured;
  }
  if (!options.tables.empty()) measured &= put_tables(options.tables, tables);
  if (!measured) return kNotMeasured;
  return kept || setup.quick ? 0 : 1;
}
