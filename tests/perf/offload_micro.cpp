// SPDX-License-Identifier: Apache-2.0
// What offloading costs and gives over the shm transport (docs/design/offloading.md), after listings 4.6 and 4.7 of the
// thesis: overhead o (a try_ call that succeeds), latency and rate of 8-byte reads by 1 to 16 requester threads, and what idle
// executors burn. Modes are interleaved; medians of kRepeats. Usage:
// offload_micro [MILLISECONDS a measurement [TAGS]]
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "net/net.hpp"
#include "net/offload/transport.hpp"
#include "net/shm/transport.hpp"

namespace {

using namespace ayatori;
using net::offload::OffloadMode;

constexpr int kRepeats = 5;
constexpr std::size_t kBytes = 4096;
constexpr int kIdleProcesses = 8;
constexpr std::array kRequesters{1, 2, 4, 8, 16};
constexpr std::array kModes{OffloadMode::kDirect, OffloadMode::kOffload, OffloadMode::kWorker};
constexpr std::array kNames{"direct", "offload", "worker"};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

double ns_per_cycle() {
  const std::int64_t start_ns = base::real_now_ns();
  const std::uint64_t start = __rdtsc();
  while (base::real_now_ns() - start_ns < 20'000'000) {
  }
  return static_cast<double>(base::real_now_ns() - start_ns) / static_cast<double>(__rdtsc() - start);
}

struct Figures {
  double overhead_ns = 0;
  double latency_ns = 0;
  double rate = 0;  // per microsecond
};

struct alignas(64) Requester {
  std::atomic<std::uint64_t> completed{0};
  std::uint64_t issued = 0;
  std::vector<double> overhead, latency;  // cycles
  std::uint64_t word = 0;

