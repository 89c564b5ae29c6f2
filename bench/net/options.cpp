// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <CLI/CLI.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/format.hpp"
#include "base/knobs.hpp"
#include "driver/json.hpp"

namespace bench {
namespace {

constexpr std::size_t kSizeMin = 8, kSizeMax = 64 << 20;
constexpr int kThreadsMax = 64, kRepetitionsMax = 1000, kPointMsMax = 60'000, kWindowMax = 65'536;
constexpr int kRepetitions = 5, kPointMs = 20;

constexpr const char* kFooter =
    "\nLists are separated by commas. Times are medians over the repetitions, with the quartiles; variants take turns\n"
    "within each repetition, in processes of their own. Meant for a machine that does nothing else.\n"
    "Exit status: 0; 125 bad options; 3 something could not be measured or written; 130, 143, 129 after SIGINT, "
    "SIGTERM, SIGHUP.";

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    words.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return words;
}

std::optional<int> whole_number(const std::string& word, int min, int max) {
  int number = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (failure != std::errc{} || end != word.data() + word.size() || number < min || number > max) return std::nullopt;
  return number;
}

template <class Value>
void make_ascending(std::vector<Value>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

bool parse_numbers(const char* option, const std::string& list, int min, int max, std::vector<int>& numbers) {
  for (const std::string& word : split(list)) {
    const std::optional<int> number = whole_number(word, min, max);
    if (!number) return complain(base::formatted("{} takes numbers from {} to {}, not '{}'", option, min, max, word));
    numbers.push_back(*number);
  }
  make_ascending(numbers);
  return true;
}

bool parse_sizes(const std::string& list, std::vector<std::size_t>& sizes) {
  for (const std::string& word : split(list)) {
    const std::optional<std::uint64_t> bytes = base::parse_size(word);
    if (!bytes || *bytes < kSizeMin || *bytes > kSizeMax)
      return complain(base::formatted("--sizes takes bytes (8, 4K, 1M) from {} to {}, not '{}'", kSizeMin,
                                      base::size_text(kSizeMax), word));
    sizes.push_back(*bytes);
  }
  make_ascending(sizes);
  return true;
}

bool parse_variants(const std::string& list, std::vector<const Variant*>& chosen) {
  if (list.empty()) {
    for (const Variant& variant : variants())
      if (!variant.only_if_named) chosen.push_back(&variant);
    return true;
  }
  for (const std::string& word : split(list)) {
    const Variant* const variant = find_variant(word);
    if (variant == nullptr) {
      std::string names;
      for (const Variant& known : variants()) names += (names.empty() ? "" : ", ") + std::string(known.name);
      return complain(base::formatted("no transport is named '{}'; there are: {}", word, names));
    }
    if (std::find(chosen.begin(), chosen.end(), variant) == chosen.end()) chosen.push_back(variant);
  }
  return true;
}

bool make_folder(const std::string& path) {
  struct stat entry{};
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
    return complain(base::formatted("--plot={}: {}", path, std::strerror(errno)));
  if (stat(path.c_str(), &entry) != 0 || !S_ISDIR(entry.st_mode) || access(path.c_str(), W_OK) != 0)
    return complain(base::formatted("--plot={}: not a folder that can be written to", path));
  return true;
}

// What may be tried without leaving anything behind comes first; the folder last.
bool can_write_all(const Options& options) {
  for (const std::string& path : {options.json, options.sim_params})
    if (!path.empty() && !can_write(path)) return false;
  return options.plot.empty() || make_folder(options.plot);
}

}  // namespace

bool complain(const std::string& text) {
  const std::string line = "ayatori bench net: " + text + "\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
  return false;
}

int parse_options(int argc, char** argv, Options& options) {
  std::string transports, processes, threads, sizes, repetitions, time, window;
  std::string known;
  for (const Variant& variant : variants()) known += base::formatted("{}: {}; ", variant.name, variant.what);
  known.resize(known.size() - 2);

  CLI::App app(
      "Measure the transports between processes of this machine: latency, overhead, message rate and bandwidth "
      "against size and requester threads, collectives, and the LogGP parameters that follow");
  app.name("ayatori bench net");
  app.footer(kFooter);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--transport", transports, base::formatted("what is compared [all but ucx] ({})", known))
      ->type_name("LIST");
  app.add_option("--processes", processes, "of the collectives [2,4]; all else is between two")->type_name("LIST");
  app.add_option("--threads", threads, "requesters in one process [1,2,4,8,16]")->type_name("LIST");
  app.add_option("--sizes", sizes, "of messages [powers of two from 8 to 4M]")->type_name("LIST");
  app.add_option("--repetitions", repetitions, base::formatted("jobs of each transport [{}]", kRepetitions))
      ->type_name("N");
  app.add_option("--time", time, base::formatted("measure each point so long [{}]", kPointMs))->type_name("MS");
  app.add_option("--window", window, base::formatted("requests under way a thread, for rates [{}]", options.window))
      ->type_name("N");
  app.add_option("--json", options.json, "all values as JSON")->type_name("FILE");
  app.add_option("--plot", options.plot, "data, gnuplot script and pictures (PNG, SVG)")->type_name("FOLDER");
  app.add_option("--sim-params", options.sim_params, "the messages' LogGP parameters, for the simulated network")
      ->type_name("FILE");
  app.add_flag("--quick", options.quick,
               "few sizes, one short repetition: does everything run? The figures mean nothing");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    complain(error.what());
    return kBadArguments;
  }

  if (processes.empty()) processes = options.quick ? "2,3" : "2,4";
  if (threads.empty()) threads = options.quick ? "1,2" : "1,2,4,8,16";
  if (sizes.empty() && options.quick) sizes = "8,1K,64K";
  if (!parse_variants(transports, options.variants) ||
      !parse_numbers("--processes", processes, 2, net::kMaxProcesses, options.processes) ||
      !parse_numbers("--threads", threads, 1, kThreadsMax, options.threads))
    return kBadArguments;
  if (sizes.empty())
    for (std::size_t bytes = 8; bytes <= 4 << 20; bytes *= 2) options.sizes.push_back(bytes);
  else if (!parse_sizes(sizes, options.sizes))
    return kBadArguments;
  struct Number {
    const char* option;
    const std::string& text;
    int max;
    int by_default;
    int& value;
  };
  for (const Number& n :
       {Number{"--repetitions", repetitions, kRepetitionsMax, options.quick ? 1 : kRepetitions, options.repetitions},
        Number{"--time", time, kPointMsMax, options.quick ? 1 : kPointMs, options.point_ms},
        Number{"--window", window, kWindowMax, options.window, options.window}}) {
    const std::optional<int> number = n.text.empty() ? n.by_default : whole_number(n.text, 1, n.max);
    if (!number) {
      complain(base::formatted("{} takes 1 to {}, not '{}'", n.option, n.max, n.text));
      return kBadArguments;
    }
    n.value = *number;
  }
  if (!options.sim_params.empty() && options.variants.size() != 1) {
    complain("--sim-params takes one transport: name it with --transport");
    return kBadArguments;
  }
  return can_write_all(options) ? -1 : kBadArguments;
}

}  // namespace bench
