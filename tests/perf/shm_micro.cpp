// SPDX-License-Identifier: Apache-2.0
// What one operation of the shm transport costs between two processes: medians in nanoseconds over batches. Raw figures for
// docs/performance.md; the floor of everything above. Usage: shm_micro [ROUNDS]. The bars of the transport: shm_bars.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "bare_words.hpp"
#include "base/clock.hpp"
#include "net/net.hpp"
#include "net/shm/transport.hpp"

namespace {

using namespace ayatori;

constexpr int kBatches = 51;
constexpr std::uint64_t kStop = 65536;  // offset of the word that ends the peer's computation

template <class Operation>
void measure(const char* name, int rounds, bool print, Operation&& operation) {
  std::vector<double> ns;
  for (int batch = 0; batch < kBatches; ++batch) {
    const std::int64_t start = base::real_now_ns();
    for (int i = 0; i < rounds; ++i) operation();
    ns.push_back(static_cast<double>(base::real_now_ns() - start) / rounds);
  }
  std::sort(ns.begin(), ns.end());
  if (print) std::printf("%-28s %10.1f ns  (best %.1f)\n", name, ns[kBatches / 2], ns.front());
}

// Interleaved batches of both; prints the medians and their ratio.
template <class Ours, class Least>
void compare(const char* name, int rounds, Ours&& ours, Least&& least) {
  std::vector<double> ns[2];
  const auto batch = [&](std::vector<double>& into, auto& operation) {
    const std::int64_t start = base::real_now_ns();
    for (int i = 0; i < rounds; ++i) operation();
    into.push_back(static_cast<double>(base::real_now_ns() - start) / rounds);
  };
  for (int i = 0; i < kBatches; ++i) {
    batch(ns[0], ours);
    batch(ns[1], least);
  }
  for (auto& all : ns) std::sort(all.begin(), all.end());
  std::printf("%-28s %10.1f ns, bare %.1f ns: %.2f\n", name, ns[0][kBatches / 2], ns[1][kBatches / 2],
              ns[0][kBatches / 2] / ns[1][kBatches / 2]);
}

void echo(void* context, const net::Message& message) {
  static_cast<net::Transport*>(context)->reply(message.token, message.payload, message.size_bytes);
}

int member(net::shm::ShmWorld& world, std::byte* memory, std::size_t bytes, int self, int rounds) {
  net::shm::ShmTransport net(world, self);
  net.register_memory(memory + static_cast<std::size_t>(self) * bytes, bytes, net::kAllRights);
  net.set_handler(net::kUserHandlers, echo, &net);
  net.start();
  net::barrier(net);
  const bool first = self == 0;
  if (first) {
    std::vector<std::byte> local(bytes);
    const net::RemoteAddress peer{1, 0, 0};
    const auto nothing = net::Callback{};
    measure("read 8 B", rounds, true, [&] { net.try_read_async({1, peer, local.data(), 8, nothing}); });
    measure("write 8 B", rounds, true, [&] { net.try_write_async({1, peer, local.data(), 8, nothing}); });
    measure("fetch-add", rounds, true,
            [&] { net.try_atomic_async({1, peer, net::AtomicOp::kFetchAdd, 1, 0, nothing}); });
    std::uint64_t completions = 0;
    const net::Callback counting{[](void* count, net::Completion) { ++*static_cast<std::uint64_t*>(count); },
                                 &completions};
    const bare::Memory bare_memory{memory + bytes, bytes};
    const auto bare_read = bare::pointer_to<net::ReadParams>(bare::read);
    const auto bare_write = bare::pointer_to<net::WriteParams>(bare::write);
    compare(
        "read 8 B, callback", rounds, [&] { net.try_read_async({1, peer, local.data(), 8, counting}); },
        [&] { bare_read(bare_memory, {1, peer, local.data(), 8, counting}); });
    compare(
        "write 8 B, callback", rounds, [&] { net.try_write_async({1, peer, local.data(), 8, counting}); },
        [&] { bare_write(bare_memory, {1, peer, local.data(), 8, counting}); });
    measure("read 512 B, whole words", rounds / 4, true,
            [&] { net.try_read_async({1, peer, local.data(), 512, nothing}); });
    measure("read 4 KiB", rounds / 8, true, [&] { net.try_read_async({1, peer, local.data(), 4096, nothing}); });
    measure("read 64 KiB", rounds / 64, true, [&] { net.try_read_async({1, peer, local.data(), 65536, nothing}); });
    net::barrier(net);
    // The peer waits in a barrier, so it polls first and sleeps between the batches.
    measure("RPC round trip, 8 B", rounds / 16, true,
            [&] { net::rpc(net, 1, net::kUserHandlers, local.data(), 8, local.data(), 8); });
    measure("RPC round trip, 4 KiB", rounds / 16, true,
            [&] { net::rpc(net, 1, net::kUserHandlers, local.data(), 4000, local.data(), 4000); });
    net::barrier(net);
    // The peer computes: its progress thread answers.
    measure("RPC, peer computes", rounds / 256, true,
            [&] { net::rpc(net, 1, net::kUserHandlers, local.data(), 8, local.data(), 8); });
    net::atomic(net, {1, 0, kStop}, net::AtomicOp::kSwap, 1);
  } else {
    net::barrier(net);
    net::barrier(net);
    const std::atomic_ref<std::uint64_t> stop(*reinterpret_cast<std::uint64_t*>(memory + bytes + kStop));
    while (stop.load(std::memory_order_acquire) == 0) {
    }
  }
  net::barrier(net);
  measure("barrier", rounds / 16, first, [&] { net::barrier(net); });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(64, std::atoi(argv[1])) : 16'000;
  constexpr std::size_t kBytes = 128 * 1024;
  net::shm::ShmConfig config;
  config.processes = 2;
  std::unique_ptr<net::shm::ShmWorld> world;
  if (const base::Status status = net::shm::ShmWorld::create(config, &world); !status) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  auto* memory = static_cast<std::byte*>(world->map_shared(2 * kBytes));
  if (memory == nullptr) return 1;
  const pid_t child = fork();
  if (child == 0) _exit(member(*world, memory, kBytes, 1, rounds));
  const int status = member(*world, memory, kBytes, 0, rounds);
  waitpid(child, nullptr, 0);
  return status;
}
