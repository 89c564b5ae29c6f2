// SPDX-License-Identifier: Apache-2.0
// What the kinds of the soak of threads share: a seed, a size, checks. Everything here may be called by any thread of the
// job on any process.
//
// S1. Every expected value is a function of seed and size alone, or of a serial model, never of a schedule.
// S2. A kind leaves nothing running but what it says; two runs of kinds may overlap (`mixed`).
// S3. A run is rounds of at most 100 percent. 300 percent (jobs that talk by messages) to 4000 (one process) take 0.2 to 5 s on
//     two CPUs with more workers than these.
#pragma once

#include <ayatori/ayatori.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace soak {

using u64 = std::uint64_t;
using Byte = unsigned char;

inline u64 mix(u64 a, u64 b = 0) {
  u64 x = a + 0x9e3779b97f4a7c15ULL * (b + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Of one thread.
class Random {
 public:
  explicit Random(u64 seed) : state_(seed) {}
  u64 next() { return mix(state_++, 0x50ac); }
  u64 below(u64 n) { return next() % n; }
  int range(int first, int last) { return first + static_cast<int>(below(static_cast<u64>(last - first + 1))); }
  bool one_in(u64 n) { return below(n) == 0; }

 private:
  u64 state_;
};

// What a run is: one seed, one size in percent.
struct Run {
  u64 seed;
  u64 size;
  // n at size 100, at least 1
  int scaled(int n) const { return static_cast<int>(std::max<u64>(1, static_cast<u64>(n) * size / 100)); }
};

// Counts a wrong value, and prints the first 20 of the job.
void wrong(const char* what, u64 where, u64 got, u64 want);
long wrong_values();

template <class Got, class Want>
bool expect(Got got, Want want, const char* what, u64 where) {
  const u64 a = static_cast<u64>(got), b = static_cast<u64>(want);
  if (a == b) return true;
  wrong(what, where, a, b);
  return false;
}

inline int anywhere(u64 random) { return static_cast<int>(random % static_cast<u64>(ayatori::process_count())); }

// A thread that starts here, or, one time in four, on a random process.
template <class F>
ayatori::thread start(u64 random, F&& f) {
  if (random % 4 == 0) return ayatori::thread(ayatori::on(anywhere(random >> 8)), std::forward<F>(f));
  return ayatori::thread(std::forward<F>(f));
}

inline void sometimes_yield(u64 random) {
  if (random % 5 == 0) ayatori::this_thread::yield();
}

// Threads that all end before it does.
class Crew {
 public:
  Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() { join(); }
  template <class F>
  void start(u64 random, F&& f) {
    threads_.push_back(soak::start(random, std::forward<F>(f)));
  }
  template <class F>
  void start_on(int process, F&& f) {
    threads_.emplace_back(ayatori::on(process), std::forward<F>(f));
  }
  void join() {
    for (ayatori::thread& t : threads_) t.join();
    threads_.clear();
  }

 private:
  std::vector<ayatori::thread> threads_;
};

struct Kind {
  const char* name;
  void (*run)(const Run&);
};

// One function a file; together they are all kinds.
std::span<const Kind> tree_kinds();
std::span<const Kind> memory_kinds();
std::span<const Kind> lock_kinds();
std::span<const Kind> signal_kinds();
std::span<const Kind> life_kinds();
std::span<const Kind> c_kinds();
std::span<const Kind> parallel_kinds();
std::span<const Kind> atomic_kinds();
std::span<const Kind> process_kinds();
std::span<const Kind> mixed_kinds();

std::vector<Kind> all_kinds();

}  // namespace soak
