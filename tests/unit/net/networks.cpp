// SPDX-License-Identifier: Apache-2.0
// The networks that the conformance suite runs on. One row each.
#include "conformance.hpp"
#include "hosts_harness.hpp"
#include "mixed_harness.hpp"
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
      rows<ShmForks, ShmThreads, TcpForks, TcpThreads, ServedHosts<TcpWire>, ServedHosts<UcxTcp>, UcxTcp::Forks,
           UcxTcp::Threads, UcxShm::Forks, UcxShm::Threads, UcxReach::Forks, UcxReach::Threads, MixedForks<TcpWire>,
           MixedThreads<TcpWire>, MixedForks<UcxTcp>, Sim, Offloaded<ShmForks, kOffload, 1>,
           Offloaded<ShmForks, kWorker, 2>, Offloaded<ShmThreads, kOffload, 2>, Offloaded<ShmThreads, kWorker, 1>,
           Offloaded<Sim, kWorker, 1>, Offloaded<Sim, kWorker, 2>, Offloaded<TcpForks, kOffload, 1>,
           Offloaded<TcpForks, kWorker, 2>, Offloaded<TcpThreads, kOffload, 2>, Offloaded<UcxTcp::Forks, kOffload, 1>,
           Offloaded<MixedForks<TcpWire>, kOffload, 1>, Offloaded<MixedForks<UcxTcp>, kWorker, 2>,
           Offloaded<MixedThreads<TcpWire>, kWorker, 2>, Offloaded<UcxShm::Forks, kWorker, 1>,
           Offloaded<UcxReach::Forks, kOffload, 2>>();
  return all;
}

}  // namespace ayatori::net::testing
