// SPDX-License-Identifier: Apache-2.0
// What `main` gives to `run`, and what is static data, before, in and after the run. `from_main twice` (`twice-c`)
// calls run a second time, `from_main moved` gives it what cannot be copied. The last line is `check: ok` (status 0).
#include <ayatori/ayatori.h>

#include <ayatori/ayatori.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

ayatori::mutex shared;
ayatori::global<long> failures, in_main;
ayatori::global<bool> constructed{true};  // by process 0, after the others above

void check(bool good, const char* what) {
  if (good) return;
  ++*failures;
  const ayatori::pinned here;
  std::printf("not true on process %d: %s\n", ayatori::process_id(), what);
}

// Its copying may fork, and is not moved to where the source cannot be read.
struct Copied {
  Copied() = default;
  Copied(Copied&&) = default;
  Copied(const Copied&) {
    if (ayatori::worker_id() < 0) return;  // in main
    ayatori::thread([] {}).join();
    check(ayatori::process_id() == 0, "the source is read where it lies");
  }
};

// On another process than 0, if there is one.
void leave() {
  while (ayatori::process_count() > 1 && ayatori::process_id() == 0) {
    ayatori::atomic<bool> stolen{false};
    ayatori::thread t([&stolen] {
      for (int i = 0; i < 1'000'000 && !stolen.load(std::memory_order_relaxed); ++i) __builtin_ia32_pause();
    });
    const ayatori::pinned here;
    stolen.store(true, std::memory_order_relaxed);
    t.join();
  }
}

// In every process at once: plain bytes in the space would lose updates without the lock.
void count_in_main() {
  for (bool ready = false; !ready;) {
    const std::lock_guard lock(shared);
    ready = *constructed;
  }
  for (int i = 0; i < 500; ++i) {
    const std::lock_guard lock(shared);
    ++*in_main;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  std::string name = "a string that is longer than its own object, of process " + std::to_string(ayatori::process_id());
  std::vector<std::string> list(100, name);
  count_in_main();
  if (mode == "moved")
    return ayatori::run(argc, argv, [number = std::make_unique<int>(3)](std::span<char*>) {
      const ayatori::pinned here;
      std::printf("check: %s\n", *number == 3 ? "ok" : "FAILED");
      return *number - 3;
    });
  const int status = ayatori::run(argc, argv, [name, list, copied = Copied()](std::span<char*>) mutable {
    const std::string want = "a string that is longer than its own object, of process 0";
    for (int p = 0; p < ayatori::process_count(); ++p)
      ayatori::thread(ayatori::on(p), [&] {
        check(name == want && list.size() == 100 && list.back() == want, "captures are process 0's everywhere");
        check(ayatori::in_space(name.data()) && ayatori::in_space(list.data()), "captures own memory of the space");
      }).join();
    {
      const std::lock_guard lock(shared);
      check(*in_main == 500L * ayatori::process_count(), "static data's mutex excludes other processes before the run");
    }
    leave();
    list.emplace_back("added elsewhere, so that what the capture owned is freed");
    name += list.back();
    return 0;  // f ends where it is
  });
  if (mode == "twice") return ayatori::run(argc, argv, [](std::span<char*>) { return 9; });
  if (mode == "twice-c") return ayatori_run(argc, argv, [](int, char**) { return 9; });
  count_in_main();
  if (ayatori::process_id() != 0) return status;
  std::printf("check: %s\n", status == 0 && *failures == 0 ? "ok" : "FAILED");
  return *failures == 0 ? 0 : 1;
}
