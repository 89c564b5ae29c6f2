// SPDX-License-Identifier: Apache-2.0
// Prints of each worker of the job on which CPUs it may run: "cpus 0,1". With --wait the job ends when its standard input does.
#include <sched.h>
#include <unistd.h>

#include <ayatori/ayatori.hpp>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::string cpus_of_caller() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::string text;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) text += (text.empty() ? "" : ",") + std::to_string(cpu);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto args) {
    const ayatori::pinned stay;
    // A thread on each worker of each process at once.
    const int all = ayatori::process_count() * ayatori::worker_count();
    ayatori::atomic<int> here{0};
    std::vector<ayatori::thread> threads;
    for (int i = 0; i < all; ++i)
      threads.emplace_back(ayatori::on(i % ayatori::process_count()), [&here, all] {
        const ayatori::pinned stay_there;
        {
          const std::string cpus = cpus_of_caller();
          std::printf("cpus %s\n", cpus.c_str());
          std::fflush(stdout);
        }
        here.fetch_add(1);
        while (here.load() < all) {  // the worker is not left
        }
      });
    for (ayatori::thread& t : threads) t.join();
    std::printf("all\n");
    std::fflush(stdout);
    char c;
    while (args.size() > 1 && std::string_view(args[1]) == "--wait" && ::read(0, &c, 1) > 0) {
    }
    return 0;
  });
}
