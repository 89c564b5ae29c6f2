// SPDX-License-Identifier: Apache-2.0
// Threads of the operating system, one a task: a few thousand of them at once is what there is room for.
#include "peer.hpp"

namespace peers {
namespace {

void with_workers(int, const std::function<void()>& run) { run(); }  // the kernel has the CPUs (peer.hpp, 2)

}  // namespace

const System the_system = {"std::thread", with_workers, fib, nullptr, nullptr, operations};

}  // namespace peers
