// SPDX-License-Identifier: Apache-2.0
// The fits and the tables. Where one transport is measured a table's columns are operations, else transports.
#include <algorithm>
#include <cstdio>

#include "base/format.hpp"
#include "report.hpp"
#include "shown.hpp"

namespace bench {
namespace {

struct Row {
  std::string label;
  Key key;  // operation and variant are the column's
};
struct Column {
  std::string label;
  int variant;
  Operation operation;
};

std::string cell_of(const std::optional<Summary>& summary) {
  if (!summary) return "-";
  return base::formatted("{} [{} {}]", figure(summary->median), figure(summary->lower), figure(summary->upper));
}

void print_grid(const std::vector<std::vector<std::string>>& grid) {
  std::vector<std::size_t> widths(grid.front().size(), 0);
  for (const std::vector<std::string>& line : grid)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  for (const std::vector<std::string>& line : grid) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i)
      text += base::formatted("{}{:>{}}", i == 0 ? "" : "  ", line[i], widths[i]);
    std::printf("%s\n", text.c_str());
  }
  std::puts("");
}

void print_table(const SeriesMap& series, const std::string& title, const Shown& shown, const std::string& row_head,
                 const std::vector<Row>& rows, const std::vector<Column>& columns) {
  std::printf("%s, %s\n", title.c_str(), shown.unit);
  std::vector<std::vector<std::string>> grid(1, {row_head});
  for (const Column& column : columns) grid[0].push_back(base::formatted("{} [{}]", column.label, shown.unit));
  for (const Row& row : rows) {
    std::vector<std::string> line = {row.label};
    bool any = false;
    for (const Column& column : columns) {
      Key key = row.key;
      key.variant = column.variant;
      key.operation = column.operation;
      const std::optional<Summary> summary = summary_of(series, key, shown);
      any |= summary.has_value();
      line.push_back(cell_of(summary));
    }
    if (any) grid.push_back(std::move(line));
  }
  print_grid(grid);
}

// One table, or one an operation.
void print_tables_of(const Report& report, const std::string& title, const Shown& shown, const std::string& row_head,
                     const std::vector<Row>& rows, const std::vector<Operation>& operations) {
  const std::vector<const Variant*>& variants = report.options.variants;
  std::vector<Column> columns;
  if (variants.size() == 1) {
    for (const Operation operation : operations) columns.push_back({name_of(operation), 0, operation});
    return print_table(report.series, base::formatted("{}: {}", variants[0]->name, title), shown, row_head, rows,
                       columns);
  }
  for (const Operation operation : operations) {
    columns.clear();
    for (std::size_t v = 0; v < variants.size(); ++v)
      columns.push_back({variants[v]->name, static_cast<int>(v), operation});
    print_table(report.series, base::formatted("{}: {}", name_of(operation), title), shown, row_head, rows, columns);
  }
}

void print_fits(const Report& report) {
  std::puts("LogGP, L one way, o at the smallest size");
  std::vector<std::vector<std::string>> grid = {{"transport", "operation", "L [ns]", "o [ns]", "g [ns]", "G [ns/KiB]",
                                                 "latency residual [%]", "gap residual [%]"}};
  for (const NamedFit& named : report.fits) {
    std::vector<std::string> line = {report.options.variants[static_cast<std::size_t>(named.variant)]->name,
                                     name_of(named.operation)};
    if (const std::optional<LogGP>& fit = named.fit) {
      for (const double value : {fit->latency_ns, fit->overhead_ns, fit->gap_ns, fit->gap_per_byte_ns * 1024,
                                 fit->latency_residual * 100, fit->gap_residual * 100})
        line.push_back(figure(value));
    } else {
      line.resize(grid[0].size(), "-");
    }
    grid.push_back(std::move(line));
  }
  print_grid(grid);
  std::puts(
      "  read, write: latency = 2 L + o + G s; active message: there and back 2 L + 2 o + 2 G s, the receiver's "
      "overhead being part of L; gap = g + G s.\n"
      "  Least squares of relative errors over latencies and gaps together, none of L, g, G negative; the residual is\n"
      "  the root mean square of these errors.\n");
}

}  // namespace

