// SPDX-License-Identifier: Apache-2.0
#include "doctor_machine.hpp"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/format.hpp"
#include "base/knobs.hpp"
#include "system.hpp"

namespace ayatori::tool {
namespace {

constexpr std::uint64_t kMi = 1u << 20;

// What a job of 64 processes needs of a launcher with labels, and of members with as many connections.
constexpr std::uint64_t kFilesWanted = 256;
constexpr std::uint64_t kFilesLeast = 32;
constexpr std::uint64_t kMapsWanted = 65530;  // the kernel's default
constexpr std::uint64_t kMapsLeast = 4096;
constexpr std::uint64_t kTasksWanted = 512;
constexpr std::uint64_t kMemoryWanted = 1024 * kMi;
constexpr std::uint64_t kMemoryLeast = 128 * kMi;
constexpr std::uint64_t kLockedForRdma = 1024 * kMi;
constexpr std::int64_t kClockReadNs = 500;

using Checks = std::vector<Check>;

std::string text_of(const Offer& offer) { return offer.available ? "available" : "not available: " + offer.why; }

// `otherwise`: what it is when the offer is not there.
Check judged(std::string name, const Offer& offer, Mark otherwise, std::string advice) {
  if (offer.available) return fine(std::move(name), text_of(offer));
  return {std::move(name), otherwise, text_of(offer), std::move(advice)};
}

void judge_engines(Checks& checks, const Machine& machine, const Wanted& wanted) {
  const bool only_uffd = wanted.engine == "uffd";
  const Mark without = only_uffd || !machine.mprotect.available ? Mark::kProblem : Mark::kWarning;
  const bool is_old = machine.uffd.why.find("features") != std::string::npos;
  checks.push_back(judged("engine uffd", machine.uffd, wanted.engine == "mprotect" ? Mark::kOk : without,
                          is_old
                              ? "Run Linux 5.19 or newer for userfaultfd with SIGBUS on shared memory."
                              : "Let the container's seccomp profile permit userfaultfd (user mode faults are enough) "
                                "on a kernel that has it."));
  if (checks.back().mark == Mark::kOk) checks.back().advice.clear();
  checks.push_back(judged("engine mprotect", machine.mprotect, only_uffd ? Mark::kWarning : Mark::kProblem,
                          "Let the container's seccomp profile permit mprotect."));
  checks.push_back(judged("syscall user dispatch", machine.syscall_dispatch, Mark::kWarning,
                          "Run Linux 5.11 or newer, or touch memory of the space before libraries pass it to system "
                          "calls."));
}

void judge_kernel(Checks& checks, const Machine& machine) {
  checks.push_back(
      judged("memfd", machine.memfd, Mark::kProblem,
             "Let the container's seccomp profile permit memfd_create, and files grow (`ulimit -f unlimited`)."));
  checks.push_back(judged("transport shm", machine.shared_memory, Mark::kProblem,
                          "Let the container's seccomp profile permit fork, shared mappings and futex."));
  checks.push_back(judged("pidfd", machine.pidfd, Mark::kWarning,
                          "Run Linux 5.3 or newer, or permit pidfd_open: without it members learn later of a death."));
  const std::uint64_t maps = number_in(machine.max_map_count);
  const std::string maps_text = maps == kUnlimited ? "not told" : base::formatted("{} mappings", maps);
  const std::string more_maps = base::formatted("Raise it: `sysctl vm.max_map_count={}`.", kMapsWanted);
  checks.push_back(maps < kMapsLeast    ? problem("vm.max_map_count", maps_text, more_maps)
                   : maps < kMapsWanted ? warning("vm.max_map_count", maps_text, more_maps)
                                        : fine("vm.max_map_count", maps_text));
}

void judge_space(Checks& checks, const Machine& machine, const Wanted& wanted) {
  const bool strict = machine.overcommit_memory == "2";
  if (strict)
    checks.push_back(warning("vm.overcommit_memory", "2 (every reservation counts)",
                             "Let the kernel overcommit: `sysctl vm.overcommit_memory=0`."));
  else
    checks.push_back(
        fine("vm.overcommit_memory", machine.overcommit_memory.empty() ? "not told" : machine.overcommit_memory));
  const std::string size = base::size_text(wanted.space_bytes);
  if (wanted.space_error == 0) {
    checks.push_back(fine("space", base::formatted("{}iB reserved at {:#x}", size, wanted.space_base)));
    return;
  }
  const char* advice = "Lower AYATORI_SPACE_SIZE.";
  if (wanted.space_error == EEXIST)
    advice = "Set AYATORI_SPACE_BASE to an address where nothing lies.";
  else if (wanted.space_error == EFBIG)
    advice = "Lift the limit on the size of files (`ulimit -f unlimited`), or lower AYATORI_SPACE_SIZE.";
  else if (strict)
    advice = "Let the kernel overcommit (`sysctl vm.overcommit_memory=0`), or lower AYATORI_SPACE_SIZE.";
  else if (wanted.space_error == ENOMEM)
    advice = "Lift the limit on address space (`ulimit -v unlimited`), or lower AYATORI_SPACE_SIZE.";
  checks.push_back(problem(
      "space",
      base::formatted("{}iB cannot be reserved at {:#x}: {}", size, wanted.space_base, error_text(wanted.space_error)),
      advice));
}

// A limit that should be `wanted` at least: below `least` a problem.
Check judge_limit(const Limit& limit, const char* unit, std::uint64_t least, std::uint64_t wanted, const char* option) {
  const std::string value = limit.soft == kUnlimited ? "unlimited" : base::formatted("{} {}", limit.soft, unit);
  if (limit.soft >= wanted) return fine(limit.name, value);
  const std::string target = wanted == kUnlimited ? "unlimited" : std::to_string(wanted);
  std::string advice = base::formatted("Raise it: `ulimit {} {}`", option, target);
  if (limit.hard < wanted)
    advice += ", once the hard limit is (/etc/security/limits.conf, or the setting of the service or container)";
  advice += ".";
  return {limit.name, limit.soft < least ? Mark::kProblem : Mark::kWarning, value, std::move(advice)};
}

void judge_limits(Checks& checks, const Machine& machine, const Wanted& wanted) {
  for (const Limit& limit : machine.limits) {
    if (limit.name == "open files")
      checks.push_back(judge_limit(limit, "files", kFilesLeast, kFilesWanted, "-n"));
    else if (limit.name == "processes")
      checks.push_back(judge_limit(limit, "processes and threads", 0, wanted.is_root ? 0 : kTasksWanted, "-u"));
    else if (limit.name == "address space")
      checks.push_back(judge_limit(limit, "bytes", 0, kUnlimited, "-v"));
    else if (limit.name == "locked memory") {
      // Only RDMA registers memory; `ulimit -l` counts KiB.
      checks.push_back(judge_limit(limit, "bytes", 0, wanted.has_rdma && !wanted.is_root ? kLockedForRdma : 0, "-l"));
      if (checks.back().mark != Mark::kOk) checks.back().advice = "Lift it for RDMA: `ulimit -l unlimited`.";
    }
  }
}

void judge_memory(Checks& checks, const Machine& machine) {
  const std::uint64_t usable = std::min(machine.memory_available_bytes, machine.memory_limit_bytes);
  std::string value = base::formatted("{} MiB available of {} MiB", usable / kMi, machine.memory_bytes / kMi);
  if (machine.memory_limit_bytes < machine.memory_bytes)
    value += base::formatted(", limited to {} MiB by the control group", machine.memory_limit_bytes / kMi);
  const std::string advice = "Free memory, or raise the container's limit.";
  checks.push_back(usable < kMemoryLeast    ? problem("memory", value, advice)
                   : usable < kMemoryWanted ? warning("memory", value, advice)
                                            : fine("memory", value));
  checks.push_back(fine("/dev/shm", base::formatted("{} MiB free; not used, memory that is shared has no name",
                                                    machine.dev_shm_free_bytes / kMi)));
}

void judge_cpus(Checks& checks, const Machine& machine) {
  const std::string value = base::formatted("{} usable of {}", machine.cpus_usable, machine.cpus_online);
  checks.push_back(machine.cpus_usable == 1 && machine.cpus_online > 1
                       ? warning("CPUs", value, "Widen the affinity mask (taskset, the container's or the job's CPUs).")
                       : fine("CPUs", value));
  checks.push_back(
      fine("CPU features", machine.wide_diffs ? "AVX-512 for diffs of pages" : "no AVX-512; diffs by words"));
  const std::string clock = machine.clock_source.empty() ? "source not told" : machine.clock_source;
  const std::string advice = "Make the kernel use tsc, or the hypervisor's clock (kernel parameter clocksource=).";
  if (machine.clock_read_ns < 0)
    checks.push_back(problem("clock", clock + ", goes back", advice));
  else if (machine.clock_read_ns > kClockReadNs)
    checks.push_back(warning("clock", base::formatted("{}, {} ns a look", clock, machine.clock_read_ns), advice));
  else
    checks.push_back(fine("clock", base::formatted("{}, {} ns a look", clock, machine.clock_read_ns)));
}

}  // namespace

std::vector<Check> judge_machine(const Machine& machine, const Wanted& wanted) {
  Checks checks;
  checks.push_back(fine("kernel", machine.kernel));
  checks.push_back(fine("CPU", machine.cpu));
  judge_cpus(checks, machine);
  judge_engines(checks, machine, wanted);
  judge_kernel(checks, machine);
  judge_space(checks, machine, wanted);
  judge_memory(checks, machine);
  judge_limits(checks, machine, wanted);
  return checks;
}

}  // namespace ayatori::tool
