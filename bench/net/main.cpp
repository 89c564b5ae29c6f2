// SPDX-License-Identifier: Apache-2.0
// ayatori-bench-net: what `ayatori bench net` becomes. Thesis 4.6: latency, overhead and message rate of a transport
// against message size and number of requester threads, and the LogGP parameters that follow (2.1).
//
// Within a repetition each transport has one job of two processes, which measures everything between two, and one for
// each larger number of processes, for the collectives: what disturbs the machine, and where the kernel places
// processes, differs between repetitions and not between transports.
#include <cstdio>

#include "driver/process.hpp"
#include "job.hpp"
#include "report.hpp"

namespace {

using namespace bench;

Plan plan_of(const Options& options, int processes) {
  Plan plan;
  plan.collective_points = collective_points();
  plan.bytes_max = options.sizes.front();
  if (processes == 2) {
    plan.pair_points = pair_points(options.sizes, options.threads);
    plan.bytes_max = options.sizes.back();
    plan.threads_max = options.threads.back();
  }
  plan.point_ns = options.point_ms * 1e6;
  plan.window = static_cast<std::size_t>(options.window);
  return plan;
}

// -1, or the exit status after a message.
int measure(const Options& options, const Clock& clock, SeriesMap& series) {
  Interrupts interrupts;
  std::vector<int> jobs = {2};
  for (const int processes : options.processes)
    if (processes != 2) jobs.push_back(processes);
  for (int repetition = 1; repetition <= options.repetitions; ++repetition) {
    for (std::size_t v = 0; v < options.variants.size(); ++v) {
      for (const int processes : jobs) {
        const Variant& variant = *options.variants[v];
        const auto begins = [&](const Point& point) {
          progress(base::formatted("repetition {} of {}: {}, {} processes: {}", repetition, options.repetitions,
                                   variant.name, processes, text_of(point)));
        };
        const auto found = [&](const Point& point, Quantity quantity, double ns) {
          series.add({static_cast<int>(v), point.operation, quantity, processes, point.threads, point.bytes}, ns);
        };
        const base::Status status =
            run_job(variant, processes, plan_of(options, processes), clock, interrupts, begins, found);
        if (status && interrupts.taken() == 0) continue;
        progress("");
        if (const int signal_number = interrupts.taken()) return 128 + signal_number;
        complain(base::formatted("{}: {}", variant.name, status.message()));
        return kNotMeasured;
      }
    }
  }
  progress("");
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const int status = parse_options(argc, argv, options); status >= 0) return status;
  if (!options.plot.empty() && find_gnuplot().empty())
    complain(base::formatted(
        "gnuplot is not installed (Debian: gnuplot-nox): {} gets the data and plots.gp, no pictures", options.plot));
  const Clock clock;
  SeriesMap series;
  if (const int status = measure(options, clock, series); status >= 0) return status;
  const Report report{options, clock, series, fit_all(options, series)};
  print_tables(report);
  bool written = std::fflush(stdout) == 0;
  if (!options.json.empty()) written &= write_json(options.json, report);
  if (!options.sim_params.empty()) written &= write_sim_params(options.sim_params, report);
  if (!options.plot.empty()) written &= write_plots(options.plot, report);
  return written ? 0 : kNotMeasured;
}
