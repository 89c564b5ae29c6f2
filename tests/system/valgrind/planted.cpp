// SPDX-License-Identifier: Apache-2.0
// `valgrind_planted WHAT`: mistakes in a thread that was forked, waited and went on, for Valgrind to find; run.sh knows them.
#include <ayatori/ayatori.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

volatile int sink;

[[gnu::noinline]] void branch_on_garbage() {
  volatile int garbage;  // NOLINT: that is the mistake
  if (garbage == 7) sink = 1;
}

[[gnu::noinline]] void read_freed_memory() {
  auto* const bytes = static_cast<volatile char*>(std::malloc(100));
  ayatori::this_thread::yield();
  std::free(const_cast<char*>(bytes));
  sink = bytes[50];
}

[[gnu::noinline]] void write_past_the_end() {
  auto* const bytes = static_cast<volatile char*>(std::malloc(100));
  bytes[100] = 1;
  std::free(const_cast<char*>(bytes));
}

}  // namespace

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto args) {
    const std::string what = args.size() > 1 ? args[1] : "";
    ayatori::thread other([] {
      for (int i = 0; i < 100; ++i) ayatori::this_thread::yield();
    });
    ayatori::thread([&] {
      for (int i = 0; i < 10; ++i) ayatori::this_thread::yield();
      if (what == "garbage") branch_on_garbage();
      if (what == "freed") read_freed_memory();
      if (what == "past") write_past_the_end();
    }).join();
    other.join();
    std::puts("check: ok");
    return 0;
  });
}
