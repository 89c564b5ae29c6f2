// SPDX-License-Identifier: Apache-2.0
// `ayatori bench policies`: tasks a second that fib makes, by number of processes, for each join policy and each back-off
// after a steal in vain: the experiment of the TSUBAME report (figure 2), by AYATORI_JOIN_POLICY and
// AYATORI_STEAL_BACKOFF. All combinations take turns within a round.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "driver.hpp"
#include "picture.hpp"

namespace bench {
namespace {

constexpr int kProcesses[] = {1, 2, 3, 4, 6, 8};
constexpr const char* kJoins[] = {"stay", "move"};
constexpr const char* kBackoffs[] = {"sleep", "none", "fixed", "random"};

std::string title_of(const char* join, const char* backoff) {
  return std::string("join ") + join + ", back-off " + backoff;
}
std::string metric_of(int processes) {
  return std::to_string(processes) + (processes == 1 ? " process" : " processes") + ", tasks a microsecond";
}

double once(const Setup& setup, const char* join, const char* backoff, int processes) {
  const int n = setup.quick ? 20 : 35;
  const Command command = {{setup.launcher, "run", "-n", std::to_string(processes), "-w", "1", "--",
                            setup.programs + "/fib", std::to_string(n)},
                           {{"AYATORI_JOIN_POLICY", join}, {"AYATORI_STEAL_BACKOFF", backoff}}};
  double a = 0, b = 1;  // fib(n + 1) - 1 forks
  for (int i = 0; i < n; ++i) b += std::exchange(a, b);
  return (b - 1) / (timed(command) * 1e6);
}

std::vector<std::string> names() { return {kBackoffs, kBackoffs + std::size(kBackoffs)}; }

bool measure(const Setup& setup, const std::vector<std::string>& wanted, Results& results, std::vector<Bar>&,
             std::vector<Table>& tables) {
  const auto chosen = [&wanted](const char* backoff) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), backoff) != wanted.end();
  };
  for (int round = 0; round < setup.repetitions; ++round)
    for (const int processes : kProcesses)
      for (const char* const backoff : kBackoffs)
        for (const char* const join : kJoins) {
          if (!chosen(backoff)) continue;
          const double rate = once(setup, join, backoff, processes);
          if (std::isnan(rate)) return false;
          results.add(title_of(join, backoff), metric_of(processes), "1/us", {rate});
        }
  progress("");

  std::string text = "`ayatori bench policies`, " + machine_and_date() + ", fib " + (setup.quick ? "20" : "35") +
                     ", a worker a process, medians [lowest, highest] of " + std::to_string(setup.repetitions) +
                     (setup.quick ? ", --quick: they mean nothing" : "") + ":\n\n| tasks a microsecond, processes: |";
  for (const int n : kProcesses) text += " " + std::to_string(n) + " |";
  text += "\n|";
  for (std::size_t i = 0; i <= std::size(kProcesses); ++i) text += " --- |";
  text += "\n";
  Picture picture{"policies", "Tasks made by fib", "processes", "tasks a microsecond", {}};
  for (const char* const backoff : kBackoffs)
    for (const char* const join : kJoins) {
      if (!chosen(backoff)) continue;
      const std::string title = title_of(join, backoff);
      Curve curve{title, {}};
      text += "| " + title + " |";
      for (const int n : kProcesses) {
        const std::vector<double> rates = results.find(title, metric_of(n))->values();
        text +=
            " " + figure(median(rates)) + " [" + figure(quantile(rates, 0)) + ", " + figure(quantile(rates, 1)) + "] |";
        curve.points.push_back({static_cast<double>(n), rates});
      }
      text += "\n";
      picture.curves.push_back(curve);
    }
  tables.push_back({"policies", text});
  return setup.plot.empty() || draw(setup.plot, picture);
}

}  // namespace

const Comparison kPolicies = {"policies",
                              "Tasks a second that fib makes, by number of processes, where joined threads stay or "
                              "move (AYATORI_JOIN_POLICY) and for\n"
                              "each back-off after a steal in vain (AYATORI_STEAL_BACKOFF). Names are back-offs.",
                              {"fib"},
                              names,
                              true,
                              measure};

}  // namespace bench
