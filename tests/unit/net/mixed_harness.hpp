// SPDX-License-Identifier: Apache-2.0
// Jobs of two "machines" on this one: processes that share memory with the others of their machine and reach the other
// machine over a wire. The upper half of the numbers is the second machine; its processes register memory of their own, which
// neighbours read through the kernel and otherwise reach by the wire, those of the first memory that is shared.
//   MixedForks    real processes forked from the test
//   MixedThreads  the members are threads of the test: for the sanitizers
#pragma once

#include <cstdint>
#include <memory>

#include "served_harness.hpp"

namespace ayatori::net::testing {

// Made before the fork.
class MixedJob {
 public:
  static constexpr const char* kPrefix = "Mixed";

  explicit MixedJob(const Job& job) : wires_(job), first_of_second_((job.processes + 1) / 2) {
    for (int machine = 0; machine < 2; ++machine) {
      shm::ShmConfig config = shm_config(job);
      config.processes = job.processes;
      config.reply_bytes_max = wires_.config().payload_bytes_max;
      config.has_descriptors = true;
      config.members = 0;
      for (ProcessId p = 0; p < job.processes; ++p)
        if (machine_of(p) == machine) config.members |= std::uint64_t{1} << p;
      members_[machine] = config.members;
      EXPECT_TRUE(shm::ShmWorld::create(config, &worlds_[machine]).ok());
    }
    shared_ = static_cast<std::byte*>(worlds_[0]->map_shared(kMemoryBytes * static_cast<std::size_t>(job.processes)));
    EXPECT_NE(shared_, nullptr);
  }

  int processes() const noexcept { return worlds_[0]->config().processes; }
  int machine_of(ProcessId process) const noexcept { return process < first_of_second_ ? 0 : 1; }
  shm::ShmWorld& world_of(ProcessId process) const noexcept { return *worlds_[machine_of(process)]; }
  tcp::TcpConfig take(ProcessId self) {
    tcp::TcpConfig config = wires_.take(self);
    config.machine = members_[machine_of(self)];
    config.world = worlds_[machine_of(self)].get();
    return config;
  }
  // Of a process of the first machine, else nullptr.
  std::byte* memory(ProcessId self) const noexcept {
    return machine_of(self) == 0 ? shared_ + kMemoryBytes * static_cast<std::size_t>(self) : nullptr;
  }
  void close_listeners() { wires_.close_listeners(); }

 private:
  TcpJob wires_;
  const int first_of_second_;
  std::uint64_t members_[2] = {};
  std::unique_ptr<shm::ShmWorld> worlds_[2];
  std::byte* shared_ = nullptr;
};

template <class Wire>
using MixedForks = ServedForks<Wire, MixedJob>;
template <class Wire>
using MixedThreads = ServedThreads<Wire, MixedJob>;

}  // namespace ayatori::net::testing
