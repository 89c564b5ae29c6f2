// SPDX-License-Identifier: Apache-2.0
// The communication library alone: the processes of the job stand in a ring. Each writes into the memory of its right
// neighbour, adds to a counter at process 0, sends a message round the ring, and all sum up what they got.
// Usage: net_ring [ROUNDS]     alone, or with `ayatori run -n 4`, `ayatori run --hosts a,b`, `srun --mpi=pmix`, `mpirun`
#include <ayatori/net.hpp>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace net = ayatori::net;

namespace {

constexpr net::HandlerId kGreeting = net::kUserHandlers;
constexpr int kRoundsMax = 100'000;

bool all_well = true;
void check(bool holds, const char* what) {
  if (!holds) std::fprintf(stderr, "net_ring: wrong: %s\n", what);
  all_well = all_well && holds;
}

std::uint64_t word(int process, int round) { return static_cast<std::uint64_t>(process) * kRoundsMax + round + 1; }

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1'000;
  if (rounds < 1 || rounds > kRoundsMax) {
    std::fprintf(stderr, "usage: net_ring [ROUNDS]     1 to %d, default 1000\n", kRoundsMax);
    return 2;
  }

  // [open]
  std::atomic<int> greeted_by{-1};
  net::OpenOptions options;
  options.before_start = [&](net::Transport& job) {
    job.set_handler(
        kGreeting,
        [](void* where, const net::Message& message) { *static_cast<std::atomic<int>*>(where) = message.source; },
        &greeted_by);
  };
  const net::OwnedTransport owned = net::open(options);
  net::Transport& job = *owned;
  const int self = job.self();
  const int count = job.processes();
  const int right = (self + 1) % count;
  const int left = (self + count - 1) % count;
  // [/open]

  // A counter, then a word a round. Everybody registers the same, so all know each other's region.
  const std::size_t bytes = (static_cast<std::size_t>(rounds) + 1) * sizeof(std::uint64_t);
  auto* const words = static_cast<std::uint64_t*>(net::allocate_memory(bytes));
  const net::RegionId region = words != nullptr ? job.register_memory(words, bytes) : net::kNoRegion;
  if (region == net::kNoRegion) {
    std::fprintf(stderr, "net_ring: no memory for %d rounds\n", rounds);
    return 1;
  }
  check(net::barrier(job).ok(), "barrier");

  for (int round = 0; round < rounds; ++round) {
    std::uint64_t value = word(self, round);
    const net::RemoteAddress slot{right, region, (static_cast<std::uint64_t>(round) + 1) * sizeof value};
    if (!net::write(job, slot, &value, sizeof value).ok()) check(false, "write");
    if (!net::atomic(job, {0, region, 0}, net::AtomicOp::kFetchAdd, 1).ok()) check(false, "fetch-add");
  }
  check(net::message(job, right, kGreeting, nullptr, 0).ok(), "message");
  check(net::wait_until(job, [&] { return greeted_by == left; }, 10'000'000'000), "greeting of the left neighbour");
  check(net::barrier(job).ok(), "barrier");

  std::uint64_t got = 0;
  for (int round = 0; round < rounds; ++round) {
    if (words[round + 1] != word(left, round)) check(false, "what the left neighbour wrote");
    got += words[round + 1];
  }
  std::uint64_t total = 0;
  check(net::reduce(job, &got, &total, 1, net::Element::kU64, net::ReduceOp::kSum).ok(), "allreduce");
  std::uint64_t counter = 0;
  check(net::read(job, {0, region, 0}, &counter, sizeof counter).ok(), "read");
  check(counter == static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(rounds), "counter");

  std::uint64_t expected = 0;
  for (int process = 0; process < count; ++process)
    for (int round = 0; round < rounds; ++round) expected += word(process, round);
  check(total == expected, "sum");
  const std::uint64_t wrong = all_well ? 0 : 1;
  std::uint64_t wrong_anywhere = 0;
  check(net::reduce(job, &wrong, &wrong_anywhere, 1, net::Element::kU64, net::ReduceOp::kSum).ok(), "allreduce");

  job.unregister_memory(region);
  net::free_memory(words);
  if (self == 0) {
    std::printf("sum %llu, counter %llu, %d processes, %d rounds\n", static_cast<unsigned long long>(total),
                static_cast<unsigned long long>(counter), count, rounds);
    std::printf("check: %s\n", all_well && wrong_anywhere == 0 ? "ok" : "FAILED");
  }
  return all_well ? 0 : 1;
}
