// SPDX-License-Identifier: Apache-2.0
// Tasks of oneTBB neither yield to each other nor wait for conditions: there is nothing to measure.
#include <oneapi/tbb/mutex.h>
#include <oneapi/tbb/task_group.h>

#include "peers/peer.hpp"

namespace {

void empty_tasks(int count) {
  for (int i = 0; i < count; ++i) {
    tbb::task_group tasks;
    tasks.run([] {});
    tasks.wait();
  }
}

void locks(int count) {
  tbb::mutex mutex;
  for (int i = 0; i < count; ++i) {
    mutex.lock();
    mutex.unlock();
  }
}

}  // namespace

std::vector<peers::Operation> peers::operations() {
  return {{kEmpty, empty_tasks, 1'000'000}, {kFreeMutex, locks, 2'000'000}};
}
