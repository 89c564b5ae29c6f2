// SPDX-License-Identifier: Apache-2.0
// The figures of thesis 4.7: a data file each, in blocks of "TITLE", then lines of x, median and quartiles; plots.gp,
// which draws all of them in the folder where it lies; the pictures, where gnuplot is installed.
#include <algorithm>
#include <cstdio>

#include "base/format.hpp"
#include "driver/json.hpp"
#include "driver/process.hpp"
#include "report.hpp"
#include "shown.hpp"

namespace bench {
namespace {

constexpr int kGnuplotTimeout_s = 300;

enum class Axis { kBytes, kThreads };

struct Figure {
  const char* file;
  const char* title;
  Shown shown;
  Axis axis;
  std::vector<Operation> operations;
};

std::vector<Figure> figures() {
  using enum Operation;
  using enum Axis;
  return {
      {"latency", "Latency of reads", kLatency, kBytes, {kRead}},
      {"overhead", "Overhead of reads", kOverhead, kBytes, {kRead}},
      {"rate", "Message rate of reads", kRate, kBytes, {kRead}},
      {"bandwidth", "Bandwidth of reads", kBandwidth, kBytes, {kRead}},
      {"write", "Bandwidth of writes and active messages", kBandwidth, kBytes, {kWrite, kMessage}},
      {"round-trip", "Writes, and active messages there and back", kLatency, kBytes, {kWrite, kRoundTrip}},
      {"threads-overhead", "Overhead at the smallest size", kOverhead, kThreads, {kRead, kRoundTrip, kFetchAdd}},
      {"threads-rate", "Message rate at the smallest size", kRate, kThreads, {kRead, kMessage, kFetchAdd}},
  };
}

// A title line and a line for each x; "" when nothing was measured.
template <class Value, class KeyOf>
std::string block(const SeriesMap& series, const std::string& title, const Shown& shown,
                  const std::vector<Value>& values, KeyOf&& key_of) {
  std::string text;
  for (const Value& value : values)
    if (const std::optional<Summary> s = summary_of(series, key_of(value), shown))
      text += base::formatted("{} {} {} {}\n", value, s->median, s->lower, s->upper);
  return text.empty() ? text : base::formatted("\"{}\"\n{}\n\n", title, text);
}

std::vector<std::string> blocks_of(const Report& report, const Figure& figure) {
  const Options& options = report.options;
  std::vector<std::string> blocks;
  const auto add = [&blocks](std::string text) {
    if (!text.empty()) blocks.push_back(std::move(text));
  };
  for (std::size_t v = 0; v < options.variants.size(); ++v) {
    const int variant = static_cast<int>(v);
    for (const Operation operation : figure.operations) {
      std::string title = options.variants[v]->name;
      if (figure.operations.size() > 1) title += std::string(" ") + name_of(operation);
      const std::size_t small = operation == Operation::kFetchAdd ? 8 : options.sizes.front();
      if (figure.axis == Axis::kThreads) {
        add(block(report.series, title, figure.shown, options.threads,
                  [&](int threads) { return Key{variant, operation, {}, 2, threads, small}; }));
        continue;
      }
      for (const int threads : options.threads)
        add(block(report.series, base::formatted("{}, {} thread{}", title, threads, threads == 1 ? "" : "s"),
                  figure.shown, options.sizes,
                  [&](std::size_t bytes) { return Key{variant, operation, {}, 2, threads, bytes}; }));
    }
  }
  return blocks;
}

std::string commands_of(const Figure& figure, std::size_t blocks) {
  const bool by_bytes = figure.axis == Axis::kBytes;
  return base::formatted(
      "  set output '{0}.'.kind\n"
      "  set title '{1}'\n"
      "  set xlabel '{2}'\n"
      "  set ylabel '{3} [{4}]'\n"
      "  set format x '{5}'\n"
      "  plot for [i=0:{6}] '{0}.dat' index i using 1:2:3:4 with yerrorlines title columnheader(1)\n",
      figure.file, figure.title, by_bytes ? "message size" : "requester threads", figure.shown.name, figure.shown.unit,
      by_bytes ? "%.0b %BB" : "%.0f", blocks - 1);
}

}  // namespace

std::string find_gnuplot() {
  std::string path = run({{"/bin/sh", "-c", "command -v gnuplot"}}, kGnuplotTimeout_s).out;
  while (!path.empty() && path.back() == '\n') path.pop_back();
  return path;
}

bool write_plots(const std::string& folder, const Report& report) {
  std::string script =
      "# gnuplot plots.gp, in this folder, draws its .dat files again.\n"
      "set grid\n"
      "set key outside right\n"
      "set logscale x 2\n"
      "set logscale y\n"
      "set bars small\n"
      "do for [kind in 'svg png'] {\n"
      "  if (kind eq 'svg') { set terminal svg size 800,480 } else { set terminal pngcairo size 800,480 }\n";
  for (const Figure& figure : figures()) {
    const std::vector<std::string> blocks = blocks_of(report, figure);
    if (blocks.empty()) continue;
    std::string data;
    for (const std::string& block : blocks) data += block;
    if (!write_text(folder + "/" + figure.file + ".dat", data)) return false;
    script += commands_of(figure, blocks.size());
  }
  script += "}\n";
  if (!write_text(folder + "/plots.gp", script)) return false;
  const std::string gnuplot = find_gnuplot();
  if (gnuplot.empty()) return true;  // was told before the measurement
  const Outcome drawn =
      run({{"/bin/sh", "-c", "cd \"$1\" && exec \"$2\" plots.gp", "sh", folder, gnuplot}}, kGnuplotTimeout_s);
  if (drawn.ok()) return true;
  return complain(base::formatted("gnuplot ended with status {}: {}", drawn.status, drawn.err));
}

}  // namespace bench
