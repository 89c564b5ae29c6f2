// SPDX-License-Identifier: Apache-2.0
#include "tasks/binding.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/knobs.hpp"
#include "base/log.hpp"
#include "base/topology.hpp"

namespace ayatori::tasks::binding {
namespace {

// Private to the process; constant after prepare().
struct State {
  int workers = 0;
  std::vector<int> cpus;  // of each worker, process by process
};
State& state() {
  static State s;
  return s;
}

struct Claimed {
  base::Cpu cpu;
  int fd;
};

}  // namespace

void prepare(int processes, int workers) {
  const std::string_view how = base::knob_string("AYATORI_BIND");
  if (how == "none") return;
  const bool automatic = how == "auto";
  const auto needed = static_cast<std::size_t>(processes) * static_cast<std::size_t>(workers);
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (automatic &&
      (sched_getaffinity(0, sizeof mask, &mask) != 0 || needed > static_cast<std::size_t>(CPU_COUNT(&mask)))) {
    base::log_info("workers are not bound: {} for {} CPUs", needed, CPU_COUNT(&mask));
    return;
  }
  const base::Topology topology = base::look_at_topology();
  std::vector<Claimed> claimed;
  std::vector<base::Cpu> free;
  for (const base::Cpu& cpu : topology.cpus)
    if (const int fd = base::claim_cpu(cpu.number); fd >= 0) {
      claimed.push_back({cpu, fd});
      free.push_back(cpu);
    }
  State& s = state();
  const bool enough = free.size() >= needed;
  if (enough || !automatic) s.cpus = base::place_workers(enough ? free : topology.cpus, processes, workers);
  s.workers = workers;
  for (const Claimed& c : claimed)
    if (std::find(s.cpus.begin(), s.cpus.end(), c.cpu.number) == s.cpus.end()) ::close(c.fd);
  if (s.cpus.empty())
    base::log_info("workers are not bound: {} for {} CPUs that no other job has claimed", needed, free.size());
}

void bind_worker(int process, int worker) noexcept {
  const State& s = state();
  if (s.cpus.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(s.cpus[static_cast<std::size_t>(process * s.workers + worker)], &one);
  if (const int error = pthread_setaffinity_np(pthread_self(), sizeof one, &one); error != 0)
    base::log_warn("worker {} is not bound to a CPU: error {}", worker, error);
}

}  // namespace ayatori::tasks::binding
