// SPDX-License-Identifier: Apache-2.0
// ayatori-bench-bare read_miss|write_miss|upgrade [--quick]: what the kernel's mechanism for access control costs by
// itself, without a runtime: fault, signal, a copy of the page, mapping it, return. Same accesses, same output as
// cases/fault.cpp. Engine as AYATORI_ENGINE says; auto: userfaultfd where it works, else mprotect.
//
// Another process fills the pages, as the owner does, and sleeps while this one measures. Two memory files: the owner's,
// mapped once here; and the cache, mapped twice: under access control, and as it is for the handler to fill.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

// Newer than the kernel headers of Debian 12.
#ifndef UFFDIO_CONTINUE_MODE_WP
#define UFFDIO_CONTINUE_MODE_WP (static_cast<__u64>(1) << 1)
#endif

namespace {

constexpr std::size_t kPageBytes = 4096, kStride = 8;
enum State : unsigned char { kUnmapped, kReadable, kWritable };

// Read by the signal handler. Constant after set-up but for the states.
struct Bare {
  int uffd = -1;  // -1: mprotect
  std::byte* user = nullptr;
  std::byte* system = nullptr;
  std::byte* owner = nullptr;
  std::byte* twins = nullptr;
  State* states = nullptr;
  std::size_t bytes = 0;
};
constinit Bare bare;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::_Exit(3);
}

void set_access(std::size_t offset, bool write) {
  const State old = bare.states[offset / kPageBytes];
  if (bare.uffd < 0) {
    if (mprotect(bare.user + offset, kPageBytes, write ? PROT_READ | PROT_WRITE : PROT_READ) != 0) die("mprotect");
  } else if (old == kUnmapped) {
    uffdio_continue arg{};
    arg.range = {reinterpret_cast<std::uintptr_t>(bare.user) + offset, kPageBytes};
    arg.mode = write ? 0 : UFFDIO_CONTINUE_MODE_WP;
    if (ioctl(bare.uffd, UFFDIO_CONTINUE, &arg) != 0) die("UFFDIO_CONTINUE");
  } else {
    uffdio_writeprotect arg{};
    arg.range = {reinterpret_cast<std::uintptr_t>(bare.user) + offset, kPageBytes};
    if (ioctl(bare.uffd, UFFDIO_WRITEPROTECT, &arg) != 0) die("UFFDIO_WRITEPROTECT");
  }
  bare.states[offset / kPageBytes] = write ? kWritable : kReadable;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const auto distance = reinterpret_cast<std::uintptr_t>(info->si_addr) - reinterpret_cast<std::uintptr_t>(bare.user);
  if (distance >= bare.bytes) {
    std::signal(signal, SIG_DFL);
    return;
  }
  const std::size_t offset = distance & ~(kPageBytes - 1);
#if defined(__x86_64__)
  const bool write = (static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  static_cast<void>(context);
  const bool write = bare.states[offset / kPageBytes] == kReadable;
#endif
  if (bare.states[offset / kPageBytes] == kUnmapped) std::memcpy(bare.system + offset, bare.owner + offset, kPageBytes);
  if (write) std::memcpy(bare.twins + offset, bare.system + offset, kPageBytes);
  set_access(offset, write);
}

int open_uffd(void* at, std::size_t bytes) {
  int fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  if (fd < 0) fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  if (fd < 0) return -1;
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM |
                 UFFD_FEATURE_WP_HUGETLBFS_SHMEM | UFFD_FEATURE_EXACT_ADDRESS;
  uffdio_register reg{};
  reg.range = {reinterpret_cast<std::uintptr_t>(at), bytes};
  reg.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_WP;
  if (ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &reg) == 0) return fd;
  close(fd);
  return -1;
}

std::byte* map(int fd, int protection) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED | MAP_NORESERVE;
  void* const at = mmap(nullptr, bare.bytes, protection, flags, fd, 0);
  if (at == MAP_FAILED) die("mmap");
  return static_cast<std::byte*>(at);
}

int memory_file(const char* name) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bare.bytes)) != 0) die("memfd_create");
  return fd;
}

