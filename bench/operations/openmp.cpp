// SPDX-License-Identifier: Apache-2.0
// OpenMP's tasks have no conditions to wait for, and libgomp's taskyield does nothing: there is nothing to measure. The mutex
// is a critical section: what omp_set_lock() does, without a header that only gcc's or LLVM's OpenMP has.
#include "peers/peer.hpp"

namespace {

void empty_tasks(int count) {
  for (int i = 0; i < count; ++i) {
#pragma omp task
    asm volatile("");  // or the compiler leaves the task out
#pragma omp taskwait
  }
}

void locks(int count) {
  for (int i = 0; i < count; ++i) {
#pragma omp critical(free_mutex)
    asm volatile("");
  }
}

}  // namespace

std::vector<peers::Operation> peers::operations() {
  return {{kEmpty, empty_tasks, 1'000'000}, {kFreeMutex, locks, 2'000'000}};
}
