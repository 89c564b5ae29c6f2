// SPDX-License-Identifier: Apache-2.0
// What this machine, container and account offer to Ayatori; asked of the kernel by trying. Nothing is left behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ayatori::tool {

struct Offer {
  bool available = false;
  std::string why;  // when it is not
};

struct Limit {
  std::string name;
  std::string soft, hard;  // "unlimited" or a number
};

struct Machine {
  std::string kernel;
  std::string cpu;
  int cpus_online = 0;
  int cpus_usable = 0;  // in the affinity mask
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_available_bytes = 0;
  Offer uffd, mprotect, memfd, syscall_dispatch;
  std::string max_map_count;
  std::string overcommit_memory;
  std::string unprivileged_userfaultfd;
  std::vector<Limit> limits;
};

Machine look_at_machine();

}  // namespace ayatori::tool
