// SPDX-License-Identifier: Apache-2.0
// The JSON file: {"schema": 1, "kind", "date", "quick", "machine", "series": [{"benchmark", "metric", "unit", "median",
// "repetitions": [[sample...]...]}], "bars": [{"name", "measured", "limit", "unit", "side", "kept", "how"}]}.
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "results.hpp"

namespace bench {
namespace {

bool complain_of(const std::string& path) {
  std::fprintf(stderr, "ayatori-bench: %s: %s\n", path.c_str(), std::strerror(errno));
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

bool write_json(const std::string& path, const Document& document) {
  using Json = nlohmann::ordered_json;
  const auto number = [](double value) { return std::isnan(value) ? Json(nullptr) : Json(value); };
  char date[32];
  const time_t now = time(nullptr);
  tm utc;
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  Json json = {{"schema", 1}, {"kind", document.kind}, {"date", date}, {"quick", document.quick}};
  Json machine = Json::parse(document.machine, nullptr, false);
  json["machine"] = machine.is_discarded() ? Json(nullptr) : std::move(machine);
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
  std::FILE* const file = std::fopen(path.c_str(), "we");
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) written &= std::fclose(file) == 0;
  return written || complain_of(path);
}

}  // namespace bench
