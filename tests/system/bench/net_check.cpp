// SPDX-License-Identifier: Apache-2.0
// bench_net_check JSON PARAMS: is that what `ayatori bench net --quick` should write, and do the parameters load?
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "net/sim/params.hpp"

namespace {

using Json = nlohmann::json;

bool good = true;
void expect(bool condition, const std::string& what) {
  if (condition) return;
  std::printf("wrong: %s\n", what.c_str());
  good = false;
}

void check_series(const Json& document) {
  std::map<std::string, std::set<int>> threads;  // by "operation quantity"
  std::map<std::string, std::set<int>> processes;
  std::map<std::string, std::set<std::size_t>> sizes;
  for (const Json& series : document.at("series")) {
    const std::string name = series.at("operation").get<std::string>() + " " + series.at("quantity").get<std::string>();
    expect(series.at("transport") == "shm" && series.at("unit") == "ns", name + ": transport or unit");
    const double median = series.at("median");
    expect(median >= 0 && (median > 0 || series.at("quantity") == "overhead"), name + ": median");
    expect(series.at("lower_quartile") <= median && median <= series.at("upper_quartile"), name + ": quartiles");
    expect(series.at("repetitions").size() == document.at("repetitions").get<std::size_t>(), name + ": repetitions");
    threads[name].insert(series.at("threads").get<int>());
    processes[name].insert(series.at("processes").get<int>());
    sizes[name].insert(series.at("bytes").get<std::size_t>());
  }
  const std::set<std::size_t> all = {8, 1024, 65536}, short_ones = {8, 1024}, word = {8};
  const std::set<int> both = {1, 2}, first = {1};
  const auto has = [&](const char* name, const std::set<std::size_t>& bytes, const std::set<int>& requesters) {
    expect(sizes[name] == bytes, std::string(name) + ": sizes");
    expect(threads[name] == requesters, std::string(name) + ": threads");
  };
  for (const char* const quantity : {"latency", "overhead", "gap"}) {
    has((std::string("read ") + quantity).c_str(), all, both);
    has((std::string("write ") + quantity).c_str(), all, first);
    has((std::string("fetch-add ") + quantity).c_str(), word, both);
    has((std::string("compare-swap ") + quantity).c_str(), word, both);
  }
  has("AM round trip latency", short_ones, both);
  has("AM round trip overhead", short_ones, both);
  has("AM gap", all, both);
  for (const char* const name : {"barrier latency", "allreduce latency"})
    expect(processes[name] == std::set<int>{2, 3}, std::string(name) + ": processes");
}

void check_fits(const Json& document) {
  std::set<std::string> operations;
  for (const Json& fit : document.at("fits")) {
    operations.insert(fit.at("operation").get<std::string>());
    for (const char* const name : {"L_ns", "o_ns", "g_ns", "G_ns_per_byte", "latency_residual", "gap_residual"})
      expect(fit.at(name).get<double>() >= 0, std::string("fit: ") + name);
  }
  expect(operations == std::set<std::string>{"read", "write", "AM round trip"}, "fits");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::ifstream file(argv[1]);
  const Json document = Json::parse(file);
  expect(document.at("schema") == 1 && document.at("kind") == "net" && document.at("quick") == true, "head");
  expect(document.at("machine").is_object(), "machine");
  expect(document.at("clock_read_ns").get<double>() >= 0 && !document.at("clock").empty(), "clock");
  check_series(document);
  check_fits(document);
  ayatori::net::sim::SimParams params;
  const auto status = ayatori::net::sim::load_sim_params(argv[2], &params);
  expect(status.ok(), status.message());
  expect(params.jitter_ns == 0, "jitter");
  return good ? 0 : 1;
}
