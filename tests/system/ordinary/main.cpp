// SPDX-License-Identifier: Apache-2.0
// `ordinary [NAME...]` runs the named cases, or all; `ordinary --list` names them. The last line is `check: ok` (status 0)
// or `check: FAILED` (status 1).
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "suite.hpp"

namespace suite {
namespace {

// The same in all processes, as all execute the same initialisers; constant after them.
std::vector<Case>& cases() {
  static std::vector<Case> list;
  return list;
}

struct Counts {
  ayatori::atomic<long> failures, migrations;
};
ayatori::global<Counts> counts;

int run(std::span<char*> args) {
  int done = 0;
  for (const Case& c : cases()) {
    bool wanted = args.size() == 1;
    for (std::size_t i = 1; i < args.size(); ++i) wanted |= std::strcmp(args[i], c.name) == 0;
    if (!wanted) continue;
    const long failures = counts->failures.load();
    const long before = migrations();
    try {
      c.run();
    } catch (const std::exception& error) {
      fail(c.name, 0, "no exception leaves the case", error.what());
    }
    ++done;
    std::printf("%s: %s, %ld migrations\n", c.name, counts->failures.load() == failures ? "ok" : "FAILED",
                migrations() - before);
  }
  const bool ok = done > 0 && counts->failures.load() == 0;
  std::printf("check: %s\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

}  // namespace

Add::Add(const char* name, void (*function)()) { cases().push_back({name, function}); }

void fail(const char* file, int line, const char* expression, const std::string& note) {
  if (counts->failures.fetch_add(1) >= 20) return;
  ayatori::pinned here;
  std::printf("%s:%d: not true on process %d worker %d: %s %s\n", file, line, ayatori::process_id(),
              ayatori::worker_id(), expression, note.c_str());
}

void migrate() {
  if (ayatori::process_count() == 1) return;
  const int from = ayatori::process_id();
  for (bool moved = false; !moved;) {
    ayatori::atomic<int> stolen{0};
    bool gave_up = false;
    ayatori::thread child([&stolen, &gave_up] {
      const auto began = std::chrono::steady_clock::now();
      while (stolen.load(std::memory_order_relaxed) == 0) {
        __builtin_ia32_pause();
        // Every worker may have such a child now, with nobody left to steal.
        if (std::chrono::steady_clock::now() - began > std::chrono::milliseconds(20)) {
          gave_up = true;
          return;
        }
      }
    });
    moved = ayatori::process_id() != from;       // after the join it may have been stolen back
    stolen.store(1, std::memory_order_relaxed);  // somebody stole us, or the child gave up
    child.join();
    if (gave_up) ayatori::this_thread::sleep_for(std::chrono::microseconds(500));  // this worker looks around
  }
  counts->migrations.fetch_add(1, std::memory_order_relaxed);
}

long migrations() noexcept { return counts->migrations.load(std::memory_order_relaxed); }

}  // namespace suite

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    if (ayatori::process_id() == 0)
      for (const suite::Case& c : suite::cases()) std::puts(c.name);
    return 0;
  }
  return ayatori::run(argc, argv, [](auto args) { return suite::run(args); });
}