// Forks the owner; returns when it has filled the pages.
pid_t start_owner(std::byte* owner_view) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) die("pipe");
  const pid_t child = fork();
  if (child < 0) die("fork");
  if (child == 0) {
    for (std::size_t i = 0; i < bare.bytes; i += kPageBytes)
      std::memset(owner_view + i, static_cast<int>(i / kPageBytes % 251) + 1, kPageBytes);
    if (write(pipe_ends[1], "", 1) != 1) std::_Exit(3);
    for (;;) pause();
  }
  char byte;
  if (read(pipe_ends[0], &byte, 1) != 1) die("the owner");
  return child;
}

std::int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec;
}

void touch(std::byte* page, bool write) {
  if (write)
    *reinterpret_cast<volatile unsigned char*>(page + 200) = 7;
  else
    static_cast<void>(*reinterpret_cast<volatile unsigned char*>(page + 100));
}

std::vector<double> each(const std::vector<std::byte*>& pages, bool write) {
  std::vector<double> us(pages.size(), -1.0);
  us.clear();
  for (std::byte* const page : pages) {
    const std::int64_t start = now_ns();
    touch(page, write);
    us.push_back(static_cast<double>(now_ns() - start) / 1e3);
  }
  return us;
}

void drop(const std::vector<std::byte*>& pages) {
  for (std::byte* const page : pages) {
    if (bare.uffd < 0 && mprotect(page, kPageBytes, PROT_NONE) != 0) die("mprotect");
    if (bare.uffd >= 0 && madvise(page, kPageBytes, MADV_DONTNEED) != 0) die("madvise");
    bare.states[static_cast<std::size_t>(page - bare.user) / kPageBytes] = kUnmapped;
  }
}

void report(const char* metric, const std::vector<double>& samples) {
  std::printf("sample\t%s\tus\t", metric);
  for (const double value : samples) std::printf("%.4g ", value);
  std::printf("\n");
}

// The memory, the owner, the engine and the handler.
pid_t set_up(std::string_view engine) {
  const int cache = memory_file("cache");
  bare.user = map(cache, PROT_READ | PROT_WRITE);
  bare.system = map(cache, PROT_READ | PROT_WRITE);
  bare.owner = map(memory_file("owner"), PROT_READ | PROT_WRITE);
  bare.twins = map(-1, PROT_READ | PROT_WRITE);
  bare.states = new State[bare.bytes / kPageBytes]();
  const pid_t owner = start_owner(bare.owner);
  if (engine != "mprotect") bare.uffd = open_uffd(bare.user, bare.bytes);
  if (bare.uffd < 0 && engine == "uffd") die("userfaultfd");
  if (bare.uffd < 0 && mprotect(bare.user, bare.bytes, PROT_NONE) != 0) die("mprotect");

  alignas(16) static std::byte handler_stack[65536];
  stack_t stack{};
  stack.ss_size = sizeof handler_stack;
  stack.ss_sp = handler_stack;
  if (sigaltstack(&stack, nullptr) != 0) die("sigaltstack");
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  if (sigaction(SIGBUS, &action, nullptr) != 0 || sigaction(SIGSEGV, &action, nullptr) != 0) die("sigaction");
  return owner;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const bool quick = argc > 2 && std::string_view(argv[2]) == "--quick";
  if (what != "read_miss" && what != "write_miss" && what != "upgrade") {
    std::fputs("usage: ayatori-bench-bare read_miss|write_miss|upgrade [--quick]\n", stderr);
    return 2;
  }
  const std::size_t touched = quick ? 64 : 512;
  bare.bytes = touched * kStride * kPageBytes;
  const char* const engine = std::getenv("AYATORI_ENGINE");
  const pid_t owner = set_up(engine != nullptr ? engine : "auto");

  std::vector<std::byte*> pages;
  for (std::size_t i = 0; i < touched; ++i) pages.push_back(bare.user + i * kStride * kPageBytes);
  std::shuffle(pages.begin(), pages.end(), std::mt19937(42));
  if (what == "read_miss") {
    report("first time", each(pages, false));
    drop(pages);
    report("again", each(pages, false));
  } else if (what == "write_miss") {
    report("first time", each(pages, true));
  } else {
    each(pages, false);
    report("write to a page read before", each(pages, true));
  }
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  return 0;
}
