// SPDX-License-Identifier: Apache-2.0
#include "doctor_report.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

#include "base/format.hpp"
#include "frames.hpp"

namespace ayatori::tool {
namespace {

constexpr std::array<const char*, 3> kMarks = {"ok", "warning", "problem"};

const char* word_of(Mark mark) { return kMarks[static_cast<std::size_t>(mark)]; }

int count_in(const std::vector<Check>& checks, Mark mark) {
  return static_cast<int>(
      std::count_if(checks.begin(), checks.end(), [mark](const Check& check) { return check.mark == mark; }));
}

std::array<std::string HostReport::*, 9> texts() {
  return {&HostReport::name,   &HostReport::version, &HostReport::binary, &HostReport::program, &HostReport::kernel,
          &HostReport::engine, &HostReport::diffs,   &HostReport::place,  &HostReport::address};
}

using Json = nlohmann::ordered_json;

Json json_of(const std::vector<Check>& checks) {
  Json list = Json::array();
  for (const Check& check : checks) {
    Json row = {{"name", check.name}, {"mark", word_of(check.mark)}, {"value", check.value}};
    if (!check.advice.empty()) row["advice"] = check.advice;
    list.push_back(std::move(row));
  }
  return list;
}

void add_lines(std::string& text, const std::vector<Check>& checks, bool all) {
  for (const Check& check : checks) {
    if (!all && check.mark == Mark::kOk) continue;
    text += base::formatted("  {:<9}{:<25} {}\n", word_of(check.mark), check.name, check.value);
    if (!check.advice.empty()) text += base::formatted("  {:<9}-> {}\n", "", check.advice);
  }
}

}  // namespace

std::string pack(const HostReport& report) {
  Packer packer;
  for (const auto field : texts()) packer.text(report.*field);
  packer.number(report.port).number(report.loopback_port).number(report.checks.size());
  for (const Check& check : report.checks)
    packer.text(check.name).number(static_cast<std::uint64_t>(check.mark)).text(check.value).text(check.advice);
  return packer.body();
}

std::optional<HostReport> unpack_host_report(std::string_view body) {
  Unpacker fields(body);
  HostReport report;
  for (const auto field : texts()) report.*field = fields.text();
  report.port = fields.number();
  report.loopback_port = fields.number();
  for (std::uint64_t left = fields.number(); left != 0 && fields.ok(); --left) {
    Check check;
    check.name = fields.text();
    const std::uint64_t mark = fields.number();
    if (mark >= kMarks.size()) return std::nullopt;
    check.mark = static_cast<Mark>(mark);
    check.value = fields.text();
    check.advice = fields.text();
    report.checks.push_back(std::move(check));
  }
  constexpr std::uint64_t kPortMax = 65535;
  if (!fields.ended() || report.port > kPortMax || report.loopback_port > kPortMax) return std::nullopt;
  return report;
}

int Diagnosis::count(Mark mark) const {
  int number = count_in(between, mark);
  for (const HostReport& host : hosts) number += count_in(host.checks, mark);
  return number;
}

std::string text_of(const Diagnosis& diagnosis, bool all) {
  std::string text;
  for (const HostReport& host : diagnosis.hosts) {
    text += base::formatted("{}{}{}\n", host.name, host.version.empty() ? "" : ": ayatori ", host.version);
    add_lines(text, host.checks, all);
    if (const int ok = count_in(host.checks, Mark::kOk); !all && ok != 0) text += base::formatted("  {} ok\n", ok);
    text += '\n';
  }
  if (!diagnosis.between.empty()) {
    text += "Between the hosts\n";
    add_lines(text, diagnosis.between, true);
    text += '\n';
  }
  const auto counted = [&diagnosis](Mark mark, const char* one, const char* many) {
    const int number = diagnosis.count(mark);
    return base::formatted("{} {}", number, number == 1 ? one : many);
  };
  return text + base::formatted("{}, {}, {}\n", counted(Mark::kOk, "ok", "ok"),
                                counted(Mark::kWarning, "warning", "warnings"),
                                counted(Mark::kProblem, "problem", "problems"));
}

std::string json_of(const Diagnosis& diagnosis) {
  Json json = {{"schema", 1},
               {"ok", diagnosis.count(Mark::kOk)},
               {"warnings", diagnosis.count(Mark::kWarning)},
               {"problems", diagnosis.count(Mark::kProblem)},
               {"hosts", Json::array()},
               {"between", json_of(diagnosis.between)}};
  for (const HostReport& host : diagnosis.hosts)
    json["hosts"].push_back({{"name", host.name}, {"version", host.version}, {"checks", json_of(host.checks)}});
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ayatori::tool
