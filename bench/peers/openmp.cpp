// SPDX-License-Identifier: Apache-2.0
// Stacks of the other workers: OMP_STACKSIZE, which the driver sets.
#include "peer.hpp"

namespace peers {
namespace {

void with_workers(int workers, const std::function<void()>& run) {
#pragma omp parallel num_threads(workers)
#pragma omp single
  run();
}

}  // namespace

const System the_system = {"OpenMP", with_workers, fib, nqueens, uts, operations};

}  // namespace peers
