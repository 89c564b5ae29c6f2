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

inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

struct Limit {
  std::string name;
  std::uint64_t soft, hard;
};
std::string limit_text(std::uint64_t value);  // "unlimited" or a number

struct Machine {
  std::string kernel;
  std::string cpu;
  int cpus_online = 0;
  int cpus_usable = 0;  // in the affinity mask
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_available_bytes = 0;
  std::uint64_t memory_limit_bytes = kUnlimited;  // of the container (cgroup)
  std::uint64_t dev_shm_free_bytes = 0;
  Offer uffd, mprotect, memfd, syscall_dispatch;
  Offer pidfd;
  Offer shared_memory;  // between processes, with futexes in it
  std::string clock_source;
  std::int64_t clock_read_ns = 0;  // what a look at the clock costs; below zero: it goes back
  bool wide_diffs = false;         // what dsm/diff.cpp asks the CPU for: AVX-512 F and BW
  std::string max_map_count;
  std::string overcommit_memory;
  std::string unprivileged_userfaultfd;
  std::vector<Limit> limits;
};

Machine look_at_machine();

// The engine that `auto` takes.
const char* default_engine(const Machine& machine);

// Can a job map its space here? 0, or the error. As a job does: memory without a name, once anywhere, once at the base that all
// its processes have in common.
int try_space(std::uint64_t base_address, std::uint64_t bytes);

// The number that a line of /proc, /sys or a cgroup begins with; kUnlimited: there is none.
std::uint64_t number_in(const std::string& line);
// The first line of a file; empty: it cannot be read.
std::string first_line(const std::string& path);

}  // namespace ayatori::tool
