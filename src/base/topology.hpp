// SPDX-License-Identifier: Apache-2.0
// The CPUs that this process may use, and where they lie, as hwloc sees them; and on which of them workers are to run.
// Start-up and tools, one thread.
//
// P1. hwloc is loaded in a child process that ends: it has plugins and libraries of its own, which the image that the
//     members of a job are forked from does not get. Where it is not installed, or does not answer, every CPU counts as a
//     core of one package, in the order of the numbers.
// P2. A CPU is claimed by a lock on its folder in /sys, which ends with the last process that has the descriptor: there is
//     no name to leave behind. Whoever cannot claim has not, so that no two jobs share a CPU by mistake.
#pragma once

#include <string>
#include <vector>

namespace ayatori::base {

struct Cpu {
  int number = 0;   // the kernel's
  int package = 0;  // these count from 0, in the machine's order
  int node = 0;     // of memory (NUMA)
  int core = 0;
};

struct Topology {
  std::vector<Cpu> cpus;  // of the affinity mask
  std::string source;     // who says so
};
Topology look_at_topology();

// The CPU of each worker, process by process: processes spread over the nodes, each on neighbouring cores, a core for each
// worker before the second thread of any. Where workers are more than CPUs they go round. Empty without CPUs.
std::vector<int> place_workers(const std::vector<Cpu>& cpus, int processes, int workers);

// P2. The descriptor to keep, close-on-exec, or -1: somebody else has it, or nobody can know.
int claim_cpu(int number);

}  // namespace ayatori::base
