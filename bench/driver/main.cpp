// SPDX-License-Identifier: Apache-2.0
// ayatori-bench: what `ayatori bench` becomes. Not linked with the library: it starts jobs and reads their samples.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "driver.hpp"
#include "json.hpp"

namespace {

using namespace bench;

constexpr int kBadArguments = 125, kNotMeasured = 3;  // 125: as elsewhere in `ayatori`
constexpr const char* kPrograms[] = {"fib", "nqueens", "uts", "cilksort", "nbody", "matmul", "heat"};  // of the bars

struct Options {
  bool bars = false;
  std::string json;
  std::vector<std::string> names;
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " " + word;
  return text;
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
      "`ayatori bench net` measures the transports between processes (`ayatori bench net --help`).\n\n"
      "Benchmarks:%s\nBars:%s\n",
      joined(benchmark_names()).c_str(), joined(bar_names()).c_str());
}

int complain_about(const std::string& what) {
  std::fprintf(stderr, "ayatori-bench: %s (`ayatori bench --help`)\n", what.c_str());
  return kBadArguments;
}

// The status to end with, or -1.
int parse(int argc, char** argv, Setup& setup, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto value = [&](std::string_view name) -> const char* {
      if (word == name && i + 1 < argc) return argv[++i];
      if (word.starts_with(name) && word.substr(name.size()).starts_with('=')) return argv[i] + name.size() + 1;
      return nullptr;
    };
    if (word == "--help" || word == "-h") {
      usage();
      return 0;
    }
    if (word == "--bars") {
      options.bars = true;
    } else if (word == "--quick") {
      setup.quick = true;
      setup.repetitions = 1;
    } else if (const char* file = value("--json")) {
      options.json = file;
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
  const std::vector<std::string> known = options.bars ? bar_names() : benchmark_names();
  for (const std::string& name : options.names) {
    bool found = false;
    for (const std::string& other : known) found |= name == other;
    if (!found)
      return complain_about("no " + std::string(options.bars ? "bar" : "benchmark") + " is named " + name +
                            "; there are:" + joined(known));
  }
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
  for (const std::string& needed : all_needed) {
    if (executable(needed)) continue;
    std::fprintf(stderr, "ayatori-bench: there is no %s\n", needed.c_str());
    return kNotMeasured;
  }

  Results results;
  std::vector<Bar> bars;
  const bool measured = options.bars ? measure_bars(setup, options.names, results, bars)
                                     : measure_benchmarks(setup, options.names, results);
  print_series(results.all());
  bool kept = true;
  if (options.bars) {
    std::puts("");
    print_bars(bars);
    for (const Bar& bar : bars) kept &= bar.kept();
  }
  if (setup.quick) std::puts("quick: tiny sizes; the figures and verdicts above mean nothing");
  if (!options.json.empty()) {
    Document document;
    document.kind = options.bars ? "bars" : "benchmarks";
    document.machine = run({{setup.launcher, "info", "--json"}}, 30).out;
    document.quick = setup.quick;
    document.results = &results;
    document.bars = options.bars ? &bars : nullptr;
    if (!write_json(options.json, document)) return kNotMeasured;
  }
  if (!measured) return kNotMeasured;
  return kept || setup.quick ? 0 : 1;
}
