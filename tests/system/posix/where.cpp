// SPDX-License-Identifier: Apache-2.0
// What the cases ask of their surroundings, of the C++ interface: where they are, to be somewhere else, another thread.
#include <ayatori/ayatori.hpp>
#include <cstdio>
#include <optional>
#include <thread>

extern "C" {
#include "cases.h"
}

namespace {
ayatori::global<ayatori::atomic<int>> failed_so_far;

struct Foreign {
  ayatori::binary_semaphore told{0}, may_end{0};
  ayatori_thread_t number = 0;
  ayatori::thread thread;
};
ayatori::global<Foreign*> foreign;
}  // namespace

extern "C" {

int here() { return ayatori::process_id(); }
int process_count() { return ayatori::process_count(); }
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
  failed_so_far->fetch_add(1);
  const ayatori::pinned pinned;
  std::printf("%s:%d: not true on process %d worker %d: %s\n", file, line, ayatori::process_id(), ayatori::worker_id(),
              what);
}
int failures() { return failed_so_far->load(); }

ayatori_thread_t foreign_thread() {
  auto* const f = new Foreign;
  f->thread = ayatori::thread([f] {
    f->number = ayatori_thread_self();
    f->told.release();
    f->may_end.acquire();
  });
  f->told.acquire();
  *foreign = f;
  return f->number;
}
void end_foreign_thread() {
  Foreign* const f = *foreign;
  f->may_end.release();
  f->thread.join();
  delete f;
}

void on_os_thread(void (*f)(void*), void* argument) {
  const ayatori::pinned pinned;
  std::thread(f, argument).join();
}

}  // extern "C"
