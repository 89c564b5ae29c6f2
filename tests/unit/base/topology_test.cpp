// SPDX-License-Identifier: Apache-2.0
// Where workers are put on machines of every shape, whom CPUs belong to, and that this machine's CPUs are all known.
#include "base/topology.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

namespace {

using ayatori::base::Cpu;
using ayatori::base::place_workers;

// Numbered as Linux does: first threads of all cores come first.
std::vector<Cpu> machine(int packages, int nodes_each, int cores_each, int threads_each) {
  std::vector<Cpu> cpus;
  const int cores = packages * nodes_each * cores_each;
  for (int core = 0; core < cores; ++core)
    for (int thread = 0; thread < threads_each; ++thread)
      cpus.push_back({thread * cores + core, core / (nodes_each * cores_each), core / cores_each, core});
  return cpus;
}

TEST(Topology, NobodyIsPlacedWithoutCpus) { EXPECT_TRUE(place_workers({}, 2, 2).empty()); }

TEST(Topology, ProcessesAreSpreadOverNodesAndTheirWorkersStayTogether) {
  const auto cpus = machine(2, 2, 4, 1);  // nodes 0-3, 4-7, 8-11, 12-15
  EXPECT_EQ(place_workers(cpus, 2, 2), (std::vector<int>{0, 1, 8, 9}));
  EXPECT_EQ(place_workers(cpus, 4, 2), (std::vector<int>{0, 1, 4, 5, 8, 9, 12, 13}));
  EXPECT_EQ(place_workers(cpus, 8, 1), (std::vector<int>{0, 1, 4, 5, 8, 9, 12, 13}));
  EXPECT_EQ(place_workers(cpus, 1, 6), (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(Topology, EveryWorkerHasACoreBeforeAnyHasTheSecondThreadOfOne) {
  const auto cpus = machine(1, 1, 4, 2);
  EXPECT_EQ(place_workers(cpus, 2, 2), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(place_workers(cpus, 1, 6), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(place_workers(machine(2, 1, 2, 2), 2, 2), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(place_workers(machine(2, 1, 2, 2), 1, 4), (std::vector<int>{0, 1, 4, 5})) << "one node, both threads";
}

TEST(Topology, WhatFitsHasACpuOfItsOwnAndWhatDoesNotGoesRound) {
  for (const auto& cpus : {machine(2, 2, 4, 2), machine(1, 1, 2, 1), machine(3, 1, 5, 1)})
    for (int processes = 1; processes <= 9; ++processes)
      for (int workers = 1; workers <= 9; ++workers) {
        const std::vector<int> places = place_workers(cpus, processes, workers);
        ASSERT_EQ(places.size(), static_cast<std::size_t>(processes * workers));
        const auto most = (places.size() + cpus.size() - 1) / cpus.size();
        for (const Cpu& cpu : cpus)
          ASSERT_LE(std::count(places.begin(), places.end(), cpu.number), static_cast<std::ptrdiff_t>(most))
              << processes << " x " << workers << " on " << cpus.size();
      }
}

TEST(Topology, KnowsTheCpusOfTheAffinityMaskWithAndWithoutHwloc) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const auto cpus = ayatori::base::look_at_topology().cpus;
  EXPECT_EQ(static_cast<int>(cpus.size()), CPU_COUNT(&before));
  std::set<int> numbers;
  for (const Cpu& cpu : cpus) {
    EXPECT_TRUE(CPU_ISSET(cpu.number, &before));
    numbers.insert(cpu.number);
  }
  EXPECT_EQ(numbers.size(), cpus.size());
  CPU_ZERO(&one);
  CPU_SET(cpus.back().number, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const auto narrowed = ayatori::base::look_at_topology();
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  ASSERT_EQ(narrowed.cpus.size(), 1u);
  EXPECT_EQ(narrowed.cpus[0].number, cpus.back().number);
  // A machine that is not this one: what hwloc says is of no use, and the mask is all that is known.
  setenv("HWLOC_SYNTHETIC", "pack:1 core:1 pu:1(indexes=900)", 1);
  const auto other = ayatori::base::look_at_topology();
  unsetenv("HWLOC_SYNTHETIC");
  EXPECT_EQ(static_cast<int>(other.cpus.size()), CPU_COUNT(&before));
  EXPECT_EQ(other.source, "the affinity mask alone");
}

TEST(Topology, ACpuIsClaimedOnceUntilItsClaimantsEnd) {
  const int number = ayatori::base::look_at_topology().cpus.front().number;
  const int mine = ayatori::base::claim_cpu(number);
  if (mine < 0) GTEST_SKIP() << "somebody else has CPU " << number << ", or /sys is not there";
  EXPECT_EQ(ayatori::base::claim_cpu(number), -1);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t heir = fork();
  if (heir == 0) {
    close(ends[1]);
    char c;
    (void)!read(ends[0], &c, 1);
    _exit(0);
  }
  close(ends[0]);
  close(mine);
  EXPECT_EQ(ayatori::base::claim_cpu(number), -1) << "a process that inherited the claim still has it";
  close(ends[1]);
  ASSERT_EQ(waitpid(heir, nullptr, 0), heir);
  const int again = ayatori::base::claim_cpu(number);
  EXPECT_GE(again, 0);
  close(again);
}

}  // namespace
