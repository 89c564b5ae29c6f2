// SPDX-License-Identifier: Apache-2.0
// sim_protocol: seeded runs of the coherence, steal and join protocols on simulated processes, invariants after every
// step. Each seed draws a machine, a race-free program and a schedule; a failure prints the command that replays it.
//
//   sim_protocol --seeds 20000                      all must pass
//   sim_protocol --seed 4711 --trace                one run, told step by step
//   sim_protocol --bug no-overlay --seeds 3000      plants a bug: must be caught within 3000 seeds and replay the same
//   sim_protocol --bug no-overlay --seed 17         that bug, one run
//   ... --no-invariants                             only what programs read, and hangs, count
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "machine.hpp"
#include "program.hpp"
#include "runtime.hpp"
#include "scheduler.hpp"

namespace ayatori::sim {

namespace {

constexpr std::uint64_t kStepLimit = 3'000'000;

struct BugName {
  const char* name;
  Bug bug;
};
constexpr BugName kBugs[] = {
    {"none", Bug::kNone},
    {"drop-release", Bug::kDropRelease},
    {"word-grain-merge", Bug::kWordGrainMerge},
    {"no-victim-twin", Bug::kNoVictimTwin},
    {"keep-lost-slot", Bug::kKeepLostSlot},
    {"no-overlay", Bug::kNoOverlay},
    {"dropped-wake", Bug::kDroppedWake},
    {"late-tick", Bug::kLateTick},
};

struct Options {
  std::uint64_t seeds = 1000, first = 1;
  bool one = false, trace = false, invariants = true;
  const BugName* bug = &kBugs[0];
};

struct Totals {
  std::uint64_t steps = 0, points = 0, steals = 0, threads = 0, faults = 0, diffs = 0;
};

struct Outcome {
  bool ok;
  std::string failure;
  std::uint64_t steps, points;
};

Shape draw_shape(Random& random, int* threads) {
  Shape s;
  s.processes = random.percent(15) ? 2 : random.between(3, kMaxProcesses);
  s.workers = random.percent(25) ? 1 : random.between(2, 3);
  *threads = random.between(6, static_cast<int>(kMaxSlots));
  if (random.percent(20)) *threads = random.between(3, 12);
  s.slots = static_cast<std::size_t>(*threads);
  s.heap_block = static_cast<std::size_t>(random.between(1, 3));
  s.heap_pages = static_cast<std::size_t>(random.between(2, static_cast<int>(kMaxHeapPages)));
  s.pressure = random.percent(15);
  // Limits small enough that each is reached.
  dsm::Limits& l = s.limits;
  l.run_pages = static_cast<std::uint32_t>(random.between(1, 6));
  l.first_run_pages = static_cast<std::uint32_t>(random.between(1, static_cast<int>(l.run_pages)));
  l.behind_pages = random.percent(60) ? static_cast<std::uint32_t>(random.between(1, 6)) : 1000;
  l.streamed_pages = static_cast<std::uint32_t>(random.between(1, 4));
  l.owned_run_pages = 4;
  l.owned_first_run_pages = static_cast<std::uint32_t>(random.between(1, 3));
  l.clean_pages =
      random.percent(40) ? static_cast<std::uint32_t>(random.between(4, 20)) : static_cast<std::uint32_t>(kMaxPages);
  l.dirty_pages =
      random.percent(30) ? static_cast<std::uint32_t>(random.between(4, 14)) : static_cast<std::uint32_t>(kMaxPages);
  l.few_dirty_pages = random.percent(40) ? 1 + random.below(8) : 1000;
  l.refresh_pages = random.percent(50) ? random.below(6) : 1000;
  l.few_clean_pages = random.percent(50) ? random.below(6) : 1000;
  l.refresh_age = static_cast<std::uint16_t>(random.between(1, 8));
  l.refresh_changes = static_cast<std::uint8_t>(random.between(1, 4));
  l.empty_releases = static_cast<std::uint32_t>(random.between(1, 5));
  return s;
}

class Simulation {
 public:
  Outcome run(std::uint64_t seed, const Options& options) {
    Random random(seed);
    int threads = 0;
    Shape shape = draw_shape(random, &threads);
    shape.bug = options.bug->bug;
    shape.trace = options.trace;
    shape.invariants = options.invariants;
    const Program program = make_program(random, shape, threads);
    scheduler_.reset(random.next(), kStepLimit);
    machine_.reset(shape);
    Runtime runtime(machine_);
    const bool ok = runtime.run(program);
    totals_.steps += scheduler_.steps();
    totals_.points += scheduler_.points();
    totals_.steals += runtime.steals();
    totals_.threads += program.threads.size();
    for (int p = 0; p < shape.processes; ++p) {
      const dsm::Counters& c = machine_.coherence().process(p).counters;
      totals_.faults += c.read_faults + c.write_faults;
      totals_.diffs += c.diffs_sent;
    }
    if (options.trace)
      std::printf("%d processes x %d workers, %zu threads\n", shape.processes, shape.workers, program.threads.size());
    return {ok, scheduler_.failure(), scheduler_.steps(), scheduler_.points()};
  }
  const Totals& totals() const noexcept { return totals_; }

