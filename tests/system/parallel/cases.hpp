// SPDX-License-Identifier: Apache-2.0
// What the cases of the parallel forms share. A case runs on the job's first thread.
//
// Who shares work with whom is chance, so shared() repeats a case until another process has stolen of it, and has run a
// part; spin() gives thieves the time.
#pragma once

#include <ayatori/ayatori.hpp>
#include <cstdint>
#include <stdexcept>

inline ayatori::global<ayatori::atomic<int>> failures;
void check(bool is, const char* what, int line);
#define CHECK(e) check((e), #e, __LINE__)

void loops();
void scans();
void sorts();
void task_groups();

void spin(int microseconds);
// Remote steals of all processes so far.
std::uint64_t remote_steals();

// Calls f() at least `rounds` times. f returns the processes on which parts of it ran, a bit each.
template <class F>
void shared(int rounds, F f, int line) {
  const bool alone = ayatori::process_count() == 1;
  const std::uint64_t before = remote_steals();
  unsigned processes = 0;
  bool stolen = false;
  for (int i = 0; i < rounds || (!alone && !stolen && i < 2000); ++i) {
    processes |= f();
    stolen = (processes & (processes - 1)) != 0 && remote_steals() > before;
  }
  check(alone || stolen, "no part was stolen by another process", line);
}
#define SHARED(rounds, ...) shared(rounds, __VA_ARGS__, __LINE__)

inline unsigned here() { return 1u << ayatori::process_id(); }

// Numbers that look random, the same in each run.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::uint64_t operator()() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return state_ >> 33;
  }

 private:
  std::uint64_t state_;
};
