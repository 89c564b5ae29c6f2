// SPDX-License-Identifier: Apache-2.0
// `ayatori bench latency`: how much of a remote access's latency other threads of the worker hide (the case `latency`): over
// shared memory with a delay of 20 us (AYATORI_NET_DELAY), and over tcp as it is.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "driver.hpp"
#include "picture.hpp"

namespace bench {
namespace {

constexpr int kThreads[] = {1, 2, 4, 8};

struct Variant {
  const char* name;
  const char* title;
  std::vector<std::string> options;  // of the launcher
  const char* delay_ns;
};
const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = {
      {"shm", "shm and 20 us", {}, "20000"},
      {"mprotect", "the same, engine mprotect", {"--engine", "mprotect"}, "20000"},
      {"tcp", "tcp over loopback", {"--transport", "tcp"}, "0"},
  };
  return all;
}

std::string metric_of(int threads) {
  return std::to_string(threads) + (threads == 1 ? " thread" : " threads") + ", a step";
}

bool once(const Setup& setup, const Variant& variant, Results& results) {
  Command command;
  command.words = {setup.launcher, "run", "-n", "2", "-w", "1"};
  command.words.insert(command.words.end(), variant.options.begin(), variant.options.end());
  command.words.insert(command.words.end(), {"--", setup.cases, "latency"});
  if (setup.quick) command.words.emplace_back("--quick");
  // One page a fault: each step is one.
  command.environment = {{"AYATORI_NET_DELAY", variant.delay_ns}, {"AYATORI_BLOCK_SIZE", "4K"}};
  return run_samples(command, variant.title, "", results);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Variant& v : variants()) all.emplace_back(v.name);
  return all;
}

bool measure(const Setup& setup, const std::vector<std::string>& wanted, Results& results, std::vector<Bar>& bars,
             std::vector<Table>& tables) {
  std::vector<const Variant*> chosen;
  for (const Variant& v : variants())
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), v.name) != wanted.end()) chosen.push_back(&v);
  bool good = true;
  for (int round = 0; round < setup.repetitions; ++round)
    for (const Variant* const v : chosen) good &= once(setup, *v, results);
  progress("");

  Picture picture{"latency", "Latency hidden by threads", "threads of the worker", "steps a microsecond", {}};
  std::string text = "`ayatori bench latency`, " + machine_and_date() + ", medians of " +
                     std::to_string(setup.repetitions) + (setup.quick ? ", --quick: they mean nothing" : "") + ":\n\n" +
                     "| microseconds a step, threads: |";
  for (const int n : kThreads) text += " " + std::to_string(n) + " |";
  text += " rate of 8 : 1 |\n| --- |";
  for (std::size_t i = 0; i <= std::size(kThreads); ++i) text += " --- |";
  text += "\n";
  for (const Variant* const v : chosen) {
    Curve curve{v->title, {}};
    text += std::string("| ") + v->title + " |";
    for (const int n : kThreads) {
      const Series* const series = results.find(v->title, metric_of(n));
      text += " " + figure(middle(results, v->title, metric_of(n))) + " |";
      if (series == nullptr) continue;
      std::vector<double> rates;
      for (const double us : series->values()) rates.push_back(1 / us);
      curve.points.push_back({static_cast<double>(n), rates});
    }
    const double gain = ratio(results, v->title, metric_of(1), metric_of(8));
    text += " " + figure(gain) + " |\n";
    picture.curves.push_back(curve);
    if (v->name == std::string("shm"))
      bars.push_back(
          {"steps of 8 threads : of 1, latency 20 us", "1 worker, 4 KiB pages over shm", "", Side::kAtLeast, 5, gain});
  }
  tables.push_back({"latency", text});
  if (!setup.plot.empty()) good &= draw(setup.plot, picture);
  return good;
}

}  // namespace

const Comparison kLatency = {"latency",
                             "How much of the latency of remote pages is hidden by 1 to 8 threads a worker: over "
                             "shared memory with a delay of 20 us,\n"
                             "and over tcp as it is.",
                             {},
                             names,
                             true,
                             measure};

}  // namespace bench
