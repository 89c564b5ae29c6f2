// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "system.hpp"

namespace ayatori::tool {
namespace {

namespace boot = net::bootstrap;
using Json = nlohmann::ordered_json;

using Row = StatsRow;

Row total_of(const std::vector<Row>& rows) {
  Row total{};
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) total[i] += row[i];
  return total;
}

void add_counters(Json& object, const Row& row) {
  for (std::size_t i = 0; i < row.size(); ++i) object[boot::kStatNames[i]] = row[i];
}

int write_json(const std::vector<Row>& rows, const std::string& program, const std::string& file) {
  Json json = {{"schema", 1}, {"program", program}, {"processes", Json::array()}};
  for (std::size_t process = 0; process < rows.size(); ++process) {
    Json object = {{"id", process}};
    add_counters(object, rows[process]);
    json["processes"].push_back(std::move(object));
  }
  json["total"] = Json::object();
  add_counters(json["total"], total_of(rows));
  std::FILE* const out = std::fopen(file.c_str(), "we");
  if (out == nullptr) return fail(kExitStart, "--stats={}: {}", file, error_text(errno));
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  if (std::fclose(out) != 0 || !written) return fail(kExitStart, "--stats={}: {}", file, error_text(errno));
  return 0;
}

// Counts in full, times in milliseconds; with many processes only the totals and extremes fit a line.
void print_table(const std::vector<Row>& rows, const std::string& program) {
  constexpr std::size_t kColumnsMax = 8;
  const Row total = total_of(rows);
  const bool each = rows.size() > 1 && rows.size() <= kColumnsMax;
  std::string text =
      base::formatted("ayatori: statistics of {} ({} process{})\n", program, rows.size(), rows.size() == 1 ? "" : "es");
  text += base::formatted("  {:<16}{:>16}", "", "total");
  if (each)
    for (std::size_t process = 0; process < rows.size(); ++process)
      text += base::formatted("{:>14}", base::formatted("[{}]", process));
  else if (rows.size() > 1)
    text += base::formatted("{:>14}{:>14}", "least", "most");
  text += '\n';
  for (std::size_t i = 0; i < boot::kStats; ++i) {
    const std::string_view name = boot::kStatNames[i];
    const bool is_time = name.ends_with("_ns");
    const auto value = [&](std::uint64_t v) {
      return is_time ? base::formatted("{:.1f} ms", static_cast<double>(v) / 1e6) : base::formatted("{}", v);
    };
    text += base::formatted("  {:<16}{:>16}", is_time ? name.substr(0, name.size() - 3) : name, value(total[i]));
    std::uint64_t least = rows[0][i];
    std::uint64_t most = rows[0][i];
    for (const Row& row : rows) {
      if (each) text += base::formatted("{:>14}", value(row[i]));
      least = std::min(least, row[i]);
      most = std::max(most, row[i]);
    }
    if (rows.size() > kColumnsMax) text += base::formatted("{:>14}{:>14}", value(least), value(most));
    text += '\n';
  }
  std::fputs(text.c_str(), stderr);
}

}  // namespace

int check_stats_file(const std::string& file) {
  if (file.empty()) return 0;
  const Fd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  return fd ? 0 : fail(kExitStart, "--stats={}: {}", file, error_text(errno));
}

std::vector<Row> stats_of(const boot::JobControl& control) {
  std::vector<Row> rows(static_cast<std::size_t>(control.process_count));
  for (int process = 0; process < control.process_count; ++process) {
    // acquire: pairs with publish_stats()
    if (control.members[process].stats_written.load(std::memory_order_acquire) == 0) continue;
    for (std::size_t i = 0; i < boot::kStats; ++i)
      rows[static_cast<std::size_t>(process)][i] = control.stats[process][i].load(std::memory_order_relaxed);
  }
  return rows;
}

int report_stats(const std::vector<Row>& rows, const std::string& program, const std::string& file) {
  if (!file.empty()) return write_json(rows, program, file);
  print_table(rows, program);
  return 0;
}

}  // namespace ayatori::tool
