// SPDX-License-Identifier: Apache-2.0
// The communication library in a program that also has threads: open() before ayatori::run, the transport used by the OS
// thread that called it, run() in between.
#include <ayatori/ayatori.hpp>
#include <ayatori/net.hpp>

#include <cstdio>

int main(int argc, char** argv) {
  namespace net = ayatori::net;
  const net::OwnedTransport job = net::open();
  auto* const word = static_cast<std::uint64_t*>(net::allocate_memory(sizeof(std::uint64_t)));
  const net::RegionId region = job->register_memory(word, sizeof *word);
  net::barrier(*job);
  const int status = ayatori::run(argc, argv, [](auto) {
    return ayatori::parallel_reduce(
               0L, 1'000L, 10L, 0L, [](long i) { return i; }, [](long a, long b) { return a + b; }) == 499'500
               ? 0
               : 1;
  });
  net::atomic(*job, {0, region, 0}, net::AtomicOp::kFetchAdd, 1);
  net::barrier(*job);
  const bool right = job->self() != 0 || *word == static_cast<std::uint64_t>(job->processes());
  if (job->self() == 0) std::printf("check: %s\n", status == 0 && right ? "ok" : "FAILED");
  return status != 0 || !right ? 1 : 0;
}
