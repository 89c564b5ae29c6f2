// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <new>

#include "base/clock.hpp"
#include "base/futex.hpp"
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

Offer probe_pidfd() {
  const Fd fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  return fd ? Offer{true, ""} : Offer{false, "pidfd_open: " + error_text(errno)};
}

// A child writes a word of shared memory and wakes who waits there.
Offer probe_shared_memory() {
  constexpr std::int64_t kWithinNs = 2 * base::kNsPerSecond;
  void* const memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {false, "mmap: " + error_text(errno)};
  auto& word = *new (memory) std::atomic<std::uint32_t>{0};
  const pid_t child = fork();
  if (child == 0) {
    word.store(1, std::memory_order_release);  // pairs with the load below
    base::futex_wake(word, 1);
    _exit(0);
  }
  Offer offer{true, ""};
  if (child < 0) offer = {false, "fork: " + error_text(errno)};
  const std::int64_t deadline_ns = base::real_now_ns() + kWithinNs;
  while (offer.available && word.load(std::memory_order_acquire) == 0) {  // pairs with the child's store
    base::futex_wait(word, 0, kWithinNs);
    if (base::real_now_ns() > deadline_ns) offer = {false, "no word from a child process within 2 s"};
  }
  while (child > 1 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  munmap(memory, 4096);
  return offer;
}

// The least of what the groups above this process allow; container runtimes show their own as the root.
std::uint64_t cgroup_memory_limit() {
  std::uint64_t least = std::min(number_in(first_line("/sys/fs/cgroup/memory.max")),
                                 number_in(first_line("/sys/fs/cgroup/memory/memory.limit_in_bytes")));
  std::string group = field("/proc/self/cgroup", "0:");  // ":/a/b"
  for (group.erase(0, 1); group.size() > 1; group.resize(group.rfind('/')))
    least = std::min(least, number_in(first_line("/sys/fs/cgroup" + group + "/memory.max")));
  return least;
}

std::int64_t clock_read_ns() {
  constexpr int kReads = 1'000;
  const std::int64_t begin_ns = base::real_now_ns();
  std::int64_t last_ns = begin_ns;
  for (int i = 0; i < kReads; ++i) {
    const std::int64_t now_ns = base::real_now_ns();
    if (now_ns < last_ns) return -1;
    last_ns = now_ns;
  }
  return (last_ns - begin_ns) / kReads;
}

std::uint64_t free_bytes(const char* folder) {
  struct statvfs volume{};
  return statvfs(folder, &volume) == 0 ? std::uint64_t{volume.f_bavail} * volume.f_frsize : 0;
}

}  // namespace

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::uint64_t number_in(const std::string& line) {
  std::uint64_t number = 0;
  const auto result = std::from_chars(line.data(), line.data() + line.size(), number);
  return result.ec == std::errc{} ? number : kUnlimited;
}

std::string limit_text(std::uint64_t value) { return value == kUnlimited ? "unlimited" : std::to_string(value); }

const char* default_engine(const Machine& machine) {
  return machine.uffd.available ? "uffd" : machine.mprotect.available ? "mprotect" : "none";
}

int try_space(std::uint64_t base_address, std::uint64_t bytes) {
  const Fd fd(memfd_create("ayatori-probe", MFD_CLOEXEC));
  if (!fd || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return errno;
  void* const want = reinterpret_cast<void*>(base_address);
  for (void* const at : {static_cast<void*>(nullptr), want}) {
    const int flags = MAP_SHARED | MAP_NORESERVE | (at == nullptr ? 0 : MAP_FIXED_NOREPLACE);
    void* const got = mmap(at, bytes, PROT_READ | PROT_WRITE, flags, fd.get(), 0);
    if (got == MAP_FAILED) return errno;
    munmap(got, bytes);
    if (at != nullptr && got != at) return EEXIST;
  }
  return 0;
}

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
  machine.clock_source = first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  machine.clock_read_ns = clock_read_ns();
  machine.pidfd = probe_pidfd();
  machine.shared_memory = probe_shared_memory();
  machine.wide_diffs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
  machine.memory_limit_bytes = cgroup_memory_limit();
  machine.dev_shm_free_bytes = free_bytes("/dev/shm");
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
      machine.limits.push_back({row.name, limit.rlim_cur, limit.rlim_max});
  }
  return machine;
}

}  // namespace ayatori::tool
