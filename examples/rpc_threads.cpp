// SPDX-License-Identifier: Apache-2.0
// Handlers on threads: each process keeps a part of a dictionary; whoever wants to know a word asks its keeper, whose handler
// locks, sleeps and asks further as any thread does.
// Usage: rpc_threads     alone, or with `ayatori run -n 4`
#include <ayatori/rpc.hpp>

#include <cstdio>

namespace net = ayatori::net;

namespace {

constexpr net::HandlerId kSteps = net::kUserHandlers;
constexpr long kNumbers = 10'000;

int keeper(long number) { return static_cast<int>(number % ayatori::process_count()); }

// [handler]
net::Transport* job = nullptr;  // of this process
ayatori::mutex guard;           // one for all processes
ayatori::global<long> longest;  // guarded by it
std::vector<std::atomic<int>> known(
    kNumbers);  // this process' part: steps of Collatz' game down to 1, 0: not known yet

int ask(long number) {
  int steps = 0;
  ayatori::call_rpc(*job, keeper(number), kSteps, &number, sizeof number, &steps, sizeof steps);
  return steps;
}

int steps_of(const ayatori::rpc_request& request) {
  const long number = request.as<long>();
  if (number == 1) return 0;
  if (number < kNumbers && known[number] != 0) return known[number];
  const int steps =
      1 + ask(number % 2 == 0 ? number / 2 : 3 * number + 1);  // often another process, and back to this one
  if (number < kNumbers) known[number] = steps;
  const std::lock_guard lock(guard);
  *longest = std::max<long>(*longest, steps);
  return steps;
}
// [/handler]

}  // namespace

int main(int argc, char** argv) {
  // [open]
  net::OpenOptions options;
  options.before_start = [](net::Transport& transport) { ayatori::on_rpc(transport, kSteps, steps_of); };
  const net::OwnedTransport owned = net::open(options);
  job = owned.get();
  const int status = ayatori::run(argc, argv, [](auto) {
    ayatori::parallel_for(1L, kNumbers, [](long number) {
      const ayatori::pinned here;  // `job` is this process'
      ask(number);
    });
    std::printf("at most %ld steps below %ld\n", *longest, kNumbers);
    return *longest == 261 ? 0 : 1;
  });
  // [/open]
  if (ayatori::process_id() == 0) std::printf("check: %s\n", status == 0 ? "ok" : "FAILED");
  return status;
}
