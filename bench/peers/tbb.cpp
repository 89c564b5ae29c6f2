// SPDX-License-Identifier: Apache-2.0
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include "peer.hpp"

namespace peers {
namespace {

void with_workers(int workers, const std::function<void()>& run) {
  using tbb::global_control;
  const global_control threads(global_control::max_allowed_parallelism, static_cast<std::size_t>(workers));
  const global_control stack(global_control::thread_stack_size, std::size_t{1} << 30);
  tbb::task_arena arena(workers);
  arena.execute(run);
}

}  // namespace

const System the_system = {"oneTBB", with_workers, fib, nqueens, uts, operations};

}  // namespace peers
