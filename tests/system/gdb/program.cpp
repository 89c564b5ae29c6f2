// SPDX-License-Identifier: Apache-2.0
// Threads for a debugger to find: parked at a mutex, at a join and, after they have come from another process, in a sleep; one
// waits in a queue, one is running in stop_here(), where gdb.sh has a breakpoint. Prints "standing" before that. First
// argument: a file; it goes on when that exists. With a second one, `abort`, it dumps core instead.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <ayatori/ayatori.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

// Keeps the call before it from becoming a jump, which would leave no frame.
void no_tail_call() { asm volatile("" ::: "memory"); }

[[gnu::noinline]] void lock_here(ayatori::mutex& m) {
  m.lock();
  m.unlock();
  no_tail_call();
}
[[gnu::noinline]] void join_here(ayatori::thread& t) {
  t.join();
  no_tail_call();
}
[[gnu::noinline]] void sleep_here(const char* file) {
  while (access(file, F_OK) != 0) ayatori::this_thread::sleep_for(std::chrono::milliseconds(200));
}
// Sleeps at another process, if there is one: it is stolen while its child keeps the worker.
[[gnu::noinline]] void sleep_where_stolen(const char* file) {
  if (ayatori::process_count() > 1) {
    const int from = ayatori::process_id();
    ayatori::atomic<int> stolen(0);
    ayatori::thread child([&] {
      while (stolen.load() == 0) {
      }
    });
    const ayatori::pinned there;
    if (ayatori::process_id() == from) std::puts("not moved");
    stolen.store(1);
    child.join();
    sleep_here(file);
  } else {
    sleep_here(file);
  }
  no_tail_call();
}
// Frames of several pages, written where the thread began, above the one that it sleeps in where it is now.
[[gnu::noinline]] void deep_here(int depth, const char* file) {
  volatile char room[3000];
  for (volatile char& c : room) c = 1;
  if (depth > 0)
    deep_here(depth - 1, file);
  else
    sleep_where_stolen(file);
  no_tail_call();
}

}  // namespace

extern "C" {
[[gnu::noinline]] void stop_here(const char* file, bool abort) {
  std::puts("standing");
  std::fflush(stdout);
  if (abort) std::abort();
  const timespec nap{0, 20'000'000};
  while (access(file, F_OK) != 0) syscall(SYS_nanosleep, &nap, nullptr);  // the C library's would suspend the thread
}
}

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](std::span<char*> args) {
    const char* const file = args[1];
    const bool abort = args.size() > 2 && std::string_view(args[2]) == "abort";
    const int last = ayatori::process_count() - 1;
    ayatori::mutex held;
    held.lock();
    ayatori::thread sleeper(ayatori::on(last), [file] { deep_here(10, file); });
    ayatori::thread locker(ayatori::on(0), [&] { lock_here(held); });
    ayatori::thread joiner(ayatori::on(last), [&] { join_here(sleeper); });
    ayatori::this_thread::sleep_for(std::chrono::milliseconds(300));
    ayatori::thread runner(ayatori::on(0), [=] {
      const ayatori::pinned here;
      stop_here(file, abort);
    });
    runner.join();
    held.unlock();
    locker.join();
    joiner.join();
    std::puts("went on");
    return 0;
  });
}
