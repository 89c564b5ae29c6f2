// SPDX-License-Identifier: Apache-2.0
#include "measure.hpp"

#include <sched.h>
#include <time.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <thread>
#include <utility>

#include "../bare_words.hpp"
#include "job.hpp"

namespace bars {
namespace {

constexpr std::size_t kBytes = 8192;
constexpr int kBatches = 15;

net::Callback counting(std::uint64_t* count) {
  return {[](void* data, net::Completion) { ++*static_cast<std::uint64_t*>(data); }, count};
}

struct alignas(64) Line {
  std::atomic<std::uint64_t> value;
};

// ns_each() so much further down the stack: where the params of a call lie in their cache lines is worth two cycles of ten.
template <std::size_t kBytes, class Operation>
[[gnu::noinline]] double ns_further_down(int rounds, Operation& operation) {
  std::array<std::byte, kBytes> room;
  asm volatile("" : : "r"(room.data()) : "memory");
  const double ns = ns_each(rounds, operation);
  asm volatile("" : : "r"(room.data()) : "memory");
  return ns;
}

struct Compared {  // medians of the batches
  double ratio, own_ns;
};

// At each place a batch of ours, a batch bare, in turn.
template <std::size_t... kPlaces, class Ours, class Bare>
Compared compare_at(std::index_sequence<kPlaces...>, int rounds, Ours& ours, Bare& bare) {
  std::vector<double> ratios, own_ns;
  const auto add = [&](double own, double least) {
    ratios.push_back(own / least);
    own_ns.push_back(own);
  };
  for (int i = 0; i < kBatches; ++i)
    (add(ns_further_down<16 * (1 + kPlaces)>(rounds, ours), ns_further_down<16 * (1 + kPlaces)>(rounds, bare)), ...);
  return {median(ratios), median(own_ns)};
}
template <class Ours, class Bare>
Compared compare(int rounds, Ours&& ours, Bare&& bare) {
  return compare_at(std::make_index_sequence<8>(), rounds, ours, bare);
}

void measure_words(net::Transport& transport, std::byte* memory, Pair* result) {
  constexpr int kRounds = 20'000;
  std::uint64_t word = 0, completions = 0;
  const net::RemoteAddress peer{1, 0, 0};
  const net::Callback done = counting(&completions);
  const bare::Memory bare_memory{memory + kBytes, kBytes};
  const auto bare_read = bare::pointer_to<net::ReadParams>(bare::read);
  const auto bare_write = bare::pointer_to<net::WriteParams>(bare::write);
  const Compared read = compare(
      kRounds, [&] { transport.try_read_async({1, peer, &word, 8, done}); },
      [&] { bare_read(bare_memory, {1, peer, &word, 8, done}); });
  const Compared write = compare(
      kRounds, [&] { transport.try_write_async({1, peer, &word, 8, done}); },
      [&] { bare_write(bare_memory, {1, peer, &word, 8, done}); });
  result->read_ratio = read.ratio;
  result->read_ns = read.own_ns;
  result->write_ratio = write.ratio;
  result->write_ns = write.own_ns;
}

// lines: [0] process 0 to 1, [1] back.
double flag_ns(int self, Line* lines, std::uint64_t first, int rounds) {
  std::uint64_t turn = first;
  // Each value is stored once, by one process, and only compared: release and acquire pair with each other.
  return ns_each(rounds, [&] {
    ++turn;
    if (self == 0) lines[0].value.store(turn, std::memory_order_release);
    while (lines[1 - self].value.load(std::memory_order_acquire) != turn) {
    }
    if (self == 1) lines[1].value.store(turn, std::memory_order_release);
  });
}

void pair_member(net::Transport& transport, std::byte* memory, Pair* result) {
  constexpr int kRounds = 1000;
  const int self = transport.self();
  auto* const lines = reinterpret_cast<Line*>(memory + 4096);
  if (self == 0) measure_words(transport, memory, result);
  std::vector<double> flag, rpc, barrier;
  for (int batch = 0; batch < kBatches; ++batch) {
    net::barrier(transport);
    flag.push_back(flag_ns(self, lines, static_cast<std::uint64_t>(batch) * kRounds, kRounds));
    net::barrier(transport);
    std::atomic<std::uint64_t>& over = lines[2].value;
    const auto batches = static_cast<std::uint64_t>(batch) + 1;
    if (self == 0) {
      std::uint64_t word = 0;
      rpc.push_back(ns_each(kRounds, [&] { net::rpc(transport, 1, net::kUserHandlers, &word, 8, &word, 8); }));
      over.store(batches, std::memory_order_release);              // pairs with the wait below
      net::message(transport, 1, net::kUserHandlers, nullptr, 0);  // so that it looks
    } else {
      net::wait_until(transport, [&] { return over.load(std::memory_order_acquire) == batches; });
    }
    net::barrier(transport);
    barrier.push_back(ns_each(kRounds, [&] { net::barrier(transport); }));
  }
  if (self != 0) return;
  result->flag_ns = median(flag);
  result->rpc_ns = median(rpc);
  result->barrier_ns = median(barrier);
}

void threads_member(net::Transport& transport, Threads* result) {
  constexpr int kCalls = 256, kSamples = 100, kTurns = 7;
  if (transport.self() != 0) return;
  std::vector<double> all[std::size(kThreadCounts)];
  for (int turn = 0; turn < kTurns; ++turn) {  // CPUs change their speed between turns
    for (std::size_t i = 0; i < std::size(kThreadCounts); ++i) {
      const int count = kThreadCounts[i];
      std::barrier together(count);
      std::vector<std::vector<double>> samples(static_cast<std::size_t>(count));
      std::vector<std::thread> threads;
      for (std::vector<double>& own : samples) {
        threads.emplace_back([&] {
          alignas(64) std::uint64_t word = 0, completions = 0;
          own.reserve(kSamples);
          together.arrive_and_wait();
          for (int sample = 0; sample < kSamples; ++sample)
            own.push_back(
                ns_each(kCalls, [&] { transport.try_read_async({1, {1, 0, 0}, &word, 8, counting(&completions)}); }));
        });
      }
      for (std::thread& thread : threads) thread.join();
      std::vector<double> of_turn;
      for (const std::vector<double>& own : samples) of_turn.insert(of_turn.end(), own.begin(), own.end());
      all[i].push_back(median(std::move(of_turn)));
    }
  }
  for (std::size_t i = 0; i < std::size(kThreadCounts); ++i) result->read_ns[i] = median(all[i]);
}

struct Shared {  // in the memory of process 0
  std::atomic<std::int64_t> cpu_ns{0};
  std::atomic<int> over{0};
};

std::int64_t own_cpu_ns() {
  timespec spent{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return spent.tv_sec * 1'000'000'000 + spent.tv_nsec;
}

void idle_member(net::Transport& transport, Shared* shared, Idle* result) {
  constexpr std::int64_t kSettleNs = 300'000'000, kIdleNs = 2'000'000'000, kBetweenNs = 5'000'000;
  constexpr int kRpcs = 100;
  const auto never = [] { return false; };
  net::wait_until(transport, never, kSettleNs);
  const std::int64_t cpu = own_cpu_ns(), start = base::real_now_ns();
  net::wait_until(transport, never, kIdleNs);
  const std::int64_t wall = base::real_now_ns() - start;
  shared->cpu_ns.fetch_add(own_cpu_ns() - cpu, std::memory_order_relaxed);  // read after the barrier
  net::barrier(transport);
  if (transport.self() != 0) {
    net::wait_until(transport, [&] { return shared->over.load(std::memory_order_acquire) != 0; });  // pairs with below
    return;
  }
  result->burn = static_cast<double>(shared->cpu_ns.load(std::memory_order_relaxed)) / static_cast<double>(wall);
  std::vector<double> us;
  std::uint64_t word = 0;
  for (int i = 0; i < kRpcs; ++i) {
    net::wait_until(transport, never, kBetweenNs);
    const int to = 1 + i % (transport.processes() - 1);
    us.push_back(ns_each(1, [&] { net::rpc(transport, to, net::kUserHandlers, &word, 8, &word, 8); }) / 1000);
  }
  result->answer_us = median(us);
  shared->over.store(1, std::memory_order_release);  // pairs with the wait above
  for (int p = 1; p < transport.processes(); ++p) net::message(transport, p, net::kUserHandlers, nullptr, 0);
}

}  // namespace

void pin(int which) {
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed) && seen++ == which) CPU_SET(cpu, &one);
  if (CPU_COUNT(&one) != 0) sched_setaffinity(0, sizeof one, &one);
}

void ordinary_schedule() {
  const sched_param none{};
  sched_setscheduler(0, SCHED_OTHER, &none);
}

std::optional<Pair> measure_pair() {
  Pair result;
  if (!run_job(2, kBytes, &result, pin, pair_member)) return std::nullopt;
  return result;
}

std::optional<Threads> measure_threads() {
  Threads result;
  const bool well = run_job(
      2, kBytes, &result, [](int) { ordinary_schedule(); },
      [](net::Transport& transport, std::byte*, Threads* into) { threads_member(transport, into); });
  return well ? std::optional(result) : std::nullopt;
}

std::optional<Idle> measure_idle() {
  Idle idle;
  const bool well = run_job(
      8, kBytes, &idle, [](int) { ordinary_schedule(); },
      [](net::Transport& transport, std::byte* memory, Idle* into) {
        idle_member(transport, reinterpret_cast<Shared*>(memory), into);
      });
  return well ? std::optional(idle) : std::nullopt;
}

}  // namespace bars
