// SPDX-License-Identifier: Apache-2.0
// Counters at the end of a process: into the control memory for the launcher, or, in a job without one, printed here.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/format.hpp"
#include "base/knobs.hpp"
#include "base/log.hpp"
#include "net/bootstrap/internal.hpp"

namespace ayatori::net::bootstrap {
namespace {

std::string program_name() {
  char room[4096];
  const ssize_t bytes = readlink("/proc/self/exe", room, sizeof room);
  return bytes > 0 ? std::string(room, static_cast<std::size_t>(bytes)) : program_invocation_name;
}

// As a JSON string; what is no UTF-8 stays as it is, as the file's name does.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += base::formatted("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string members_of_object(std::span<const std::uint64_t> values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i)
    text += base::formatted("{}\"{}\": {}", i == 0 ? "" : ", ", kStatNames[i], values[i]);
  return text;
}

std::string as_json(std::span<const std::uint64_t> values) {
  const std::string counters = members_of_object(values);
  return base::formatted("{{\"schema\": 1, \"program\": {}, \"processes\": [{{\"id\": 0, {}}}], \"total\": {{{}}}}}\n",
                         quoted(program_name()), counters, counters);
}

std::string as_table(std::span<const std::uint64_t> values) {
  std::string text = "ayatori: statistics of 1 process\n";
  for (std::size_t i = 0; i < values.size(); ++i) text += base::formatted("  {:<16}{:>16}\n", kStatNames[i], values[i]);
  return text;
}

bool write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t bytes = write(fd, text.data(), text.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(bytes));
  }
  return true;
}

}  // namespace

// What was not there is not left behind: a program that never runs writes none.
void internal::check_stats_file() {
  const std::string file(base::knob_string("AYATORI_STATS"));
  if (bootstrap::job().launched || file.empty() || file == "-") return;
  constexpr int kFlags = O_WRONLY | O_NONBLOCK | O_CLOEXEC;  // a FIFO whose reader comes later gives ENXIO
  int fd = open(file.c_str(), kFlags | O_CREAT | O_EXCL, 0666);
  if (fd >= 0) unlink(file.c_str());
  if (fd < 0) fd = open(file.c_str(), kFlags | O_CREAT, 0666);
  if (fd < 0 && errno != ENXIO) internal::fail_start("AYATORI_STATS: cannot write " + file, errno);
  if (fd >= 0) close(fd);
}

bool stats_wanted() noexcept {
  const Job& job = bootstrap::job();
  return job.launched ? (job.control->flags & kWantStats) != 0 : !base::knob_string("AYATORI_STATS").empty();
}

void publish_stats(std::span<const std::uint64_t> values) {
  if (internal::is_stray()) return;
  const Job& job = bootstrap::job();
  values = values.first(std::min(values.size(), kStats));
  auto& row = job.control->stats[job.process_id];
  for (std::size_t i = 0; i < values.size(); ++i) row[i].store(values[i], std::memory_order_relaxed);
  internal::self().stats_written.store(1, std::memory_order_release);  // publishes the row to the launcher
  if (job.launched || !stats_wanted()) return;

  const std::string file(base::knob_string("AYATORI_STATS"));
  if (file == "-") {
    write_all(STDERR_FILENO, as_table(values));
    return;
  }
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  const bool written = fd >= 0 && write_all(fd, as_json(values));
  if (!written) base::log_error("cannot write the statistics to {}: {}", file, std::strerror(errno));
  if (fd >= 0) close(fd);
}

}  // namespace ayatori::net::bootstrap