std::vector<NamedFit> fit_all(const Options& options, const SeriesMap& series) {
  struct Path {
    Operation latency, gap;
    PathShape shape;
  };
  constexpr Path kPaths[] = {{Operation::kRead, Operation::kRead, kOneSidedPath},
                             {Operation::kWrite, Operation::kWrite, kOneSidedPath},
                             {Operation::kRoundTrip, Operation::kMessage, kRoundTripPath}};
  std::vector<NamedFit> fits;
  for (std::size_t v = 0; v < options.variants.size(); ++v) {
    for (const Path& path : kPaths) {
      std::vector<Observation> latencies, gaps;
      Key key{static_cast<int>(v),     path.latency,         Quantity::kOverhead, 2,
              options.threads.front(), options.sizes.front()};
      const std::optional<double> overhead_ns = series.median(key);
      for (const std::size_t bytes : options.sizes) {
        key.bytes = bytes;
        key.operation = path.latency;
        key.quantity = Quantity::kLatency;
        const auto latency_ns = series.median(key);
        key.operation = path.gap;
        key.quantity = Quantity::kGap;
        const auto gap_ns = series.median(key);
        if (!latency_ns || !gap_ns) continue;  // a long message, which travels in another way
        latencies.push_back({static_cast<double>(bytes), *latency_ns});
        gaps.push_back({static_cast<double>(bytes), *gap_ns});
      }
      fits.push_back({static_cast<int>(v), path.latency,
                      overhead_ns ? fit_loggp(path.shape, *overhead_ns, latencies, gaps) : std::nullopt});
    }
  }
  return fits;
}

void print_tables(const Report& report) {
  const Options& options = report.options;
  std::printf(
      "Medians [quartiles] of %d repetition%s, %d ms a point and thread, at most %d requests under way a thread; %s,\n"
      "whose own %.1f ns are subtracted%s\n\n",
      options.repetitions, options.repetitions == 1 ? "" : "s", options.point_ms, options.window, report.clock.source(),
      report.clock.read_ns(), options.quick ? "; quick: the figures mean nothing" : "");
  std::vector<Row> sizes, threads, words, barriers, reductions;
  for (const std::size_t bytes : options.sizes)
    sizes.push_back({bytes_text(bytes), {0, {}, {}, 2, options.threads.front(), bytes}});
  for (const int count : options.threads) {
    threads.push_back({std::to_string(count), {0, {}, {}, 2, count, options.sizes.front()}});
    words.push_back({std::to_string(count), {0, {}, {}, 2, count, 8}});
  }
  for (const int count : options.processes) {
    barriers.push_back({std::to_string(count), {0, {}, {}, count, 1, 0}});
    reductions.push_back({std::to_string(count), {0, {}, {}, count, 1, 8}});
  }
  const std::string of_one =
      base::formatted("{} requester thread{}", options.threads.front(), options.threads.front() == 1 ? "" : "s");
  const auto of = [](const Shown& shown, const std::string& what) {
    return base::formatted("{}, {}", shown.name, what);
  };
  using enum Operation;
  const std::vector<Operation> pings = {kRead, kWrite, kRoundTrip}, floods = {kRead, kWrite, kMessage};
  for (const Shown& shown : {kLatency, kOverhead})
    print_tables_of(report, of(shown, of_one), shown, "size", sizes, pings);
  for (const Shown& shown : {kRate, kBandwidth})
    print_tables_of(report, of(shown, of_one), shown, "size", sizes, floods);
  const std::string small = bytes_text(options.sizes.front());
  for (const Shown& shown : {kLatency, kOverhead})
    print_tables_of(report, of(shown, small), shown, "threads", threads, {kRead, kRoundTrip});
  print_tables_of(report, of(kRate, small), kRate, "threads", threads, {kRead, kMessage});
  for (const Shown& shown : {kLatency, kOverhead, kRate})
    print_tables_of(report, of(shown, "8 B"), shown, "threads", words, {kFetchAdd, kCompareSwap});
  print_tables_of(report, "collectives", kLatency, "processes", barriers, {kBarrier});
  print_tables_of(report, "collectives of 8 B", kLatency, "processes", reductions, {kAllreduce});
  print_fits(report);
}

}  // namespace bench
