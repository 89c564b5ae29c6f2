// SPDX-License-Identifier: Apache-2.0
#include "api/check_mode.hpp"

#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <new>

#include "api/check_parts.hpp"
#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/knobs.hpp"
#include "gas/space.hpp"
#include "net/bootstrap/bootstrap.hpp"

namespace ayatori::api::check_mode {
namespace {

constexpr std::int64_t kWaitNs = 2 * base::kNsPerSecond;

struct Shared {
  std::atomic<std::uint64_t> published{0};  // set of processes
  std::atomic<std::uint32_t> bell{0};
  std::atomic<std::uint32_t> reported{0};
};

struct State {
  Shared* shared = nullptr;  // null: off
  base::Symbols* symbols = nullptr;
  int processes = 1;
};
constinit State state;

std::uint64_t all_processes() {
  return state.processes == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << state.processes) - 1;
}

void publish(int self) {
  Shared& s = *state.shared;
  publish_globals(self);
  s.published.fetch_or(std::uint64_t{1} << self, std::memory_order_acq_rel);  // after the tables
  s.bell.fetch_add(1, std::memory_order_release);
  base::futex_wake(s.bell, base::kAllWaiters);
}

// Once a job: of several members that exit, the first one prints.
void report() {
  Shared& s = *state.shared;
  if (s.reported.exchange(1, std::memory_order_relaxed) != 0) return;
  const std::uint64_t published = s.published.load(std::memory_order_acquire);  // pairs with the fetch_or
  const std::uint64_t missing = all_processes() & ~published;
  if (missing != 0) say(list_of(missing) + " did not report: not compared");
  report_globals(published);
  report_locks(*state.symbols);
  report_thread_locals(*state.symbols);
}

}  // namespace

void say(const std::string& text) {
  const std::string line = "ayatori: check: " + text + "\n";
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t n = write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

std::string list_of(std::uint64_t processes) {
  std::string text = std::popcount(processes) == 1 ? "process " : "processes ";
  for (bool first = true; processes != 0; processes &= processes - 1, first = false)
    text += (first ? "" : ", ") + std::to_string(std::countr_zero(processes));
  return text;
}

bool is_system_library(const std::string& path) {
  const std::string file = path.substr(path.rfind('/') + 1);
  for (const char* name : {"libc.", "libm.", "libstdc++.", "libc++", "libgcc_s.", "ld-linux", "libpthread.", "libdl.",
                           "librt.", "libasan.", "libubsan.", "libtsan.", "liblsan.", "libclang_rt."})
    if (file.starts_with(name)) return true;
  return false;
}

void reserve(int processes) {
  if (!base::knob_bool("AYATORI_CHECK")) return;
  state.processes = processes;
  state.shared = new (gas::shared_map(sizeof(Shared), "the checking mode")) Shared;
  state.symbols = new base::Symbols;
  reserve_globals(*state.symbols, processes);
  reserve_locks(*state.symbols);
  reserve_thread_locals(*state.symbols, processes);
}

void begin() {
  if (state.shared) begin_globals(net::bootstrap::job().process_id);
}

void end() {
  if (!state.shared) return;
  const int self = net::bootstrap::job().process_id;
  Shared& s = *state.shared;
  publish(self);
  if (self != 0) return;
  const std::uint64_t all = all_processes();
  const std::int64_t deadline = base::real_now_ns() + kWaitNs;
  for (;;) {
    const std::uint32_t bell = s.bell.load(std::memory_order_acquire);
    if (s.published.load(std::memory_order_acquire) == all) break;  // pairs with the fetch_or
    const std::int64_t left_ns = deadline - base::real_now_ns();
    if (left_ns <= 0 || net::bootstrap::job_ending()) break;
    base::futex_wait(s.bell, bell, left_ns < 100 * base::kNsPerMs ? left_ns : 100 * base::kNsPerMs);
  }
  report();
}

void end_at_exit() {
  if (!state.shared) return;
  publish(net::bootstrap::job().process_id);
  report();  // the others are in the run; they end with the job
}

}  // namespace ayatori::api::check_mode
