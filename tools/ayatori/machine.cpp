// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include <cerrno>
#include <fstream>

#include "system.hpp"

// Newer than the headers of some systems that we build on.
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_MINOR_SHMEM
#define UFFD_FEATURE_MINOR_SHMEM (1 << 10)
#endif
#ifndef UFFD_FEATURE_EXACT_ADDRESS
#define UFFD_FEATURE_EXACT_ADDRESS (1 << 11)
#endif
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#endif

namespace ayatori::tool {
namespace {

std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// Value of "name : value" or "name: value" in a file of such lines.
std::string field(const char* path, std::string_view name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t value = colon == line.npos ? line.npos : line.find_first_not_of(" \t", colon + 1);
    if (value != line.npos) return line.substr(value);
  }
  return {};
}

std::uint64_t kib_field(const char* name) {
  return std::strtoull(field("/proc/meminfo", name).c_str(), nullptr, 10) * 1'024;
}

Offer probe_uffd() {
  const auto refused = [](const char* what, int error) {
    return Offer{false, base::formatted("{}: {}", what, error_text(error))};
  };
  Fd fd(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)));
  if (!fd) fd = Fd(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
  if (!fd) return refused("userfaultfd", errno);
  constexpr std::uint64_t kNeeded = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM |
                                    UFFD_FEATURE_WP_HUGETLBFS_SHMEM | UFFD_FEATURE_EXACT_ADDRESS;
  uffdio_api api{};
  api.api = UFFD_API;
  if (ioctl(fd.get(), UFFDIO_API, &api) != 0) return refused("UFFDIO_API", errno);
  const std::uint64_t missing = kNeeded & ~static_cast<std::uint64_t>(api.features);
  if (missing != 0) return {false, base::formatted("the kernel lacks features {:#x}", missing)};
  return {true, ""};
}

Offer probe_mprotect() {
  void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return {false, "mmap: " + error_text(errno)};
  const bool done = mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0;
  const int error = errno;
  munmap(page, 4096);
  return done ? Offer{true, ""} : Offer{false, "mprotect: " + error_text(error)};
}

Offer probe_memfd() {
  const Fd fd(memfd_create("ayatori-probe", MFD_CLOEXEC));
  if (!fd) return {false, "memfd_create: " + error_text(errno)};
  if (ftruncate(fd.get(), 1 << 20) != 0) return {false, "ftruncate: " + error_text(errno)};
  return {true, ""};
}

// In a child: the setting is the calling thread's, and a mistake would be fatal.
Offer probe_syscall_dispatch() {
  const pid_t child = fork();
  if (child < 0) return {false, "fork: " + error_text(errno)};
  if (child == 0) {
    // The whole address space is the allowed range: no call is caught.
    static char selector = 0;
    const int result = prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0UL, ~0UL >> 1, &selector);
    _exit(result == 0 ? 0 : errno & 0xff);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status)) return {false, "the probe was killed"};
  if (WEXITSTATUS(status) != 0) return {false, "prctl: " + error_text(WEXITSTATUS(status))};
  return {true, ""};
}

std::string limit_text(rlim_t value) {
  return value == RLIM_INFINITY ? "unlimited" : std::to_string(static_cast<unsigned long long>(value));
}

}  // namespace

Machine look_at_machine() {
  Machine machine;
  utsname names{};
  if (uname(&names) == 0) machine.kernel = base::formatted("{} {} {}", names.sysname, names.release, names.machine);
  machine.cpu = field("/proc/cpuinfo", "model name");
  machine.cpus_online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t mask;
  machine.cpus_usable = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : machine.cpus_online;
  machine.memory_bytes = kib_field("MemTotal");
  machine.memory_available_bytes = kib_field("MemAvailable");
  machine.uffd = probe_uffd();
  machine.mprotect = probe_mprotect();
  machine.memfd = probe_memfd();
  machine.syscall_dispatch = probe_syscall_dispatch();
  machine.max_map_count = first_line("/proc/sys/vm/max_map_count");
  machine.overcommit_memory = first_line("/proc/sys/vm/overcommit_memory");
  machine.unprivileged_userfaultfd = first_line("/proc/sys/vm/unprivileged_userfaultfd");
  struct Row {
    const char* name;
    int resource;
  };
  for (const Row row :
       {Row{"open files", RLIMIT_NOFILE}, Row{"processes", RLIMIT_NPROC}, Row{"locked memory", RLIMIT_MEMLOCK},
        Row{"address space", RLIMIT_AS}, Row{"stack", RLIMIT_STACK}, Row{"core file", RLIMIT_CORE}}) {
    rlimit limit{};
    if (getrlimit(static_cast<__rlimit_resource_t>(row.resource), &limit) == 0)
      machine.limits.push_back({row.name, limit_text(limit.rlim_cur), limit_text(limit.rlim_max)});
  }
  return machine;
}

}  // namespace ayatori::tool
