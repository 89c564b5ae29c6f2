// SPDX-License-Identifier: Apache-2.0
// The JSON file: document_head (kind "net") and {"repetitions", "point_ms", "window", "clock", "clock_read_ns",
// "series": [{"transport", "operation", "quantity", "unit", "processes", "threads", "bytes", "median", "lower_quartile",
// "upper_quartile", "repetitions": [value...]}], "fits": [{"transport", "operation", "L_ns", "o_ns", "g_ns",
// "G_ns_per_byte", "latency_residual", "gap_residual"}]}; and the parameters for the simulation.
#include "base/format.hpp"
#include "driver/json.hpp"
#include "driver/process.hpp"
#include "net/sim/params.hpp"
#include "report.hpp"

namespace bench {

bool write_json(const std::string& path, const Report& report) {
  constexpr int kInfoTimeout_s = 30;
  const Options& options = report.options;
  const auto transport = [&options](int variant) { return options.variants[static_cast<std::size_t>(variant)]->name; };
  Json json = document_head("net", run({{launcher_path(), "info", "--json"}}, kInfoTimeout_s).out, options.quick);
  json["repetitions"] = options.repetitions;
  json["point_ms"] = options.point_ms;
  json["window"] = options.window;
  json["clock"] = report.clock.source();
  json["clock_read_ns"] = report.clock.read_ns();
  json["series"] = Json::array();
  for (const auto& [key, values] : report.series.all()) {
    const Summary summary = *report.series.summary(key);
    json["series"].push_back({{"transport", transport(key.variant)},
                              {"operation", name_of(key.operation)},
                              {"quantity", name_of(key.quantity)},
                              {"unit", "ns"},
                              {"processes", key.processes},
                              {"threads", key.threads},
                              {"bytes", key.bytes},
                              {"median", summary.median},
                              {"lower_quartile", summary.lower},
                              {"upper_quartile", summary.upper},
                              {"repetitions", values}});
  }
  json["fits"] = Json::array();
  for (const NamedFit& named : report.fits) {
    if (!named.fit) continue;
    json["fits"].push_back({{"transport", transport(named.variant)},
                            {"operation", name_of(named.operation)},
                            {"L_ns", named.fit->latency_ns},
                            {"o_ns", named.fit->overhead_ns},
                            {"g_ns", named.fit->gap_ns},
                            {"G_ns_per_byte", named.fit->gap_per_byte_ns},
                            {"latency_residual", named.fit->latency_residual},
                            {"gap_residual", named.fit->gap_residual}});
  }
  return write_text(path, json);
}

bool write_sim_params(const std::string& path, const Report& report) {
  for (const NamedFit& named : report.fits) {
    if (named.operation != Operation::kRoundTrip || !named.fit) continue;
    const std::string text = base::formatted(
        "# LogGP of active messages over {}, fitted by `ayatori bench net`; root mean square of the relative errors:\n"
        "# latencies {:.1f}%, gaps {:.1f}%\n{}",
        report.options.variants.front()->name, named.fit->latency_residual * 100, named.fit->gap_residual * 100,
        net::sim::sim_params_text(simulated(*named.fit)));
    return write_text(path, text);
  }
  return complain("--sim-params: LogGP needs active messages of two sizes or more (--sizes)");
}

}  // namespace bench