  bool ask(net::Transport& transport) {
    return transport.try_read_async({1,
                                     {1, 0, 0},
                                     &word,
                                     8,
                                     {[](void* self, net::Completion) {
                                        static_cast<Requester*>(self)->completed.fetch_add(1,
                                                                                           std::memory_order_release);
                                      },
                                      this}});
  }
};

// No time is lost to a thread that spins for what another one on the same CPU would do.
void step_back(net::Transport& transport) {
  if (transport.progress() == 0) sched_yield();
}

void measure_latency(net::Transport& transport, Requester& self, std::int64_t end_ns) {
  for (std::uint64_t i = 1; base::real_now_ns() < end_ns; ++i) {
    std::uint64_t before = __rdtsc();
    const std::uint64_t start = before;
    while (!self.ask(transport)) {
      step_back(transport);
      before = __rdtsc();
    }
    const std::uint64_t issued = __rdtsc();
    while (self.completed.load(std::memory_order_acquire) != i) step_back(transport);
    self.latency.push_back(static_cast<double>(__rdtsc() - start));
    self.overhead.push_back(static_cast<double>(issued - before));
  }
}

void measure_rate(net::Transport& transport, Requester& self, std::int64_t end_ns) {
  while (base::real_now_ns() < end_ns) {
    for (int i = 0; i < 64; ++i) {
      while (!self.ask(transport)) step_back(transport);
      ++self.issued;
    }
  }
  while (self.completed.load(std::memory_order_acquire) != self.issued) step_back(transport);
}

using Work = void (*)(net::Transport& transport, Requester& self, std::int64_t end_ns);

// Returns how many nanoseconds it took.
double on_threads(net::Transport& transport, std::vector<Requester>& requesters, Work work, std::int64_t ms) {
  const std::int64_t start_ns = base::real_now_ns();
  std::vector<std::thread> threads;
  for (Requester& requester : requesters)
    threads.emplace_back([&] { work(transport, requester, start_ns + ms * base::kNsPerMs); });
  for (std::thread& thread : threads) thread.join();
  return static_cast<double>(base::real_now_ns() - start_ns);
}

Figures measure(net::Transport& below, net::offload::OffloadOptions options, int requesters, std::int64_t ms,
                double cycle_ns) {
  net::offload::OffloadTransport transport(below, options);
  transport.start_executors();
  Figures figures;
  {
    std::vector<Requester> all(static_cast<std::size_t>(requesters));
    on_threads(transport, all, measure_latency, ms);
    std::vector<double> overhead, latency;
    for (const Requester& r : all) {
      overhead.insert(overhead.end(), r.overhead.begin(), r.overhead.end());
      latency.insert(latency.end(), r.latency.begin(), r.latency.end());
    }
    figures.overhead_ns = median(overhead) * cycle_ns;
    figures.latency_ns = median(latency) * cycle_ns;
  }
  std::vector<Requester> all(static_cast<std::size_t>(requesters));
  const double ns = on_threads(transport, all, measure_rate, ms);
  std::uint64_t completed = 0;
  for (const Requester& r : all) completed += r.issued;
  figures.rate = static_cast<double>(completed) * 1e3 / ns;
  return figures;
}

void measure_all(net::Transport& below, std::int64_t ms, std::uint32_t tags) {
  const double cycle_ns = ns_per_cycle();
  std::vector<double> timer;
  for (int i = 0; i < 1001; ++i) {
    const std::uint64_t start = __rdtsc();
    timer.push_back(static_cast<double>(__rdtsc() - start));
  }
  std::printf("8-byte reads; reading the clock takes %.0f ns of each o\n", median(timer) * cycle_ns);
  std::printf("%-8s %10s %10s %12s %16s\n", "mode", "requesters", "o ns", "latency ns", "requests/us");
  for (const int requesters : kRequesters) {
    std::array<std::vector<Figures>, kModes.size()> figures;
    for (int repeat = 0; repeat < kRepeats; ++repeat)
      for (std::size_t m = 0; m < kModes.size(); ++m)
        figures[m].push_back(measure(below, {.mode = kModes[m], .tags = tags}, requesters, ms, cycle_ns));
    for (std::size_t m = 0; m < kModes.size(); ++m) {
      const auto column = [&](double Figures::* member) {
        std::vector<double> values;
        for (const Figures& f : figures[m]) values.push_back(f.*member);
        return median(values);
      };
      std::printf("%-8s %10d %10.0f %12.0f %16.2f\n", kNames[m], requesters, column(&Figures::overhead_ns),
                  column(&Figures::latency_ns), column(&Figures::rate));
    }
  }
  std::fflush(stdout);
}

// What a process burns that waits for a second: nanoseconds of CPU.
std::int64_t idle_cpu_ns(net::Transport& below, OffloadMode mode) {
  net::offload::OffloadOptions options;
  options.mode = mode;
  net::offload::OffloadTransport transport(below, options);
  transport.start_executors();
  timespec before, after;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  net::wait_until(transport, [] { return false; }, base::kNsPerSecond);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  return (after.tv_sec - before.tv_sec) * base::kNsPerSecond + after.tv_nsec - before.tv_nsec;
}

// Runs body(transport) in each of `processes` members; returns whether all ended well.
bool job(int processes, const std::function<void(net::Transport&)>& body) {
  net::shm::ShmConfig config;
  config.processes = processes;
  std::unique_ptr<net::shm::ShmWorld> world;
  if (const base::Status status = net::shm::ShmWorld::create(config, &world); !status) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return false;
  }
  auto* memory = static_cast<std::byte*>(world->map_shared(static_cast<std::size_t>(processes) * kBytes));
  if (memory == nullptr) return false;
  const auto member = [&](int self) {
    net::shm::ShmTransport transport(*world, self);
    transport.register_memory(memory + static_cast<std::size_t>(self) * kBytes, kBytes, net::kAllRights);
    transport.start();
    net::barrier(transport);
    body(transport);
    net::barrier(transport);
  };
  for (int p = 1; p < processes; ++p) {
    if (fork() != 0) continue;
    member(p);
    _exit(0);
  }
  member(0);
  bool ok = true;
  for (int p = 1; p < processes; ++p) {
    int status = 0;
    ok = wait(&status) > 0 && status == 0 && ok;
  }
  return ok;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t ms = argc > 1 ? std::max(1, std::atoi(argv[1])) : 100;
  const std::uint32_t tags =
      argc > 2 ? static_cast<std::uint32_t>(std::max(2, std::atoi(argv[2]))) : net::offload::OffloadOptions{}.tags;
  bool ok = job(2, [ms, tags](net::Transport& transport) {
    if (transport.self() == 0) measure_all(transport, ms, tags);
  });
  for (std::size_t m = 0; m < kModes.size(); ++m) {
    ok = job(kIdleProcesses,
             [m](net::Transport& transport) {
               std::int64_t mine = idle_cpu_ns(transport, kModes[m]);
               std::int64_t sum = 0;
               net::reduce(transport, &mine, &sum, 1, net::Element::kI64, net::ReduceOp::kSum);
               if (transport.self() == 0)
                 std::printf("%-8s %d idle processes burn %.2f%% of a core\n", kNames[m], kIdleProcesses,
                             static_cast<double>(sum) / 1e7);
               std::fflush(stdout);
             }) &&
         ok;
  }
  return ok ? 0 : 1;
}
