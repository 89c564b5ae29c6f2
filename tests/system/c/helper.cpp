// SPDX-License-Identifier: Apache-2.0
// What the C cases need of the C++ interface: where they are, and to be somewhere else.
#include <ayatori/ayatori.hpp>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cases.h"

namespace {
struct Counts {
  ayatori::atomic<int> failures, noted;
};
ayatori::global<Counts> counts;

struct Object {
  int* destroyed;
  ~Object() { *destroyed = 1; }
};
}  // namespace

extern "C" {

int here() { return ayatori::process_id(); }
int process_count() { return ayatori::process_count(); }
int shares_memory() {
  const char* transport = std::getenv("AYATORI_TRANSPORT");  // NOLINT(concurrency-mt-unsafe)
  return process_count() == 1 || (transport && std::string_view(transport) == "shm");
}
int worker_count() { return ayatori::worker_count(); }

void migrate() {
  if (ayatori::process_count() == 1) return;
  const int from = ayatori::process_id();
  for (auto patience = std::chrono::microseconds(500); ayatori::process_id() == from;
       patience = std::min(2 * patience, std::chrono::microseconds(20'000))) {
    ayatori::atomic<int> stolen{0};
    bool gave_up = false;
    ayatori::thread child([&stolen, &gave_up, patience] {
      const auto began = std::chrono::steady_clock::now();
      while (stolen.load(std::memory_order_relaxed) == 0) {
        __builtin_ia32_pause();
        // Every worker may have such a child now, with nobody left to steal.
        if (std::chrono::steady_clock::now() - began > patience) {
          gave_up = true;
          return;
        }
      }
    });
    stolen.store(1, std::memory_order_relaxed);  // somebody stole us, or the child gave up
    child.join();
    if (gave_up) ayatori::this_thread::sleep_for(std::chrono::microseconds(500));  // this worker looks around
  }
}

void failed(const char* file, int line, const char* what) {
  counts->failures.fetch_add(1);
  const ayatori::pinned pinned;
  std::printf("%s:%d: not true on process %d worker %d: %s\n", file, line, ayatori::process_id(), ayatori::worker_id(),
              what);
}
int failures() { return counts->failures.load(); }
void note(int n) { counts->noted.fetch_add(n); }
int noted() { return counts->noted.load(); }

void in_cxx_thread(void (*f)(void*), void* argument) {
  ayatori::thread([f, argument] { f(argument); }).join();
}

void below_an_object(void (*exit_now)(void*), void* result, int* destroyed) {
  const Object object{destroyed};
  exit_now(result);
}

}  // extern "C"
