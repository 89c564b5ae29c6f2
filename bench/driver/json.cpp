// SPDX-License-Identifier: Apache-2.0
// The JSON file of benchmarks and bars: {"schema": 1, "kind", "date", "quick", "machine", "series": [{"benchmark", "metric", "unit", "median",
// "repetitions": [[sample...]...]}], "bars": [{"name", "measured", "limit", "unit", "side", "kept", "how"}]}.
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "json.hpp"
#include "results.hpp"

namespace bench {
namespace {

bool complain_of(const std::string& path) {
  std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, path.c_str(), std::strerror(errno));
  return false;
}

}  // namespace

bool can_write(const std::string& path) {
  struct stat entry{};
  const bool is_there = lstat(path.c_str(), &entry) == 0;
  std::FILE* const file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) return complain_of(path);
  std::fclose(file);
  if (!is_there) unlink(path.c_str());
  return true;
}

bool write_text(const std::string& path, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), "we");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) written &= std::fclose(file) == 0;
  return written || complain_of(path);
}

bool write_text(const std::string& path, const Json& json) {
  return write_text(path, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

Json number(double value) { return std::isnan(value) ? Json(nullptr) : Json(value); }

Json document_head(const std::string& kind, const std::string& machine_text, bool quick) {
  char date[32];
  const time_t now = time(nullptr);
  tm utc;
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  Json machine = Json::parse(machine_text, nullptr, false);
  if (machine.is_discarded()) machine = nullptr;
  return {{"schema", 1}, {"kind", kind}, {"date", date}, {"quick", quick}, {"machine", std::move(machine)}};
}

bool write_json(const std::string& path, const Document& document) {
  Json json = document_head(document.kind, document.machine, document.quick);
  json["series"] = Json::array();
  for (const Series& series : document.results->all())
    json["series"].push_back({{"benchmark", series.benchmark},
                              {"metric", series.metric},
                              {"unit", series.unit},
                              {"median", number(series.middle())},
                              {"repetitions", series.repetitions}});
  if (document.bars != nullptr) {
    json["bars"] = Json::array();
    for (const Bar& bar : *document.bars)
      json["bars"].push_back({{"name", bar.name},
                              {"measured", number(bar.measured)},
                              {"limit", bar.limit},
                              {"unit", bar.unit},
                              {"side", bar.side == Side::kAtMost ? "at most" : "at least"},
                              {"kept", bar.kept()},
                              {"how", bar.how}});
  }
  return write_text(path, json);
}

}  // namespace bench
