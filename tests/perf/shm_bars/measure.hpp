// SPDX-License-Identifier: Apache-2.0
// One round of each measurement of shm_bars: forks its own members, returns when they have ended. Called by main's only
// thread.
#pragma once

#include <optional>

namespace bars {

inline constexpr int kThreadCounts[] = {1, 2, 4, 8, 16};

// Of two processes that poll, one on each of the first two CPUs that this process may use.
struct Pair {
  double read_ratio = 0, write_ratio = 0;  // to the bare calls (bare_words.hpp)
  double read_ns = 0, write_ns = 0;
  double flag_ns = 0;  // a line that goes to and fro: where the machine has put the two CPUs
  double rpc_ns = 0;   // 8 bytes there and back
  double barrier_ns = 0;
};
std::optional<Pair> measure_pair();

// Median duration of an 8-byte read with a callback, for each of kThreadCounts, which take turns: threads of one process at
// once.
struct Threads {
  double read_ns[5] = {};
};
std::optional<Threads> measure_threads();

// 8 processes that are asleep in wait().
struct Idle {
  double burn = 0;       // CPU time of all, of one core's
  double answer_us = 0;  // median of RPCs from one of them, which sleeps between
};
std::optional<Idle> measure_idle();

// UCX's own program, two processes on the same CPUs: an 8-byte active message there and back, and 8-byte gets and puts in
// memory that UCX has allocated. nullopt: it is not installed or fails.
struct Ucx {
  double rpc_ns = 0, get_ns = 0, put_ns = 0;
};
std::optional<Ucx> measure_ucx();

void pin(int which);       // to the first or second CPU that this process may use
void ordinary_schedule();  // whatever the program was started under

}  // namespace bars
