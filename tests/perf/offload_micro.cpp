// SPDX-License-Identifier: Apache-2.0
// What offloading costs and gives (docs/design/offloading.md), after listings 4.6 and 4.7 of the thesis: overhead o (a try_
// call that succeeds), latency and rate of 8-byte reads by 1 to 16 requester threads, and what idle executors burn. Modes
// take turns within a repetition, so the bars' ratios are of neighbours in time: median [lowest, highest].
// Usage: offload_micro [shm|tcp [MILLISECONDS a measurement [REPETITIONS [TAGS]]]]
// Status: 1 when a bar is missed.
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "clock.hpp"  // of bench/net
#include "net/net.hpp"
#include "net/offload/transport.hpp"
#include "net/shm/transport.hpp"
#include "net/tcp/transport.hpp"

namespace {

using namespace ayatori;
using net::offload::OffloadMode;

constexpr int kRepeats = 5;
constexpr int kBurst = 64;  // requests in a row, each timed for o
constexpr std::size_t kBytes = 4096;
constexpr int kIdleProcesses = 8;
constexpr double kIdlePercent = 5;  // of a core, all of them together
constexpr std::array kRequesters{1, 2, 4, 8, 16};
constexpr std::array kModes{OffloadMode::kDirect, OffloadMode::kOffload, OffloadMode::kWorker};
constexpr std::array kNames{"direct", "offload", "worker"};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

const bench::Clock& ticks() {
  static const bench::Clock clock;
  return clock;
}

struct Figures {
  double overhead_ns = 0;
  double latency_ns = 0;
  double rate = 0;  // per microsecond
};

struct alignas(64) Requester {
  std::atomic<std::uint64_t> completed{0};
  std::uint64_t issued = 0;
  std::vector<std::uint64_t> times;  // ticks
  std::uint64_t word = 0;

