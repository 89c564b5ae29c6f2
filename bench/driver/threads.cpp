// SPDX-License-Identifier: Apache-2.0
// `ayatori bench threads`: what threads cost, beside those of other systems, which run the same programs (bench/PROBLEM/
// SYSTEM.cpp; ours are apps/ and the case `threads`). All systems take turns within a round; figures are medians of the
// rounds, ratios are taken within a round.
//
// 1. Ours, a peer's and --serial run in the same round; so do the two copies that give the capacity (bars.cpp).
// 2. A peer that is not built (its package was missing) is named as such in the tables; it is no failure.
// 3. fib of peers is smaller, since some take minutes for ours: compared is the time of a fork and join.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>

#include <unistd.h>

#include "driver.hpp"

namespace bench {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kOurs = "Ayatori";
using Words = std::vector<std::string>;

struct Peer {
  const char* name;
  const char* program;  // beside this one
  const char* package;  // that has it in Debian
  const char* fib;      // a size that it can do
  bool trees;           // does it run nqueens and uts?
};
constexpr Peer kPeers[] = {{"oneTBB", "ayatori-bench-tbb", "libtbb-dev", "30", true},
                           {"OpenMP", "ayatori-bench-openmp", "gcc's libgomp", "30", true},
                           {"std::thread", "ayatori-bench-std_thread", "libstdc++", "16", false}};

std::string path_of(const Peer& peer) { return own_folder() + "/" + peer.program; }
bool built(const Peer& peer) { return executable(path_of(peer)); }

Command peer_command(const Peer& peer, Words words, int workers) {
  words.insert(words.begin(), path_of(peer));
  words.push_back("--workers=" + std::to_string(workers));
  return {words, {{"OMP_STACKSIZE", "1G"}, {"OMP_DYNAMIC", "false"}}};
}

// 0 processes: --serial.
Command our_command(const Setup& setup, Words words, int processes, int workers) {
  words[0] = setup.programs + "/" + words[0];
  if (processes == 0) {
    words.emplace_back("--serial");
    return {words};
  }
  const Words launch = {setup.launcher, "run", "-n", std::to_string(processes), "-w", std::to_string(workers), "--"};
  words.insert(words.begin(), launch.begin(), launch.end());
  return {words};
}

double forks_of(const std::string& n) {
  double a = 0, b = 1;
  for (int i = std::atoi(n.c_str()); i > 0; --i) b += std::exchange(a, b);
  return b - 1;  // calls with n >= 2
}

std::string by(const std::string& system, const char* how) { return system + ", " + how; }
constexpr const char* kOne = "1 worker";
constexpr const char* kTwo = "2 workers";
constexpr const char* kTwoProcesses = "2 processes";

// Measures and keeps one time, in units of `unit_s`.
bool keep(Results& results, const std::string& part, const std::string& metric, const Command& command,
          const char* unit, double unit_s) {
  const double seconds = timed(command);
  if (std::isnan(seconds)) return false;
  results.add(part, metric, unit, {seconds / unit_s});
  return true;
}

std::string caption(const Setup& setup, const std::string& part) {
  return "`ayatori bench threads " + part + "`, " + machine_and_date() + ", medians of " +
         std::to_string(setup.repetitions) + (setup.quick ? ", --quick: they mean nothing" : "") + ":\n\n";
}

std::string row(const Words& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += " " + cell + " |";
  return text + "\n";
}
std::string head(const Words& cells) { return row(cells) + row(Words(cells.size(), "---")); }

std::string not_built(const Peer& peer) { return std::string(peer.name) + " (not built: " + peer.package + ")"; }

// ------------------------------------------------------------------------------------------------ operations

struct Operation {
  const char* metric;  // of the case `threads`
  double limit;        // 0: no bar
  int locked = 0;      // locked instructions that are most of it
};
// The limits are those of a CPU on which a locked instruction takes so long; where it takes longer, that is allowed for.
constexpr double kLockedNs = 2.7;
constexpr const char* kLocked = "a locked instruction (lock xadd)";
constexpr Operation kOperations[] = {
    {kLocked, 0},
    {"fork + join of an empty thread", 22},
    {"yield to another thread", 16},
    {"lock + unlock of a free mutex", 9, 2},
    {"lock + unlock of a free process-private C mutex", 7, 2},
    {"hand-off of a mutex", 40},
    {"condition variable, there and back", 60},
    {"2 workers, condition variable, there and back", 500},
};

bool measure_operations(const Setup& setup, const char* part, Results& results, std::vector<Bar>& bars,
                        std::vector<Table>& tables) {
  const auto ours = [&](int workers) {
    Command command = {{setup.launcher, "run", "-n", "1", "-w", std::to_string(workers), "--", setup.cases, "threads"}};
    if (setup.quick) command.words.emplace_back("--quick");
    return command;
  };
  bool good = true;
  for (int round = 0; round < setup.repetitions; ++round) {
    for (const int workers : {1, 2}) {
      const std::string how = workers == 2 ? "2 workers, " : "";
      good &= run_samples(ours(workers), part, std::string(kOurs) + ": " + how, results);
      for (const Peer& peer : kPeers) {
        if (!built(peer)) continue;
        Words words = {"operations"};
        if (setup.quick) words.emplace_back("--quick");
        good &= run_samples(peer_command(peer, words, workers), part, std::string(peer.name) + ": " + how, results);
      }
    }
  }
  Words titles = {"nanoseconds", kOurs};
  for (const Peer& peer : kPeers) titles.emplace_back(built(peer) ? std::string(peer.name) : not_built(peer));
  titles.insert(titles.end(), {"ours / the best other", "bar"});
  std::string text = caption(setup, part) + head(titles);
  const double locked_ns = middle(results, part, std::string(kOurs) + ": " + kLocked);
  const double longer_ns = std::isnan(locked_ns) ? 0 : std::max(0.0, locked_ns - kLockedNs);
  for (const Operation& operation : kOperations) {
    const double limit = operation.limit + operation.locked * longer_ns;
    const std::string mine = std::string(kOurs) + ": " + operation.metric;
    const double measured = middle(results, part, mine);
    Words cells = {operation.metric, figure(measured)};
    double best = kNone, best_ratio = kNone;
    for (const Peer& peer : kPeers) {
      const std::string other = std::string(peer.name) + ": " + operation.metric;
      const double theirs = middle(results, part, other);
      cells.push_back(figure(theirs));
      if (std::isnan(theirs) || theirs >= best) continue;
      best = theirs;
      best_ratio = ratio(results, part, mine, other);
    }
    const bool held = operation.limit > 0;
    cells.insert(cells.end(), {figure(best_ratio), held ? "<= " + figure(limit) : "-"});
    if (held && measured > limit) cells.back() += ", missed";
    text += row(cells);
    const std::string how = operation.locked == 0 || longer_ns == 0
                                ? ""
                                : figure(operation.limit) + " where a locked instruction takes " + figure(kLockedNs) +
                                      " ns; " + std::to_string(operation.locked) + " of " + figure(locked_ns) + " here";
    if (held) bars.push_back({operation.metric, how, "ns", Side::kAtMost, limit, measured});
  }
  tables.push_back({std::string("threads ") + part, text});
  return good;
}

// ------------------------------------------------------------------------------------------------ forks

bool measure_forks(const Setup& setup, const char* part, Results& results, std::vector<Bar>& bars,
                   std::vector<Table>& tables) {
  const std::string n = setup.quick ? "22" : "35";
  const double ns_a_fork = forks_of(n) / 1e9;
  const char* const serial = "--serial (calls that the compiler inlines)";
  const char* const calls = "calls that it does not inline: the same by calls";
  bool good = true;
  for (int round = 0; round < setup.repetitions; ++round) {
    good &= keep(results, part, serial, our_command(setup, {"fib", n}, 0, 1), "ns", ns_a_fork);
    good &= keep(results, part, by(kOurs, kOne), our_command(setup, {"fib", n}, 1, 1), "ns", ns_a_fork);
    Command of_case = {{setup.launcher, "run", "-n", "1", "-w", "1", "--", setup.cases, "fork_join"}};
    if (setup.quick) of_case.words.emplace_back("--quick");
    good &= run_samples(of_case, part, "calls that it does not inline: ", results);
    good &= keep(results, part, by(kOurs, kTwo), our_command(setup, {"fib", n}, 1, 2), "ns", ns_a_fork);
    for (const Peer& peer : kPeers) {
      if (!built(peer)) continue;
      const std::string size = setup.quick ? "12" : peer.fib;
      for (const int workers : {1, 2})
        good &= keep(results, part, by(peer.name, workers == 1 ? kOne : kTwo),
                     peer_command(peer, {"fib", size}, workers), "ns", forks_of(size) / 1e9);
    }
  }
  std::string text = caption(setup, part) +
                     head({"nanoseconds a fork and join", "1 worker", "ours / theirs", "2 workers", "ours / theirs"});
  const auto ours_over = [&](const Peer& peer, const char* how) {
    return figure(ratio(results, part, by(kOurs, how), by(peer.name, how)));
  };
  text += row({std::string(kOurs) + ", fib " + n, figure(middle(results, part, by(kOurs, kOne))), "",
               figure(middle(results, part, by(kOurs, kTwo))), ""});
  for (const Peer& peer : kPeers) {
    if (!built(peer)) {
      text += row({not_built(peer), "", "", "", ""});
      continue;
    }
    text += row({std::string(peer.name) + ", fib " + (setup.quick ? "12" : peer.fib),
                 figure(middle(results, part, by(peer.name, kOne))), ours_over(peer, kOne),
                 figure(middle(results, part, by(peer.name, kTwo))), ours_over(peer, kTwo)});
  }
  const double of_serial = ratio(results, part, by(kOurs, kOne), serial);
  const double of_calls = ratio(results, part, by(kOurs, kOne), calls);
  text += "\nT1 / T(serial): " + figure(of_serial) + " of `fib " + n + " --serial`, which takes " +
          figure(middle(results, part, serial)) +
          " ns for what is a fork elsewhere since the compiler inlines calls into calls; " + figure(of_calls) +
          " of calls that are not inlined (" + figure(middle(results, part, calls)) + " ns).\n";
  bars.push_back({"fork + join, fib " + n, "1 worker: time / forks", "ns", Side::kAtMost, 18,
                  middle(results, part, by(kOurs, kOne))});
  bars.push_back({"T1 / T(serial), fib " + n, "--serial; of calls not inlined: " + figure(of_calls), "", Side::kAtMost,
                  9, of_serial});
  tables.push_back({std::string("threads ") + part, text});
  return good;
}

// ------------------------------------------------------------------------------------------------ two CPUs

struct Program {
  const char* part;
  Words words, quick;
};
const std::vector<Program>& programs() {
  static const std::vector<Program> all = {{"fib", {"fib", "38"}, {"fib", "25"}},
                                           {"nqueens", {"nqueens", "13"}, {"nqueens", "9"}},
                                           {"uts_T1", {"uts", "T1"}, {"uts", "T1"}},
                                           {"uts_T3", {"uts", "T3"}, {"uts", "T3"}}};
  return all;
}

bool runs(const Peer& peer, const Program& program) { return built(peer) && (peer.trees || program.words[0] == "fib"); }

bool measure_program(const Setup& setup, const Program& program, Results& results, std::vector<Bar>& bars,
                     std::vector<Table>& tables) {
  const std::string part = program.part;
  const Words& words = setup.quick ? program.quick : program.words;
  const bool is_fib = words[0] == "fib";
  const char* const unit = is_fib ? "ns" : "s";  // a fork and join; the program
  const auto unit_s = [&](const std::string& size) { return is_fib ? forks_of(size) / 1e9 : 1.0; };
  const auto size_for = [&](const Peer& peer) {
    return !is_fib ? words[1] : setup.quick ? std::string("12") : peer.fib;
  };
  const auto our = [&](int processes, int workers) { return our_command(setup, words, processes, workers); };
  bool good = true;
  for (int round = 0; round < setup.repetitions; ++round) {
    const double alone = timed(our(1, 1));
    const auto [a, b] = timed_together(our(1, 1));
    const double capacity = alone / a + alone / b;
    if (std::isnan(capacity)) return false;
    results.add(part, by(kOurs, kOne), unit, {alone / unit_s(words[1])});
    results.add(part, "capacity", "", {capacity});
    good &= keep(results, part, by(kOurs, kTwo), our(1, 2), unit, unit_s(words[1]));
    good &= keep(results, part, by(kOurs, kTwoProcesses), our(2, 1), unit, unit_s(words[1]));
    for (const Peer& peer : kPeers) {
      if (!runs(peer, program)) continue;
      const std::string size = size_for(peer);
      for (const int workers : {1, 2})
        good &= keep(results, part, by(peer.name, workers == 1 ? kOne : kTwo),
                     peer_command(peer, {words[0], size}, workers), unit, unit_s(size));
    }
  }
  // T1 / T2 / capacity, round by round.
  const auto speedup = [&](const std::string& system, const char* how) {
    const Series *const one = results.find(part, by(system, kOne)), *const two = results.find(part, by(system, how)),
                        *const capacity = results.find(part, "capacity");
    if (one == nullptr || two == nullptr || capacity == nullptr) return kNone;
    const std::vector<double> x = one->values(), y = two->values(), c = capacity->values();
    std::vector<double> values;
    for (std::size_t i = 0; i < std::min({x.size(), y.size(), c.size()}); ++i) values.push_back(x[i] / y[i] / c[i]);
    return median(values);
  };
  const std::string name = words[0] + " " + words[1];
  std::string text = caption(setup, part) + head({name + (is_fib ? ", ns a fork and join" : ", seconds"), "T1", "T2",
                                                  "T1 / T2 / capacity", "ours / theirs: T1", "T2"});
  const auto line = [&](const std::string& system, const char* how, const std::string& title) {
    const double t1 = middle(results, part, by(system, kOne)), t2 = middle(results, part, by(system, how));
    Words cells = {title, figure(t1), figure(t2), figure(speedup(system, how))};
    const bool ours = system == kOurs;
    cells.push_back(ours ? "" : figure(ratio(results, part, by(kOurs, kOne), by(system, kOne))));
    cells.push_back(ours ? "" : figure(ratio(results, part, by(kOurs, kTwo), by(system, kTwo))));
    text += row(cells);
  };
  line(kOurs, kTwo, "Ayatori, 2 workers");
  line(kOurs, kTwoProcesses, "Ayatori, 2 processes");
  for (const Peer& peer : kPeers) {
    if (!built(peer))
      text += row({not_built(peer), "", "", "", "", ""});
    else if (runs(peer, program))
      line(peer.name, kTwo, peer.name + (is_fib ? ", fib " + size_for(peer) : ""));
  }
  text += "\nCapacity of the CPUs: " + figure(middle(results, part, "capacity")) + ".\n";
  const std::string how = "capacity " + figure(middle(results, part, "capacity"));
  for (const char* const what : {kTwo, kTwoProcesses})
    bars.push_back({name + ", " + what + ": T1 / T2 / capacity", how, "", Side::kAtLeast, 0.95, speedup(kOurs, what)});
  tables.push_back({"threads " + part, text});
  return good;
}

// ------------------------------------------------------------------------------------------------

struct Measurement {
  std::string name;
  std::function<bool(const Setup&, Results&, std::vector<Bar>&, std::vector<Table>&)> run;
};

std::vector<Measurement> measurements() {
  const auto part = [](bool (*measure)(const Setup&, const char*, Results&, std::vector<Bar>&, std::vector<Table>&),
                       const char* name) {
    return Measurement{name, [=](const Setup& s, Results& r, std::vector<Bar>& b, std::vector<Table>& t) {
                         return measure(s, name, r, b, t);
                       }};
  };
  std::vector<Measurement> all = {part(measure_operations, "operations"), part(measure_forks, "forks")};
  for (const Program& program : programs())
    all.push_back({program.part, [&program](const Setup& s, Results& r, std::vector<Bar>& b, std::vector<Table>& t) {
                     return measure_program(s, program, r, b, t);
                   }});
  return all;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Measurement& m : measurements()) all.push_back(m.name);
  return all;
}

bool measure(const Setup& setup, const std::vector<std::string>& wanted, Results& results, std::vector<Bar>& bars,
             std::vector<Table>& tables) {
  bool good = true;
  for (const Measurement& m : measurements()) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), m.name) == wanted.end()) continue;
    if (isatty(STDERR_FILENO) == 0)  // where progress() is silent
      std::fprintf(stderr, "ayatori-bench: %s, %d rounds\n", m.name.c_str(), setup.repetitions);
    good &= m.run(setup, results, bars, tables);
  }
  progress("");
  return good;
}

}  // namespace

const Comparison kThreads = {
    "threads",
    "What threads cost, and what two CPUs gain, beside oneTBB, OpenMP and std::thread in the same\n"
    "rounds; a system that was not there when this was built is left out. Two to three minutes.",
    {"fib", "nqueens", "uts"},
    names,
    false,
    measure};

}  // namespace bench
