// SPDX-License-Identifier: Apache-2.0
// Keeps addresses of thread_locals while its threads go on elsewhere, which `ayatori run --check` names, and next to that
// what it must not name.
#include <ayatori/ayatori.hpp>
#include <cstdio>
#include <cstring>

thread_local int kept_table[4];
thread_local int read_anew;
thread_local int kept_at_home;
namespace {
thread_local long kept_in_a_frame;
ayatori::global<ayatori::local<int>> local_of_thread;
}  // namespace

namespace {

// The caller goes on on another worker, of whatever process.
[[gnu::noinline]] void go_elsewhere() {
  ayatori::atomic<int> there{0};
  ayatori::thread here([&there] {  // runs first, and until the caller has been taken over
    while (there.load(std::memory_order_relaxed) == 0) {
    }
  });
  there.store(1, std::memory_order_relaxed);
  here.join();
}

// The compiler must have the address in a register or in the frame.
template <class T>
void keep(T* address) {
  asm volatile("" : : "r"(address) : "memory");
}

[[gnu::noinline]] void keeps_in_a_register() {
  int* address = kept_table + 1;
  asm volatile("" : "+r"(address));
  go_elsewhere();
  keep(address);
}
[[gnu::noinline]] void keeps_in_its_frame() {
  long* volatile address = &kept_in_a_frame;
  go_elsewhere();
  keep(address);
}
[[gnu::noinline]] void uses_it() {
  int* address = &read_anew;
  asm volatile("" : "+r"(address));
  *address = 1;
}
[[gnu::noinline]] void takes_it_anew() {
  uses_it();
  go_elsewhere();
  uses_it();
  *local_of_thread->operator->() = 1;
}
[[gnu::noinline]] void goes_nowhere() {
  int* address = &kept_at_home;
  asm volatile("" : "+r"(address));
  ayatori::thread([] {}).join();
  keep(address);
}

}  // namespace

int main(int argc, char** argv) {
  const bool clean = argc > 1 && std::strcmp(argv[1], "--clean") == 0;
  return ayatori::run(argc, argv, [clean](std::span<char*>) {
    takes_it_anew();
    if (!clean) {
      keeps_in_a_register();
      keeps_in_its_frame();
    }
    ayatori::thread([] {
      const ayatori::pinned here;
      goes_nowhere();
    }).join();
    return 3;
  });
}
