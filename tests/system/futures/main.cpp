// SPDX-License-Identifier: Apache-2.0
// Stop tokens, condition_variable_any, call_once, futures, tasks and std's lock functions between threads of all processes.
// The last line is `check: ok` or `check: FAILED`.
#include <chrono>
#include <cstdio>
#include <cstring>

#include "cases.hpp"

void check(bool is, const char* what, int line, const char* file) {
  if (is) return;
  if (failures->fetch_add(1) > 20) return;
  const ayatori::pinned pinned;
  std::printf("%s line %d: not true on process %d: %s\n", file, line, ayatori::process_id(), what);
  std::fflush(stdout);
}

void spin(int microseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

void yields(int times) {
  for (int i = 0; i < times; ++i) ayatori::this_thread::yield();
}

std::uint64_t remote_steals() {
  std::uint64_t sum = 0;
  for (int p = 0; p < ayatori::process_count(); ++p)
    ayatori::thread(ayatori::on(p), [&sum] {
      const ayatori::pinned stay;
      sum += ayatori::snapshot().steals_remote;
    }).join();
  return sum;
}

int main(int argc, char** argv) {
  // Outside of the run no thread can be had.
  bool right = ayatori::async([] { return 7; }).get() == 7;
  try {
    (void)ayatori::async(ayatori::launch::async, [] {});
    right = false;
  } catch (const std::system_error&) {
  }
  ayatori::promise<int> promise;
  auto future = promise.get_future();
  promise.set_value(3);
  right &= future.get() == 3;
  ayatori::stop_source source;
  int called = 0;
  const ayatori::stop_callback callback(source.get_token(), [&] { ++called; });
  right &= source.request_stop() && called == 1;
  return ayatori::run(argc, argv, [right](auto arguments) {
    const struct {
      const char* name;
      void (*run)();
    } cases[] = {{"stops", stops},     {"conditions", conditions}, {"onces", onces}, {"locks", locks},
                 {"futures", futures}, {"exceptions", exceptions}, {"tasks", tasks}};
    CHECK(right);
    for (const auto& c : cases)
      if (arguments.size() < 2 || std::strcmp(arguments[1], c.name) == 0) {
        c.run();
        CHECK(Tracked::alive->load() == 0);  // no state is left over
      }
    const int failed = failures->load();
    std::printf("check: %s\n", failed == 0 ? "ok" : "FAILED");
    return failed == 0 ? 0 : 1;
  });
}