 private:
  Scheduler scheduler_;
  Machine machine_{scheduler_};
  Totals totals_;
};

void report(const char* program, std::uint64_t seed, const Outcome& o, const Options& options) {
  std::printf("seed %" PRIu64 ": %s (step %" PRIu64 ")\n", seed, o.failure.c_str(), o.steps);
  std::printf("replay: %s --seed %" PRIu64 " --trace", program, seed);
  if (options.bug->bug != Bug::kNone) std::printf(" --bug %s", options.bug->name);
  if (!options.invariants) std::printf(" --no-invariants");
  std::printf("\n");
}

// All seeds must pass. One that fails ends the test.
int hunt(const char* program, const Options& options) {
  Simulation simulation;
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t seed = options.first; seed < options.first + options.seeds; ++seed) {
    const Outcome o = simulation.run(seed, options);
    if (!o.ok) {
      report(program, seed, o, options);
      return 1;
    }
  }
  const Totals& t = simulation.totals();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%" PRIu64 " seeds passed in %.1f s: %" PRIu64 " threads, %" PRIu64 " steals between processes, %" PRIu64
              " faults, %" PRIu64 " diffs, %" PRIu64 " scheduling points, %" PRIu64 " switches\n",
              options.seeds, took.count(), t.threads, t.steals, t.faults, t.diffs, t.points, t.steps);
  return 0;
}

// A planted bug must be caught within the seeds, and its seed must fail again in the same way, on a fresh machine too.
int mutate(const char* program, const Options& options) {
  Simulation simulation;
  for (std::uint64_t seed = options.first; seed < options.first + options.seeds; ++seed) {
    const Outcome o = simulation.run(seed, options);
    if (o.ok) continue;
    report(program, seed, o, options);
    Simulation fresh;
    for (Simulation* again : {&simulation, &fresh}) {
      const Outcome r = again->run(seed, options);
      if (r.ok || r.failure != o.failure || r.steps != o.steps || r.points != o.points) {
        std::printf("seed %" PRIu64 " does not replay: %s (step %" PRIu64 ")\n", seed, r.failure.c_str(), r.steps);
        return 1;
      }
    }
    std::printf("%s: caught after %" PRIu64 " seeds, replayed\n", options.bug->name, seed - options.first + 1);
    return 0;
  }
  std::printf("%s: not caught in %" PRIu64 " seeds\n", options.bug->name, options.seeds);
  return 1;
}

int usage() {
  std::fprintf(
      stderr, "usage: sim_protocol [--seeds N] [--first S] [--seed S] [--trace] [--no-invariants] [--bug NAME]\nbugs:");
  for (const BugName& b : kBugs) std::fprintf(stderr, " %s", b.name);
  std::fprintf(stderr, "\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--trace") {
      options.trace = true;
      continue;
    }
    if (option == "--no-invariants") {
      options.invariants = false;
      continue;
    }
    if (i + 1 == argc) return usage();
    const char* value = argv[++i];
    if (option == "--bug") {
      options.bug = nullptr;
      for (const BugName& b : kBugs)
        if (std::strcmp(b.name, value) == 0) options.bug = &b;
      if (options.bug == nullptr) return usage();
      continue;
    }
    char* end = nullptr;
    const std::uint64_t number = std::strtoull(value, &end, 10);
    if (*value == '\0' || *end != '\0') return usage();
    if (option == "--seeds")
      options.seeds = number;
    else if (option == "--first")
      options.first = number;
    else if (option == "--seed")
      options.one = true, options.first = number, options.seeds = 1;
    else
      return usage();
  }
  if (options.bug->bug != Bug::kNone && !options.one) return mutate(argv[0], options);
  return hunt(argv[0], options);
}

}  // namespace ayatori::sim

int main(int argc, char** argv) { return ayatori::sim::main(argc, argv); }
