// SPDX-License-Identifier: Apache-2.0
// A program whose threads stand at known places until it is told to go on: one running, and one each at a join, a mutex, a
// condition variable, a barrier, in a sleep and in poll; with --own it waits for SIGQUIT instead, with a handler of its own. Prints "standing" when all are where they should be, and goes on when the file named by its first argument
// exists. dump.sh looks at what SIGQUIT prints.
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <ayatori/ayatori.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace {

volatile std::sig_atomic_t own_quits = 0;

bool may_go(const char* file) { return access(file, F_OK) == 0; }

void nap() {
  const timespec time{0, 2'000'000};
  nanosleep(&time, nullptr);
}

// Keeps the call before it from becoming a jump, which would leave no frame.
void no_tail_call() { asm volatile("" ::: "memory"); }

[[gnu::noinline]] void spin_here(const char* file) {
  while (!may_go(file)) {
    for (int i = 0; i < 1'000'000; ++i) asm volatile("" ::: "memory");
  }
}
[[gnu::noinline]] void lock_here(ayatori::mutex& m) {
  m.lock();
  m.unlock();
  no_tail_call();
}
[[gnu::noinline]] void wait_here(ayatori::mutex& m, ayatori::condition_variable& c, bool& go) {
  std::unique_lock<ayatori::mutex> lock(m);
  while (!go) c.wait(lock);
}
[[gnu::noinline]] void arrive_here(ayatori::barrier& b) {
  b.arrive_and_wait();
  no_tail_call();
}
[[gnu::noinline]] void sleep_here(const char* file) {
  while (!may_go(file)) ayatori::this_thread::sleep_for(std::chrono::milliseconds(300));
}
[[gnu::noinline]] void poll_here(const char* file) {
  const ayatori::pinned stay;
  int ends[2];
  if (pipe(ends) != 0) return;
  pollfd nothing{ends[0], POLLIN, 0};
  while (!may_go(file) && poll(&nothing, 1, 300) == 0) no_tail_call();
  close(ends[0]);
  close(ends[1]);
}
[[gnu::noinline]] void join_here(ayatori::thread& t) {
  t.join();
  no_tail_call();
}

[[gnu::noinline]] int stand(const char* file) {
  ayatori::mutex held, guard;
  ayatori::condition_variable condition;
  ayatori::barrier two(2);
  bool go = false;
  held.lock();
  const int p = ayatori::process_count() - 1;  // the others' home
  ayatori::thread sleeper(ayatori::on(p), [file] { sleep_here(file); });
  ayatori::thread locker(ayatori::on(p), [&] { lock_here(held); });
  ayatori::thread waiter(ayatori::on(p), [&] { wait_here(guard, condition, go); });
  ayatori::thread arriver(ayatori::on(p), [&] { arrive_here(two); });
  ayatori::thread joiner(ayatori::on(p), [&] { join_here(sleeper); });
  ayatori::thread poller(ayatori::on(p), [file] { poll_here(file); });
  ayatori::thread spinner(ayatori::on(0), [file] { spin_here(file); });
  ayatori::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::puts("standing");
  std::fflush(stdout);
  while (!may_go(file)) ayatori::this_thread::sleep_for(std::chrono::milliseconds(5));
  held.unlock();
  {
    const std::lock_guard<ayatori::mutex> lock(guard);
    go = true;
  }
  condition.notify_all();
  arrive_here(two);
  for (ayatori::thread* t : {&locker, &waiter, &arriver, &joiner, &poller, &spinner}) t->join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool own = argc > 2 && std::strcmp(argv[2], "--own") == 0;
  if (own) std::signal(SIGQUIT, [](int) { own_quits = 1; });
  const char* const file = argc > 1 ? argv[1] : "";
  const int status = ayatori::run(argc, argv, [=](std::span<char*> args) {
    if (!own) return stand(args[1]);
    std::puts("standing");
    std::fflush(stdout);
    const ayatori::pinned here;
    while (!own_quits && !may_go(file)) nap();
    std::puts(own_quits ? "its own handler ran" : "its own handler did not run");
    return 0;
  });
  if (status == 0) std::puts("went on");
  return status;
}
