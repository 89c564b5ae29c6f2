// SPDX-License-Identifier: Apache-2.0
// Tables into a document, each between its two marks.
#include <time.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "driver.hpp"
#include "json.hpp"

namespace bench {

std::string machine_and_date() {
  std::string model = "unknown CPU";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name") || line.find(": ") == line.npos) continue;
    model = line.substr(line.find(": ") + 2);
    break;
  }
  char date[16];
  const time_t now = time(nullptr);
  tm parts;
  strftime(date, sizeof date, "%Y-%m-%d", localtime_r(&now, &parts));
  return std::string(date) + ", " + std::to_string(std::thread::hardware_concurrency()) + " CPUs (" + model + ")";
}

bool put_tables(const std::string& path, const std::vector<Table>& tables) {
  std::ifstream file(path);
  std::stringstream stream;
  stream << file.rdbuf();
  std::string text = stream.str();
  for (const Table& table : tables) {
    const std::string begin = "<!-- bench " + table.name + " -->\n", end = "<!-- /bench -->";
    const std::size_t first = text.find(begin);
    const std::size_t last = first == text.npos ? text.npos : text.find(end, first);
    if (last == text.npos) {
      std::fprintf(stderr, "ayatori-bench: %s has no place \"<!-- bench %s -->\"\n", path.c_str(), table.name.c_str());
      return false;
    }
    text.replace(first + begin.size(), last - first - begin.size(), "\n" + table.text + "\n");
  }
  return write_text(path, text);
}

}  // namespace bench
