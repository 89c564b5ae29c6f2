// SPDX-License-Identifier: Apache-2.0
// shm_bars: do the bars of the shared-memory transport hold? Prints each bar, its limit, what was measured and the verdict;
// docs/performance.md says what the bars mean.
//
//   shm_bars [--rounds=N] [--json=FILE]     status 0: all kept, 1: one is missed, 2: bad arguments, 3: not measured
//
// A round measures everything once, in processes of its own; what is compared takes turns within a round or, of different
// programs, within a round one after the other. A bar's value is the median of its rounds. On a machine with other load:
// `chrt -f 1 shm_bars` (root), which takes the two CPUs for the pair's turns; threads and idle processes are ordinary ones.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "job.hpp"
#include "measure.hpp"

namespace {

using Json = nlohmann::ordered_json;

constexpr double kGasnetNs = 780;  // AM round trip of GASNet-EX's smp conduit, measured on a machine of this kind

struct Bar {
  const char* name;
  double limit;
  const char* unit;
  std::vector<double> values = {};  // of each round; kept: at most the limit
};

struct Bars {
  Bar read{"8-byte read with a callback / the bare call", 1.3, ""};
  Bar write{"8-byte write with a callback / the bare call", 1.3, ""};
  Bar get{"8-byte read / UCX's get in memory that it allocated", 1, ""};
  Bar put{"8-byte write / UCX's put in memory that it allocated", 1, ""};
  Bar ucx{"active message there and back / UCX's", 0.6, ""};
  Bar gasnet{"active message there and back / GASNet-EX's 0.78 us", 0.6, ""};
  Bar barrier{"barrier of 2 processes", 0.4, "us"};
  Bar burn{"CPU of 8 processes asleep / one core", 0.05, ""};
  Bar answer{"RPC to one of 8 processes asleep", 100, "us"};
  Bar threads{"read overhead o, 1 to 16 threads: highest / lowest", 1.2, ""};
  // Not bars: what they were made of.
  Bar flag{"a line there and back", 0, "us"}, rpc{"active message there and back", 0, "us"}, ucx_us{"UCX's", 0, "us"};
  Bar read_ns{"8-byte read", 0, "ns"}, get_ns{"UCX's get", 0, "ns"};
  Bar write_ns{"8-byte write", 0, "ns"}, put_ns{"UCX's put", 0, "ns"};

  std::vector<Bar*> all() { return {&read, &write, &get, &put, &ucx, &gasnet, &barrier, &burn, &answer, &threads}; }
  std::vector<Bar*> others() { return {&flag, &rpc, &ucx_us, &read_ns, &get_ns, &write_ns, &put_ns}; }
};

bool measure_round(Bars& bars) {
  const std::optional<bars::Pair> pair = bars::measure_pair();
  const std::optional<bars::Ucx> ucx = bars::measure_ucx();
  const std::optional<bars::Idle> idle = bars::measure_idle();
  const std::optional<bars::Threads> threads = bars::measure_threads();
  if (!pair || !idle || !threads) return false;
  bars.read.values.push_back(pair->read_ratio);
  bars.write.values.push_back(pair->write_ratio);
  bars.read_ns.values.push_back(pair->read_ns);
  bars.write_ns.values.push_back(pair->write_ns);
  if (ucx) {
    bars.ucx.values.push_back(pair->rpc_ns / ucx->rpc_ns);
    bars.ucx_us.values.push_back(ucx->rpc_ns / 1000);
    bars.get.values.push_back(pair->read_ns / ucx->get_ns);
    bars.get_ns.values.push_back(ucx->get_ns);
    bars.put.values.push_back(pair->write_ns / ucx->put_ns);
    bars.put_ns.values.push_back(ucx->put_ns);
  }
  bars.gasnet.values.push_back(pair->rpc_ns / kGasnetNs);
  bars.barrier.values.push_back(pair->barrier_ns / 1000);
  bars.burn.values.push_back(idle->burn);
  bars.answer.values.push_back(idle->answer_us);
  const auto [low, high] = std::minmax_element(std::begin(threads->read_ns), std::end(threads->read_ns));
  bars.threads.values.push_back(*high / *low);
  bars.flag.values.push_back(pair->flag_ns / 1000);
  bars.rpc.values.push_back(pair->rpc_ns / 1000);
  return true;
}

const char* verdict(const Bar& bar) {
  if (bar.values.empty()) return "not measured";
  return bars::median(bar.values) <= bar.limit ? "kept" : "missed";
}

void print(const Bar& bar, bool is_bar) {
  if (bar.values.empty()) {
    std::printf("%-54s %8s %28s  %s\n", bar.name, "", "", verdict(bar));
    return;
  }
  const auto [low, high] = std::minmax_element(bar.values.begin(), bar.values.end());
  char limit[32] = "", measured[64];
  if (is_bar) std::snprintf(limit, sizeof limit, "<= %g", bar.limit);
  std::snprintf(measured, sizeof measured, "%.3f [%.3f %.3f] %s", bars::median(bar.values), *low, *high, bar.unit);
  std::printf("%-54s %8s %28s  %s\n", bar.name, limit, measured, is_bar ? verdict(bar) : "");
}

Json json_of(const Bar& bar, bool is_bar) {
  Json json{{"name", bar.name}, {"unit", bar.unit}, {"rounds", bar.values}};
  if (!bar.values.empty()) json["median"] = bars::median(bar.values);
  if (is_bar) json["limit"] = bar.limit;
  if (is_bar) json["verdict"] = verdict(bar);
  return json;
}

bool write_json(const char* path, Bars& bars) {
  Json json{{"schema", 1}, {"kind", "shm_bars"}, {"bars", Json::array()}, {"others", Json::array()}};
  for (const Bar* bar : bars.all()) json["bars"].push_back(json_of(*bar, true));
  for (const Bar* bar : bars.others()) json["others"].push_back(json_of(*bar, false));
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  file.flush();
  if (!file) std::fprintf(stderr, "shm_bars: cannot write %s\n", path);
  return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 7;
  const char* json = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--rounds=", 9) == 0) {
      rounds = std::atoi(argv[i] + 9);
    } else if (std::strncmp(argv[i], "--json=", 7) == 0 && argv[i][7] != '\0') {
      json = argv[i] + 7;
    } else {
      rounds = 0;
    }
  }
  if (rounds < 1 || rounds > 1000) {
    std::fprintf(stderr, "usage: shm_bars [--rounds=1..1000] [--json=FILE]\n");
    return 2;
  }
  Bars bars;
  for (int round = 0; round < rounds; ++round) {
    if (measure_round(bars)) continue;
    std::fprintf(stderr, "shm_bars: a job of round %d failed\n", round + 1);
    return 3;
  }
  std::printf("%d rounds: median [lowest highest]\n", rounds);
  for (const Bar* bar : bars.all()) print(*bar, true);
  for (const Bar* bar : bars.others()) print(*bar, false);
  if (json != nullptr && !write_json(json, bars)) return 3;
  int status = 0;
  for (const Bar* bar : bars.all()) {
    if (bar->values.empty() && status == 0) status = 3;
    if (!bar->values.empty() && bars::median(bar->values) > bar->limit) status = 1;
  }
  return status;
}
