// SPDX-License-Identifier: Apache-2.0
// The networks that the conformance suite runs on. One row each.
#include "conformance.hpp"
#include "offload_harness.hpp"
#include "ucx_harness.hpp"

namespace ayatori::net::testing {
namespace {

constexpr auto kOffload = offload::OffloadMode::kOffload;
constexpr auto kWorker = offload::OffloadMode::kWorker;

template <class Jobs>
std::string jobs_name() {
  if constexpr (requires { Jobs::kSuffix; }) {
    return jobs_name<typename Jobs::Below>() + Jobs::kSuffix;
  } else {
    return Jobs::name();
  }
}

template <class... Jobs>
std::vector<Network> rows() {
  return {Network{jobs_name<Jobs>(), Jobs::kReal, Jobs::run}...};
}

}  // namespace

const std::vector<Network>& networks() {
  static const std::vector<Network> all =
      rows<ShmForks, ShmThreads, TcpForks, TcpThreads, UcxTcp::Forks, UcxTcp::Threads, UcxShm::Forks, UcxShm::Threads,
           Sim, Offloaded<ShmForks, kOffload, 1>, Offloaded<ShmForks, kWorker, 2>, Offloaded<ShmThreads, kOffload, 2>,
           Offloaded<ShmThreads, kWorker, 1>, Offloaded<Sim, kWorker, 1>, Offloaded<Sim, kWorker, 2>,
           Offloaded<UcxTcp::Forks, kOffload, 1>>();
  return all;
}

}  // namespace ayatori::net::testing
