// SPDX-License-Identifier: Apache-2.0
#include "net/sim/params.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>

namespace ayatori::net::sim {
namespace {

struct Key {
  std::string_view name;
  std::int64_t SimParams::* value;
  const char* what;
};

constexpr std::int64_t kValueMax = 3'600'000'000'000;  // an hour
constexpr std::array<Key, 6> kKeys{{
    {"latency_ns", &SimParams::latency_ns, "L, with the receiver's overhead"},
    {"overhead_ns", &SimParams::overhead_ns, "o, the sender's"},
    {"gap_ns", &SimParams::gap_ns, "g"},
    {"gap_per_kib_ns", &SimParams::gap_per_kib_ns, "G * 1,024"},
    {"jitter_ns", &SimParams::jitter_ns, "up to this much is added to a latency; 0: no reordering"},
    {"failure_notice_ns", &SimParams::failure_notice_ns, "from a death to its notice"},
}};
constexpr std::size_t kFileBytesMax = 64 * 1024;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

const Key* find_key(std::string_view name) {
  for (const Key& key : kKeys)
    if (key.name == name) return &key;
  return nullptr;
}

std::string key_names() {
  std::string names;
  for (const Key& key : kKeys) names += (names.empty() ? "" : ", ") + std::string(key.name);
  return names;
}

base::Status parse_line(std::string_view line, int number, SimParams& params, std::array<int, kKeys.size()>& seen) {
  const auto error = [number](std::string_view what) {
    return base::error_status(base::Code::kInvalid, "line {}: {}", number, what);
  };
  line = trimmed(line.substr(0, line.find('#')));
  if (line.empty()) return base::ok_status();
  const std::size_t equals = line.find('=');
  if (equals == line.npos) return error(base::formatted("'{}' is not of the form key = value", line));
  const std::string_view name = trimmed(line.substr(0, equals));
  const std::string_view text = trimmed(line.substr(equals + 1));
  const Key* const key = find_key(name);
  if (key == nullptr) return error(base::formatted("unknown key '{}'; the keys are {}", name, key_names()));
  int& first_seen = seen[static_cast<std::size_t>(key - kKeys.data())];
  if (first_seen != 0) return error(base::formatted("{} stands already in line {}", name, first_seen));
  first_seen = number;
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value < 0 || value > kValueMax)
    return error(base::formatted("{} takes a whole number from 0 to {}, not '{}'", name, kValueMax, text));
  params.*key->value = value;
  return base::ok_status();
}

}  // namespace

base::Status parse_sim_params(std::string_view text, SimParams* params) {
  SimParams parsed = *params;  // X2
  std::array<int, kKeys.size()> seen{};
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (base::Status status = parse_line(text.substr(0, end), number, parsed, seen); !status) return status;
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  *params = parsed;
  return base::ok_status();
}

base::Status load_sim_params(const std::string& path, SimParams* params) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (file == nullptr) return base::system_status(errno, path);
  std::string text(kFileBytesMax + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return base::system_status(errno, path);
  if (text.size() > kFileBytesMax)
    return base::error_status(base::Code::kInvalid, "{}: more than {} bytes: no parameters of a network", path,
                              kFileBytesMax);
  const base::Status status = parse_sim_params(text, params);
  return status ? status : base::Status(status.code(), path + ": " + status.message());
}

std::string sim_params_text(const SimParams& params) {
  std::string text;
  for (const Key& key : kKeys) text += base::formatted("{} = {}  # {}\n", key.name, params.*key.value, key.what);
  return text;
}

}  // namespace ayatori::net::sim
