// SPDX-License-Identifier: Apache-2.0
// The programs of `ayatori bench threads` on another system's threads: what its files (bench/PROBLEM/SYSTEM.cpp,
// bench/peers/SYSTEM.cpp) give to main.cpp. Each system is a program of its own, without Ayatori.
//
// 1. The algorithms are those of apps/: a task a call, no cut-off in fib and uts; what is no task is shared with them
//    (apps/common/queens.hpp, tree.hpp).
// 2. `run` is called by one of the system's workers, of which there are as many as main.cpp was asked for; with one worker
//    the process has one CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/queens.hpp"
#include "common/tree.hpp"

namespace peers {

// An operation of which `run` does `count`. Its name is that of the case `threads` of ayatori-bench-cases.
struct Operation {
  const char* name;
  void (*run)(int count);
  int count;
};
inline constexpr const char* kEmpty = "fork + join of an empty thread";
inline constexpr const char* kYield = "yield to another thread";
inline constexpr const char* kFreeMutex = "lock + unlock of a free mutex";
inline constexpr const char* kRoundTrip = "condition variable, there and back";

struct System {
  const char* name;
  void (*with_workers)(int workers, const std::function<void()>& run);
  std::int64_t (*fib)(std::int64_t n);
  // Null: the system cannot have so many threads.
  std::int64_t (*nqueens)(const common::queens::Board& board, int n, int row, int cutoff);
  common::tree::Counts (*uts)(const common::tree::Tree& tree, const common::tree::Node& root);
  std::vector<Operation> (*operations)();
};
extern const System the_system;

std::int64_t fib(std::int64_t n);
std::int64_t nqueens(const common::queens::Board& board, int n, int row, int cutoff);
common::tree::Counts uts(const common::tree::Tree& tree, const common::tree::Node& node);
std::vector<Operation> operations();

}  // namespace peers
