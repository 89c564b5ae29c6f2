// SPDX-License-Identifier: Apache-2.0
// Makes each mistake that `ayatori run --check` names, and next to each the correct form that it must not name.
#include <ayatori/ayatori.hpp>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

int counted_everywhere = 0;     // each process counts its own
long changed_alone = 0;         // by one process only
char large_table[10'000] = {};  // no value to print
int changed_alike = 0;          // to the same value by all
int set_by_main = 0;            // before the run, differently
const int constant = 7;
ayatori::global<int> shared_counter;
namespace {
std::vector<int> hidden_vector;
int hidden_number = 3;
}  // namespace

namespace {

[[gnu::noinline]] int& static_counter() {
  static int calls = ayatori::process_id() + 100;
  return calls;
}
[[gnu::noinline]] int static_table() {
  static int table = std::atoi("42");  // initialised by each process to the same value
  return table;
}
[[gnu::noinline]] void lock_std(std::mutex& m) {
  const std::lock_guard<std::mutex> lock(m);
  asm volatile("" ::: "memory");
}
[[gnu::noinline]] void wait_std(std::mutex& m, std::condition_variable& c) {
  std::unique_lock<std::mutex> lock(m);
  c.wait_for(lock, std::chrono::milliseconds(1));
}

[[gnu::noinline]] void call_std(std::once_flag& once) {
  std::call_once(once, [] {});
  asm volatile("" ::: "memory");
}

std::mutex outside;  // a plain global: not in the space, no line

void work(int p) {
  counted_everywhere += p + 1;
  changed_alike = 5;
  static_counter() += p;
  if (static_table() != 42) std::puts("static_table is wrong");
  if (p == 1) {
    changed_alone = 11;
    large_table[77] = 1;
    hidden_vector.push_back(1);
  }
  const std::lock_guard<std::mutex> lock(outside);
}

}  // namespace

int main(int argc, char** argv) {
  const bool clean = argc > 1 && std::strcmp(argv[1], "--clean") == 0;
  const int exits = argc > 2 && std::strcmp(argv[1], "--exit") == 0 ? std::atoi(argv[2]) : -1;
  set_by_main = ayatori::process_id() + constant + hidden_number;
  return ayatori::run(argc, argv, [clean, exits](std::span<char*>) {
    std::puts("hello");
    for (int p = 0; p < ayatori::process_count(); ++p) {
      ayatori::thread t(ayatori::on(p), [p, clean] {
        if (!clean) work(p);
      });
      t.join();
    }
    *shared_counter = 9;
    if (!clean) {
      std::mutex m;
      std::condition_variable c;
      lock_std(m);
      wait_std(m, c);
      std::once_flag once;
      call_std(once);
    }
    if (exits >= 0) ayatori::thread(ayatori::on(ayatori::process_count() - 1), [exits] { std::exit(exits); }).join();
    ayatori::mutex right;
    const std::lock_guard<ayatori::mutex> lock(right);
    return 3;
  });
}
