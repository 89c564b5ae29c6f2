// SPDX-License-Identifier: Apache-2.0
// Poor surroundings: userfaultfd refused as by a container's seccomp profile, Syscall User Dispatch refused, few file
// descriptors, an unprivileged user, too few mappings.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstddef>

#include "unit/dsm/fault_fixture.hpp"

using namespace fault_test;

namespace {

// Makes one system call fail with EPERM; for prctl only with the given first argument.
void refuse(unsigned call, int first_argument = -1) {
  const unsigned yes_argument = first_argument >= 0 ? 0 : 2;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4),
      BPF_JUMP(BPF_JMP | BPF_JA, yes_argument, 0, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(first_argument), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{sizeof filter / sizeof *filter, filter};
  MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

void use_the_space() {
  on_space_stack([] {
    auto* p = reinterpret_cast<volatile char*>(user(foreign_page()));
    p[5000] = 3;
    MUST(p[0] == 0 && p[5000] == 3);
    char buffer[30000];
    const int fd = open("/dev/zero", O_RDONLY);
    buffer[100] = 1;
    MUST(read(fd, buffer, sizeof buffer) == sizeof buffer && buffer[100] == 0 && buffer[29999] == 0);
    close(fd);
  });
}

TEST(Fallback, AutoTakesMprotectWhereUserfaultfdIsRefused) {
  expect_child_passes([] {
    refuse(SYS_userfaultfd);
    start({"auto"});
    MUST(std::string(dsm::engine().name) == "mprotect" && fallback_reason.find("userfaultfd") != std::string::npos);
    use_the_space();
  });
}

TEST(Fallback, AForcedUffdThatIsRefusedEndsWith125) {
  expect_child_exits_with(125, [] {
    refuse(SYS_userfaultfd);
    start({"uffd"});
  });
}

TEST(Fallback, CallsAreWrappedWhereDispatchIsRefused) {
  expect_child_passes([] {
    refuse(SYS_prctl, 59);  // PR_SET_SYSCALL_USER_DISPATCH
    start({"auto"});
    MUST(std::string(dsm::syscall_mode()) == "wrap");
    use_the_space();
  });
}

TEST(Fallback, FewFileDescriptorsAndLittleLockedMemoryDo) {
  expect_child_passes([] {
    const rlimit files{256, 256}, locked{64 << 10, 64 << 10};
    MUST(setrlimit(RLIMIT_NOFILE, &files) == 0 && setrlimit(RLIMIT_MEMLOCK, &locked) == 0);
    start({"auto"});
    use_the_space();
  });
}

TEST(Fallback, AnUnprivilegedUserHasBothEngines) {
  for (const char* engine : {"uffd", "mprotect"})
    expect_child_passes([engine] {
      if (getuid() == 0) MUST(setgid(65534) == 0 && setuid(65534) == 0);
      start({engine});
      use_the_space();
    });
}

// The program itself uses up nearly all mappings.
TEST(Fallback, MprotectGivesAccessBackWhenMappingsRunOut) {
  expect_child_passes([] {
    start({"mprotect", 2, "auto", std::size_t{8} << 30});
    constexpr std::size_t kPages = 200'000;
    auto* other =
        static_cast<char*>(mmap(nullptr, kPages << 12, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    const gas::PageIndex p = foreign_page();
    gas::PageIndex touched = 0;
    const auto touch = [&] {
      *reinterpret_cast<volatile char*>(user(p + 2 * touched)) = static_cast<char>(touched);
      ++touched;
    };
    while (touched < 10'000) touch();
    std::size_t at = 0;
    while (at < kPages && mprotect(other + (at << 12), 4096, PROT_NONE) == 0) at += 2;
    MUST(at < kPages && errno == ENOMEM);
    while (touched < 30'000) touch();
    for (gas::PageIndex i = 0; i < touched; ++i)
      MUST(*reinterpret_cast<volatile char*>(user(p + 2 * i)) == static_cast<char>(i));
  });
}

}  // namespace
