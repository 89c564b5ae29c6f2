// SPDX-License-Identifier: Apache-2.0
// Offloading over any network of the conformance suite: the same body, the same members, with an OffloadTransport between.
#pragma once

#include <memory>
#include <vector>

#include "harness.hpp"
#include "net/offload/transport.hpp"

namespace ayatori::net::testing {

template <class Network, offload::OffloadMode kMode, int kExecutors>
struct Offloaded {
  using Below = Network;
  static constexpr bool kReal = Network::kReal;
  static constexpr const char* kSuffix = kMode == offload::OffloadMode::kWorker
                                             ? (kExecutors == 1 ? "Worker1" : "Worker2")
                                             : (kExecutors == 1 ? "Offload1" : "Offload2");

  static void run(const Job& job, const Prepare& prepare, const Body& body) {
    std::vector<std::unique_ptr<offload::OffloadTransport>> over(
        static_cast<std::size_t>(job.processes));  // by process
    Network::run(
        job,
        [&](Context& below) {
          offload::OffloadOptions options;
          options.mode = kMode;
          options.executors = kExecutors;
          if (job.tiny) options.tags = 4;
          auto& net = over[static_cast<std::size_t>(below.net.self())];
          net = std::make_unique<offload::OffloadTransport>(below.net, options);
          Context context{*net, below.memory, below.die, below.threads};
          prepare(context);
        },
        [&](Context& below) {
          // Ends before the transport below, also where the body dies.
          const auto net = std::move(over[static_cast<std::size_t>(below.net.self())]);
          net->start_executors();
          Context context{*net, below.memory, below.die, below.threads};
          body(context);
        });
  }
};

}  // namespace ayatori::net::testing