  bool ask(net::Transport& transport) {
    const auto done = [](void* self, net::Completion) {
      static_cast<Requester*>(self)->completed.fetch_add(1, std::memory_order_release);
    };
    if (!transport.try_read_async({1, {1, 0, 0}, &word, 8, {done, this}})) return false;
    ++issued;
    return true;
  }
  bool idle() const noexcept { return completed.load(std::memory_order_acquire) == issued; }
};

// No time is lost to a thread that spins for what another one on the same CPU would do.
void step_back(net::Transport& transport) {
  if (transport.progress() == 0) sched_yield();
}

// One request under way.
void measure_latency(net::Transport& transport, Requester& self, std::int64_t end_ns) {
  while (base::real_now_ns() < end_ns) {
    const std::uint64_t start = ticks().now();
    while (!self.ask(transport)) step_back(transport);
    while (!self.idle()) step_back(transport);
    self.times.push_back(ticks().now() - start);
  }
}

// Bursts that find room; what they leave to do is done between them.
void measure_overhead(net::Transport& transport, Requester& self, std::int64_t end_ns) {
  while (base::real_now_ns() < end_ns) {
    for (int i = 0; i < kBurst; ++i) {
      const std::uint64_t start = ticks().now();
      const bool taken = self.ask(transport);
      const std::uint64_t end = ticks().now();
      if (!taken) break;
      self.times.push_back(end - start);
    }
    while (!self.idle()) step_back(transport);
  }
}

void measure_rate(net::Transport& transport, Requester& self, std::int64_t end_ns) {
  while (base::real_now_ns() < end_ns) {
    for (int i = 0; i < 64; ++i) net::until_taken(transport, [&] { return self.ask(transport); });
  }
  while (!self.idle()) step_back(transport);
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

Figures measure(net::Transport& below, net::offload::OffloadOptions options, int requesters, std::int64_t ms) {
  net::offload::OffloadTransport transport(below, options);
  transport.start_executors();
  const auto median_of = [&](Work work) {
    std::vector<Requester> all(static_cast<std::size_t>(requesters));
    on_threads(transport, all, work, ms);
    std::vector<std::uint64_t> times;
    for (const Requester& r : all) times.insert(times.end(), r.times.begin(), r.times.end());
    return times.empty() ? 0 : ticks().median_ns(std::move(times), 1);
  };
  Figures figures;
  figures.overhead_ns = median_of(measure_overhead);
  figures.latency_ns = median_of(measure_latency);
  std::vector<Requester> all(static_cast<std::size_t>(requesters));
  const double ns = on_threads(transport, all, measure_rate, ms);
  std::uint64_t completed = 0;
  for (const Requester& r : all) completed += r.issued;
  figures.rate = static_cast<double>(completed) * 1e3 / ns;
  return figures;
}

// By repetition, number of requesters, mode.
using Row = std::array<std::array<Figures, kModes.size()>, kRequesters.size()>;

std::vector<double> column(const std::vector<Row>& rows, std::size_t requesters, std::size_t mode,
                           double Figures::* member) {
  std::vector<double> values;
  for (const Row& row : rows) values.push_back(row[requesters][mode].*member);
  return values;
}

// A bar is kept when the median is.
bool print_bar(const char* what, bool at_least, double limit, std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  const double value = ratios[ratios.size() / 2];
  const bool kept = at_least ? value >= limit : value <= limit;
  std::printf("%-58s %s %4.2f   %5.2f [%5.2f, %5.2f]   %s\n", what, at_least ? ">=" : "<=", limit, value,
              ratios.front(), ratios.back(), kept ? "kept" : "missed");
  return kept;
}

// Among the numbers of requesters the one with the highest (lowest) median, so that no repetition chooses its own.
std::size_t extreme(const std::vector<Row>& rows, std::size_t mode, double Figures::* member, bool highest) {
  std::size_t found = 0;
  for (std::size_t r = 1; r < kRequesters.size(); ++r) {
    const double here = median(column(rows, r, mode, member)), there = median(column(rows, found, mode, member));
    if (highest ? here > there : here < there) found = r;
  }
  return found;
}

std::vector<double> ratios(const std::vector<double>& above, const std::vector<double>& below) {
  std::vector<double> all(above.size());
  std::transform(above.begin(), above.end(), below.begin(), all.begin(), std::divides<>{});
  return all;
}

// What the default mode was chosen by, besides the bars.
void print_price(const std::vector<Row>& rows, std::size_t mode) {
  std::vector<double> all =
      ratios(column(rows, 0, mode, &Figures::latency_ns), column(rows, 0, 0, &Figures::latency_ns));
  std::sort(all.begin(), all.end());
  std::printf("latency, 1 requester, %-36s           %5.2f [%5.2f, %5.2f]\n",
              (std::string(kNames[mode]) + " / direct").c_str(), all[all.size() / 2], all.front(), all.back());
}

bool print_bars(const std::vector<Row>& rows) {
  constexpr std::size_t kDirectMode = 0, kOffloadMode = 1, kLast = kRequesters.size() - 1;
  const auto rate = [&](std::size_t r, std::size_t mode) { return column(rows, r, mode, &Figures::rate); };
  const auto overhead = [&](bool highest) {
    return column(rows, extreme(rows, kOffloadMode, &Figures::overhead_ns, highest), kOffloadMode,
                  &Figures::overhead_ns);
  };
  bool all =
      print_bar("rate, 1 requester, offload / direct", true, 2, ratios(rate(0, kOffloadMode), rate(0, kDirectMode)));
  const std::size_t best = extreme(rows, kOffloadMode, &Figures::rate, true);
  all = print_bar("rate, offload, 16 requesters / the best number of them", true, 0.8,
                  ratios(rate(kLast, kOffloadMode), rate(best, kOffloadMode))) &&
        all;
  return print_bar("o, offload, highest / lowest of 1 to 16 requesters", false, 1.2,
                   ratios(overhead(true), overhead(false))) &&
         all;
}

bool measure_all(net::Transport& below, std::int64_t ms, int repeats, std::uint32_t tags) {
  (void)ticks();  // not first on a requester's thread
  std::vector<Row> rows(static_cast<std::size_t>(repeats));
  for (Row& row : rows)
    for (std::size_t r = 0; r < kRequesters.size(); ++r)
      for (std::size_t m = 0; m < kModes.size(); ++m)
        row[r][m] = measure(below, {.mode = kModes[m], .tags = tags}, kRequesters[r], ms);
  std::printf("8-byte reads, medians of %d\n%-8s %10s %10s %12s %16s\n", repeats, "mode", "requesters", "o ns",
              "latency ns", "requests/us");
  for (std::size_t r = 0; r < kRequesters.size(); ++r)
    for (std::size_t m = 0; m < kModes.size(); ++m)
      std::printf("%-8s %10d %10.1f %12.0f %16.3f\n", kNames[m], kRequesters[r],
                  median(column(rows, r, m, &Figures::overhead_ns)), median(column(rows, r, m, &Figures::latency_ns)),
                  median(column(rows, r, m, &Figures::rate)));
  const bool kept = print_bars(rows);
  for (const std::size_t mode : {std::size_t{1}, std::size_t{2}}) print_price(rows, mode);
  std::fflush(stdout);
  return kept;
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

// The network of a job: made before the fork, one end of it in each member.
struct Network {
  virtual ~Network() = default;
  virtual std::unique_ptr<net::Transport> attach(int self) = 0;
  std::byte* memory = nullptr;  // kBytes a process
};

struct Shm final : Network {
  explicit Shm(int processes) {
    net::shm::ShmConfig config;
    config.processes = processes;
    if (const base::Status status = net::shm::ShmWorld::create(config, &world); !status)
      base::fatal("{}", status.message());
    memory = static_cast<std::byte*>(world->map_shared(static_cast<std::size_t>(processes) * kBytes));
    AYT_CHECK(memory != nullptr, "no shared memory");
  }
  std::unique_ptr<net::Transport> attach(int self) override {
    return std::make_unique<net::shm::ShmTransport>(*world, self);
  }
  std::unique_ptr<net::shm::ShmWorld> world;
};

struct Tcp final : Network {
  explicit Tcp(int processes) : room(static_cast<std::size_t>(processes) * kBytes), listeners(room.size() / kBytes) {
    config.processes = processes;
    config.addresses.resize(listeners.size());
    for (std::size_t p = 0; p < listeners.size(); ++p)
      if (const base::Status status = net::tcp::listen_on(net::tcp::kLoopback, 0, &listeners[p], &config.addresses[p]);
          !status)
        base::fatal("{}", status.message());
    memory = room.data();
  }
  std::unique_ptr<net::Transport> attach(int self) override {
    config.self = self;
    config.listener = listeners[static_cast<std::size_t>(self)].release();
    listeners.clear();
    return std::make_unique<net::tcp::TcpTransport>(std::move(config));
  }
  std::vector<std::byte> room;
  std::vector<net::tcp::Socket> listeners;
  net::tcp::TcpConfig config;
};

// Runs body(transport) in each of `processes` members; returns whether all ended well.
bool job(bool tcp, int processes, const std::function<bool(net::Transport&)>& body) {
  const std::unique_ptr<Network> network =
      tcp ? std::unique_ptr<Network>(new Tcp(processes)) : std::unique_ptr<Network>(new Shm(processes));
  const auto member = [&](int self) {
    const std::unique_ptr<net::Transport> transport = network->attach(self);
    transport->register_memory(network->memory + static_cast<std::size_t>(self) * kBytes, kBytes, net::kAllRights);
    transport->start();
    net::barrier(*transport);
    const bool ok = body(*transport);
    net::barrier(*transport);
    return ok;
  };
  for (int p = 1; p < processes; ++p) {
    if (fork() != 0) continue;
    _exit(member(p) ? 0 : 1);
  }
  bool ok = member(0);
  for (int p = 1; p < processes; ++p) {
    int status = 0;
    ok = wait(&status) > 0 && status == 0 && ok;
  }
  return ok;
}

}  // namespace

int main(int argc, char** argv) {
  const bool tcp = argc > 1 && std::strcmp(argv[1], "tcp") == 0;
  const std::int64_t ms = argc > 2 ? std::max(1, std::atoi(argv[2])) : 50;
  const int repeats = argc > 3 ? std::max(1, std::atoi(argv[3])) : kRepeats;
  const std::uint32_t tags =
      argc > 4 ? static_cast<std::uint32_t>(std::max(2, std::atoi(argv[4]))) : net::offload::OffloadOptions{}.tags;
  bool ok = job(tcp, 2, [&](net::Transport& transport) {
    return transport.self() != 0 || measure_all(transport, ms, repeats, tags);
  });
  for (std::size_t m = 0; m < kModes.size(); ++m) {
    ok = job(tcp, kIdleProcesses,
             [m](net::Transport& transport) {
               std::int64_t mine = idle_cpu_ns(transport, kModes[m]);
               std::int64_t sum = 0;
               net::reduce(transport, &mine, &sum, 1, net::Element::kI64, net::ReduceOp::kSum);
               if (transport.self() != 0) return true;
               const double percent = static_cast<double>(sum) / 1e7;
               const bool kept = percent < kIdlePercent;
               std::printf("%-8s %d idle processes burn %.2f%% of a core (< %.0f%%)   %s\n", kNames[m], kIdleProcesses,
                           percent, kIdlePercent, kept ? "kept" : "missed");
               std::fflush(stdout);
               return kept;
             }) &&
         ok;
  }
  return ok ? 0 : 1;
}
