// SPDX-License-Identifier: Apache-2.0
// Threads that wait for each other. First argument, the case:
//   locks   two threads, on the first and the last process, each hold a mutex that the other wants
//   join    a thread holds a mutex and joins one that wants it
//   self    a thread locks a mutex that it holds
//   writers two threads, each of which holds a read-write lock for writing that the other wants
//   busy    none: threads hand two mutexes and a read-write lock to each other until the file named by the second argument
//           exists, at every place
//   chain   none: a thread waits for one that waits for one that only sleeps
// Prints "standing" when they are about to; is killed then, but for `chain`, which goes on when the file named by the second
// argument exists. deadlock.sh looks at what SIGQUIT prints.
#include <unistd.h>

#include <ayatori/ayatori.hpp>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <vector>

namespace {

using std::chrono::milliseconds;

void standing() {
  ayatori::this_thread::sleep_for(milliseconds(300));
  std::puts("standing");
  std::fflush(stdout);
}

template <class Mutex>
void two_locks() {
  Mutex first, second;
  ayatori::barrier both(2);
  const auto cross = [&both](Mutex& mine, Mutex& other) {
    const ayatori::pinned here;
    mine.lock();
    both.arrive_and_wait();
    other.lock();
    other.unlock();
    mine.unlock();
  };
  ayatori::thread a(ayatori::on(0), [&] { cross(first, second); });
  ayatori::thread b(ayatori::on(ayatori::process_count() - 1), [&] { cross(second, first); });
  standing();
  a.join();
  b.join();
}

void join_holder() {
  ayatori::mutex held;
  ayatori::thread holder(ayatori::on(0), [&] {
    const ayatori::pinned here;
    held.lock();
    ayatori::thread child(ayatori::on(ayatori::process_count() - 1), [&] {
      const ayatori::pinned there;
      held.lock();
    });
    child.join();
  });
  standing();
  holder.join();
}

void twice() {
  ayatori::mutex held;
  ayatori::thread t(ayatori::on(ayatori::process_count() - 1), [&] {
    const ayatori::pinned here;
    held.lock();
    held.lock();
  });
  standing();
  t.join();
}

void chain(const char* file) {
  ayatori::mutex first, second;
  ayatori::barrier three(3);
  ayatori::thread a(ayatori::on(0), [&] {
    three.arrive_and_wait();
    first.lock();
    first.unlock();
  });
  ayatori::thread b(ayatori::on(ayatori::process_count() - 1), [&] {
    const ayatori::pinned here;
    first.lock();
    three.arrive_and_wait();
    second.lock();
    second.unlock();
    first.unlock();
  });
  second.lock();
  three.arrive_and_wait();
  standing();
  while (access(file, F_OK) != 0) ayatori::this_thread::sleep_for(milliseconds(5));
  second.unlock();
  a.join();
  b.join();
}

void busy(const char* file) {
  struct Locks {
    ayatori::mutex first, second;
    ayatori::shared_timed_mutex both_ways;
  } locks;
  ayatori::atomic<int> stop(0);
  std::vector<ayatori::thread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back(ayatori::on(i % ayatori::process_count()), [&] {
      while (stop.load() == 0) {
        locks.first.lock();
        locks.second.lock();
        locks.second.unlock();
        locks.first.unlock();
        locks.both_ways.lock();
        locks.both_ways.unlock();
      }
    });
  standing();
  while (access(file, F_OK) != 0) ayatori::this_thread::sleep_for(milliseconds(5));
  stop.store(1);
  for (ayatori::thread& t : threads) t.join();
}

}  // namespace

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](std::span<char*> args) {
    const std::string_view which = args[1];
    if (which == "locks") two_locks<ayatori::mutex>();
    if (which == "writers") two_locks<ayatori::shared_timed_mutex>();
    if (which == "join") join_holder();
    if (which == "self") twice();
    if (which == "busy") busy(args[2]);
    if (which == "chain") chain(args[2]);
    return 0;
  });
}
