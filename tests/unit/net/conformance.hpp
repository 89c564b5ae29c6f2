// SPDX-License-Identifier: Apache-2.0
// The networks that the conformance suite runs on. One row each in Networks and Names.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <type_traits>

#include "harness.hpp"
#include "offload_harness.hpp"
#include "ucx_harness.hpp"

namespace ayatori::net::testing {

template <class Network>
class Conformance : public ::testing::Test {
 protected:
  static void run(const Job& job, const Body& body) {
    Network::run(job, [](Context&) {}, body);
  }
};

class Names {
 public:
  template <class Network>
  static std::string GetName(int) {
    if constexpr (requires { Network::kSuffix; }) return GetName<typename Network::Below>(0) + Network::kSuffix;
    if constexpr (requires { Network::name(); }) return Network::name();
    if (std::is_same_v<Network, ShmForks>) return "ShmForks";
    return std::is_same_v<Network, ShmThreads> ? "ShmThreads" : "Sim";
  }
};
constexpr auto kOffload = offload::OffloadMode::kOffload;
constexpr auto kWorker = offload::OffloadMode::kWorker;
using Networks =
    ::testing::Types<ShmForks, ShmThreads, TcpForks, TcpThreads, UcxTcp::Forks, UcxTcp::Threads, UcxShm::Forks,
                     UcxShm::Threads, Sim, Offloaded<ShmForks, kOffload, 1>, Offloaded<ShmForks, kWorker, 2>,
                     Offloaded<ShmThreads, kOffload, 2>, Offloaded<ShmThreads, kWorker, 1>, Offloaded<Sim, kWorker, 1>,
                     Offloaded<Sim, kWorker, 2>, Offloaded<UcxTcp::Forks, kOffload, 1>>;
inline std::byte pattern(std::size_t i, int salt) {
  return static_cast<std::byte>((i * 131 + static_cast<std::size_t>(salt) * 29 + 7) & 0xff);
}

}  // namespace ayatori::net::testing
