// SPDX-License-Identifier: Apache-2.0
// System calls given memory of the space: full counts and right bytes into and from never-touched, read-only mapped and
// zapped pages, also while another thread takes the pages away; by dispatch and by wrapped functions; both engines.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <fstream>
#include <vector>

#include "unit/dsm/fault_fixture.hpp"

using namespace fault_test;

namespace {

struct Case {
  const char* engine;
  const char* syscalls;
};
class Calls : public testing::TestWithParam<Case> {
 protected:
  void run(const std::function<void()>& body) {
    expect_child_passes([&] {
      start({GetParam().engine, 2, GetParam().syscalls});
      MUST(std::string(dsm::syscall_mode()) == GetParam().syscalls);
      on_space_stack(body);
    });
  }
};
std::string name_of(const testing::TestParamInfo<Case>& tested) {
  return std::string(tested.param.engine) + "_" + tested.param.syscalls;
}
INSTANTIATE_TEST_SUITE_P(All, Calls,
                         testing::Values(Case{"uffd", "dispatch"}, Case{"mprotect", "dispatch"}, Case{"uffd", "wrap"},
                                         Case{"mprotect", "wrap"}),
                         name_of);

// What only dispatch promises: calls that libraries make inside.
class Dispatched : public Calls {};
INSTANTIATE_TEST_SUITE_P(All, Dispatched, testing::Values(Case{"uffd", "dispatch"}, Case{"mprotect", "dispatch"}),
                         name_of);

constexpr std::size_t kBig = 3 << 20;

char pattern(std::size_t i) { return static_cast<char>((i * 2654435761u) >> 13); }

// A file with the pattern, deleted already.
int pattern_file(std::size_t bytes) {
  char name[] = "/tmp/ayatori-test-XXXXXX";
  const int fd = mkstemp(name);
  MUST(fd >= 0 && unlink(name) == 0);
  std::vector<char> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = pattern(i);
  MUST(write(fd, data.data(), bytes) == static_cast<ssize_t>(bytes) && lseek(fd, 0, SEEK_SET) == 0);
  return fd;
}
int empty_file() { return pattern_file(0); }

char* fresh(std::size_t skip_pages) {
  return reinterpret_cast<char*>(user(foreign_page() + static_cast<gas::PageIndex>(skip_pages)));
}
// Half of the pages read-only, some written, some zapped.
void mix(char* p, std::size_t bytes) {
  const gas::PageIndex first = gas::page_of(p);
  for (std::size_t i = 0; i * gas::kPageBytes < bytes; ++i) {
    const auto page = static_cast<gas::PageIndex>(first + i);
    if (i % 4 == 1) MUST(*reinterpret_cast<volatile char*>(user(page)) >= -128);
    if (i % 4 == 2) *reinterpret_cast<volatile char*>(user(page)) = 1;
    if (i % 4 == 3) zap(page, 1);
  }
}
void expect_pattern(const char* p, std::size_t bytes, std::size_t offset = 0) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (p[i] != pattern(offset + i)) MUST(p[i] == pattern(offset + i));
}
void put_pattern(char* p, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) p[i] = pattern(i);
}
void expect_file(int fd, std::size_t bytes) {
  std::vector<char> data(bytes + 1);
  MUST(pread(fd, data.data(), bytes + 1, 0) == static_cast<ssize_t>(bytes));
  expect_pattern(data.data(), bytes);
}

TEST_P(Calls, ReadFillsTheWholeBuffer) {
  run([] {
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{30000}, kBig})
      for (const bool mixed : {false, true}) {
        const int fd = pattern_file(bytes);
        char* p = fresh(mixed ? 2000 : 0) + 123;
        if (mixed) mix(p, bytes);
        MUST(read(fd, p, bytes) == static_cast<ssize_t>(bytes));
        expect_pattern(p, bytes);
        MUST(read(fd, p, 10) == 0);
        zap(gas::page_of(p), 1 + bytes / gas::kPageBytes);
        MUST(pread(fd, p, bytes - 7, 7) == static_cast<ssize_t>(bytes - 7));
        expect_pattern(p, bytes - 7, 7);
        MUST(pread(fd, p, bytes + 5000, 0) == static_cast<ssize_t>(bytes));
        close(fd);
      }
  });
}

TEST_P(Calls, WriteTakesTheWholeBuffer) {
  run([] {
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{30000}, kBig}) {
      char* p = fresh(0) + 321;
      put_pattern(p, bytes);
      zap(gas::page_of(p), 1 + bytes / gas::kPageBytes);
      const int fd = empty_file();
      MUST(write(fd, p, bytes) == static_cast<ssize_t>(bytes));
      expect_file(fd, bytes);
      zap(gas::page_of(p), 1 + bytes / gas::kPageBytes);
      MUST(pwrite(fd, p, bytes, 0) == static_cast<ssize_t>(bytes));
      expect_file(fd, bytes);
      close(fd);
    }
  });
}

TEST_P(Calls, ReadAndWriteWhilePagesAreTakenAway) {
  run([] {
    const int in = pattern_file(kBig), out = empty_file();
    char* p = fresh(0) + 11;
    const Zapper zapper(gas::page_of(p), kBig / gas::kPageBytes + 1);
    for (int round = 0; round < 4; ++round) {
      MUST(pread(in, p, kBig, 0) == static_cast<ssize_t>(kBig));
      expect_pattern(p, kBig);
      MUST(pwrite(out, p, kBig, 0) == static_cast<ssize_t>(kBig));
      expect_file(out, kBig);
      std::memset(p, 0, kBig);
    }
  });
}

TEST_P(Calls, FreadAndFwriteOfAnySize) {
  run([] {
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{30000}, kBig}) {
      FILE* in = fdopen(pattern_file(bytes), "r");
      char* p = fresh(0) + 17;
      mix(p, bytes);
      MUST(fread(p, 1, bytes, in) == bytes);
      expect_pattern(p, bytes);
      MUST(fread(p, 1, 1, in) == 0 && feof(in));
      zap(gas::page_of(p), 1 + bytes / gas::kPageBytes);
      FILE* out = fdopen(empty_file(), "w+");
      MUST(fwrite(p, 1, bytes, out) == bytes && fflush(out) == 0);
      expect_file(fileno(out), bytes);
      std::fclose(in);
      std::fclose(out);
    }
  });
}

TEST_P(Calls, FreadIntoTheUntouchedPartOfTheOwnStack) {
  run([] {
    FILE* in = fdopen(pattern_file(30000), "r");
    char buffer[30000];
    MUST(fread(buffer, 10, 3000, in) == 3000);
    expect_pattern(buffer, sizeof buffer);
    std::fclose(in);
  });
}

TEST_P(Calls, IostreamsReadLinesAndBlocks) {
  run([] {
    char name[] = "/tmp/ayatori-test-XXXXXX";
    close(mkstemp(name));
    {
      std::ofstream out(name);
      char* p = fresh(0);
      put_pattern(p, kBig);
      zap(gas::page_of(p), kBig / gas::kPageBytes);
      out.write(p, kBig);
      out << "\nline one\nline two\n";
      MUST(out.good());
    }
    {
      std::ifstream in(name);
      char* p = fresh(1000) + 5;
      in.read(p, kBig);
      MUST(in.gcount() == static_cast<std::streamsize>(kBig));
      expect_pattern(p, kBig);
      std::string line;
      MUST(std::getline(in, line) && line.empty() && std::getline(in, line) && line == "line one");
      MUST(std::getline(in, line) && line == "line two" && !std::getline(in, line));
    }
    unlink(name);
  });
}

TEST_P(Calls, VectorsOfBuffers) {
  run([] {
    for (const std::size_t bytes : {std::size_t{600}, std::size_t{30000}, kBig}) {
      const int in = pattern_file(bytes), out = empty_file();
      char* p = fresh(0) + 9;
      const std::size_t third = bytes / 3;
      iovec v[4] = {{p, third}, {nullptr, 0}, {p + third + 5000, third}, {p + 2 * third + 10000, bytes - 2 * third}};
      MUST(readv(in, v, 4) == static_cast<ssize_t>(bytes));
      expect_pattern(p, third);
      expect_pattern(p + third + 5000, third, third);
      expect_pattern(p + 2 * third + 10000, bytes - 2 * third, 2 * third);
      zap(gas::page_of(p), 4 + bytes / gas::kPageBytes);
      MUST(pwritev(out, v, 4, 0) == static_cast<ssize_t>(bytes));
      expect_file(out, bytes);
      zap(gas::page_of(p), 4 + bytes / gas::kPageBytes);
      MUST(writev(out, v, 4) == static_cast<ssize_t>(bytes));
      expect_file(out, bytes);
      MUST(preadv(in, v, 4, 5) == static_cast<ssize_t>(bytes - 5));
      expect_pattern(p, third, 5);
      close(in);
      close(out);
    }
  });
}

TEST_P(Calls, PipesAndStreamSocketsCarryMegabytesInOrder) {
  run([] {
    for (const bool socket : {false, true}) {
      int fds[2];
      MUST((socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, fds) : pipe(fds)) == 0);
      std::thread writer([fd = fds[1]] {
        std::vector<char> data(kBig);
        for (std::size_t i = 0; i < kBig; ++i) data[i] = pattern(i);
        for (std::size_t done = 0; done < kBig;) {
          const ssize_t n = write(fd, data.data() + done, kBig - done);
          MUST(n > 0);
          done += static_cast<std::size_t>(n);
        }
        close(fd);
      });
      char* p = fresh(0) + 3;
      {
        const Zapper zapper(gas::page_of(p), kBig / gas::kPageBytes + 1);
        std::size_t done = 0;
        for (ssize_t n; (n = read(fds[0], p + done, kBig - done)) > 0;) done += static_cast<std::size_t>(n);
        MUST(done == kBig);
      }
      expect_pattern(p, kBig);
      writer.join();
      close(fds[0]);
    }
  });
}

// A datagram, a counter or a connection whose delivery fails would be lost.
TEST_P(Calls, NothingThatIsReadOnceIsLost) {
  run([] {
    int fds[2];
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == 0);
    char* p = fresh(0) + 4000;
    for (int i = 0; i < 50; ++i) {
      char out[9000];
      std::memset(out, i, sizeof out);
      MUST(send(fds[1], out, sizeof out, 0) == sizeof out);
      zap(gas::page_of(p), 4);
      MUST(recv(fds[0], p, sizeof out, 0) == sizeof out && p[0] == i && p[8999] == i);
    }
    const int counter = eventfd(0, 0);
    auto* number = reinterpret_cast<std::uint64_t*>(fresh(50) + 8);
    for (std::uint64_t i = 1; i < 50; ++i) {
      const std::uint64_t add = i;
      MUST(write(counter, &add, sizeof add) == sizeof add);
      zap(gas::page_of(number), 1);
      MUST(read(counter, number, sizeof *number) == sizeof *number && *number == i);
    }
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    MUST(bind(listener, reinterpret_cast<sockaddr*>(&address), bytes) == 0 && listen(listener, 5) == 0);
    MUST(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    MUST(connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    auto* peer = reinterpret_cast<sockaddr_in*>(fresh(60));
    auto* peer_bytes = reinterpret_cast<socklen_t*>(fresh(62));
    *peer_bytes = 100;
    zap(gas::page_of(peer_bytes), 1);
    const int server = accept(listener, reinterpret_cast<sockaddr*>(peer), peer_bytes);
    MUST(server >= 0 && *peer_bytes == sizeof(sockaddr_in) && peer->sin_family == AF_INET);
  });
}

TEST_P(Calls, MessagesWithNameVectorAndControl) {
  run([] {
    int fds[2];
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == 0);
    char* p = fresh(0) + 100;
    auto* m = reinterpret_cast<msghdr*>(fresh(10));
    auto* v = reinterpret_cast<iovec*>(fresh(20));
    auto* control = reinterpret_cast<cmsghdr*>(fresh(30));
    put_pattern(p, 20000);
    v[0] = {p, 8000};
    v[1] = {p + 8000, 12000};
    std::memset(m, 0, sizeof *m);
    m->msg_iov = v;
    m->msg_iovlen = 2;
    m->msg_control = control;
    m->msg_controllen = CMSG_SPACE(sizeof(int));
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(control), &fds[0], sizeof(int));
    zap(gas::page_of(p), 40);
    MUST(sendmsg(fds[1], m, 0) == 20000);
    std::memset(p, 0, 20000);
    std::memset(control, 0, 100);
    m->msg_flags = 77;
    zap(gas::page_of(p), 40);
    MUST(recvmsg(fds[0], m, 0) == 20000 && m->msg_flags == 0 && m->msg_controllen == CMSG_SPACE(sizeof(int)));
    expect_pattern(p, 20000);
    int got;
    std::memcpy(&got, CMSG_DATA(control), sizeof got);
    MUST(got > 2 && control->cmsg_type == SCM_RIGHTS);
  });
}

// Messages with buffers of 9000 bytes, each on pages of its own that nobody has touched.
mmsghdr* messages(int count, std::size_t skip_pages) {
  auto* m = reinterpret_cast<mmsghdr*>(fresh(skip_pages) + 4000);
  std::memset(m, 0, static_cast<std::size_t>(count) * sizeof *m);
  for (int i = 0; i < count; ++i) {
    const std::size_t page = skip_pages + 5 + 10 * static_cast<std::size_t>(i);
    auto* v = reinterpret_cast<iovec*>(fresh(page) + 4090);
    const iovec whole{fresh(page + 3) + 4000, 9000};
    std::memcpy(v, &whole, sizeof whole);
    m[i].msg_hdr.msg_iov = v;
    m[i].msg_hdr.msg_iovlen = 1;
  }
  zap(gas::page_of(m), 5 + 10 * static_cast<std::size_t>(count));
  return m;
}
char* bytes_of(const mmsghdr& m) {
  iovec v;
  std::memcpy(&v, m.msg_hdr.msg_iov, sizeof v);
  return static_cast<char*>(v.iov_base);
}

TEST_P(Calls, ManyMessagesAreSentAndReceivedAtOnce) {
  run([] {
    int fds[2];
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == 0);
    mmsghdr* out = messages(3, 0);
    for (int i = 0; i < 3; ++i) put_pattern(bytes_of(out[i]) + i, 9000 - 2);
    zap(gas::page_of(out), 40);
    MUST(sendmmsg(fds[1], out, 3, 0) == 3 && out[2].msg_len == 9000);
    mmsghdr* in = messages(5, 100);
    auto* time = reinterpret_cast<timespec*>(fresh(200) + 4088);
    *time = {10, 0};
    zap(gas::page_of(time), 2);
    MUST(recvmmsg(fds[0], in, 5, MSG_WAITFORONE, time) == 3);
    MUST(time->tv_sec <= 10 && (time->tv_sec > 0 || time->tv_nsec > 0));
    for (int i = 0; i < 3; ++i) {
      MUST(in[i].msg_len == 9000);
      expect_pattern(bytes_of(in[i]) + i, 9000 - 2);
    }
    char word[10];
    MUST(recv(fds[0], word, sizeof word, MSG_DONTWAIT) == -1 && errno == EAGAIN);
  });
}

// An error counts only where it meets the first message.
TEST_P(Calls, SomeMessagesAreNoError) {
  run([] {
    int fds[2];
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == 0);
    mmsghdr* m = messages(3, 0);
    MUST(recvmmsg(fds[0], m, 3, MSG_DONTWAIT, nullptr) == -1 && errno == EAGAIN);
    MUST(send(fds[1], "hello", 5, 0) == 5 && recvmmsg(fds[0], m, 3, MSG_DONTWAIT, nullptr) == 1);
    MUST(m[0].msg_len == 5 && std::memcmp(bytes_of(m[0]), "hello", 5) == 0);
    auto* time = reinterpret_cast<timespec*>(fresh(200));
    *time = {0, 0};
    MUST(send(fds[1], "a", 1, 0) == 1 && send(fds[1], "b", 1, 0) == 1);
    MUST(recvmmsg(fds[0], m, 3, 0, time) == 1 && recvmmsg(fds[0], m, 3, 0, time) == 1);  // the time is over after one
    *time = {0, 1'000'000'000};
    MUST(recvmmsg(fds[0], m, 3, 0, time) == -1 && errno == EINVAL);
    MUST(recvmmsg(-1, m, 3, 0, nullptr) == -1 && errno == EBADF && sendmmsg(-1, m, 3, 0) == -1 && errno == EBADF);
  });
}

TEST_P(Dispatched, BuffersBehindPointers) {
  run([] {
    char* from = fresh(0) + 4000;
    char* to = fresh(10) + 4000;
    put_pattern(from, 20000);
    auto* local = reinterpret_cast<iovec*>(fresh(20) + 4088);
    auto* remote = reinterpret_cast<iovec*>(fresh(30) + 4088);
    *local = {to, 20000};
    *remote = {from, 20000};
    zap(gas::page_of(from), 40);
    MUST(process_vm_readv(getpid(), local, 1, remote, 1, 0) == 20000);
    expect_pattern(to, 20000);
    int ends[2];
    MUST(pipe(ends) == 0);
    zap(gas::page_of(from), 40);
    MUST(vmsplice(ends[1], local, 1, 0) == 20000);
    char got[20000];
    MUST(read(ends[0], got, sizeof got) == sizeof got);
    expect_pattern(got, sizeof got);
    auto* interfaces = reinterpret_cast<ifconf*>(fresh(40) + 4088);
    interfaces->ifc_len = 4000;
    interfaces->ifc_buf = fresh(50) + 4000;
    zap(gas::page_of(interfaces), 20);
    MUST(ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCGIFCONF, interfaces) == 0 && interfaces->ifc_len <= 4000);
    MUST(interfaces->ifc_buf == fresh(50) + 4000);
  });
}

TEST_P(Calls, StructuresThatOnlyProgramsAskFor) {
  run([] {
    char* path = fresh(0) + 4094;
    std::strcpy(path, "/tmp");
    auto* x = reinterpret_cast<struct statx*>(fresh(10) + 4000);
    zap(gas::page_of(path), 20);
    MUST(statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, x) == 0 && S_ISDIR(x->stx_mode));
    auto* f = reinterpret_cast<struct statfs*>(fresh(20) + 4000);
    zap(gas::page_of(path), 30);
    MUST(statfs(path, f) == 0 && f->f_bsize > 0);
    MUST(fstatfs(pattern_file(1), reinterpret_cast<struct statfs*>(fresh(30) + 4000)) == 0);
    auto* p = reinterpret_cast<sched_param*>(fresh(40) + 4094);
    int priority = -1;
    MUST(sched_getparam(0, p) == 0);
    std::memcpy(&priority, p, sizeof priority);
    MUST(priority == 0);
    auto* ids = reinterpret_cast<uid_t*>(fresh(50) + 4092);
    zap(gas::page_of(ids), 2);
    MUST(getresuid(ids, ids + 1, ids + 2) == 0 && ids[0] == getuid() && ids[1] == geteuid());
    zap(gas::page_of(ids), 2);
    MUST(getresgid(ids, ids + 1, ids + 2) == 0 && ids[0] == getgid() && ids[1] == getegid());
  });
}

// Where nothing was allocated in the space, as elsewhere: EFAULT, before anything that is read once is lost.
TEST_P(Calls, AnUnallocatedAddressIsEfault) {
  run([] {
    char* nothing = reinterpret_cast<char*>(user(static_cast<gas::PageIndex>(gas::layout().pages - 2)));
    MUST(gas::owner_of(gas::page_of(nothing)) == gas::kNobody);
    const int fd = pattern_file(kBig);
    for (const std::size_t bytes : {std::size_t{10}, std::size_t{5000}, kBig})
      MUST(read(fd, nothing, bytes) == -1 && errno == EFAULT);
    MUST(open(nothing, O_RDONLY) == -1 && errno == EFAULT);
    MUST(write(fd, nothing, 10) == -1 && errno == EFAULT);
    MUST(fstat(fd, reinterpret_cast<struct stat*>(nothing)) == -1 && errno == EFAULT);
    iovec v{nothing, 10};
    MUST(readv(fd, &v, 1) == -1 && errno == EFAULT);
    int fds[2];
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == 0 && send(fds[1], "hello", 5, 0) == 5);
    MUST(recv(fds[0], nothing, 10, 0) == -1 && errno == EFAULT);
    MUST(recv(fds[0], fresh(0), 10, 0) == 5);
  });
}

TEST_P(Calls, PathsAndStructures) {
  run([] {
    char* path = fresh(0) + 4090;  // across a page's end
    std::strcpy(path, "/tmp/ayatori-test-XXXXXX");
    const int fd = mkstemp(path);
    zap(gas::page_of(path), 2);
    auto* s = reinterpret_cast<struct stat*>(fresh(10) + 4000);
    MUST(fd >= 0 && stat(path, s) == 0 && S_ISREG(s->st_mode));
    zap(gas::page_of(path), 2);
    const int again = open(path, O_RDWR);
    MUST(again >= 0 && fstat(again, reinterpret_cast<struct stat*>(fresh(12))) == 0);
    zap(gas::page_of(path), 2);
    MUST(access(path, R_OK) == 0 && unlink(path) == 0 && access(path, R_OK) == -1 && errno == ENOENT);
    char* link = fresh(20);
    const ssize_t n = readlink("/proc/self/exe", link, 4096);
    MUST(n > 0 && link[0] == '/');
    int* both = reinterpret_cast<int*>(fresh(30));
    MUST(pipe(both) == 0 && write(both[1], "x", 1) == 1);
    auto* polled = reinterpret_cast<pollfd*>(fresh(40));
    *polled = {both[0], POLLIN, 0};
    zap(gas::page_of(polled), 1);
    MUST(poll(polled, 1, 1000) == 1 && polled->revents == POLLIN);
    const int ep = epoll_create1(0);
    auto* event = reinterpret_cast<epoll_event*>(fresh(50));
    event->events = EPOLLIN;
    event->data.u64 = 4711;
    zap(gas::page_of(event), 1);
    MUST(epoll_ctl(ep, EPOLL_CTL_ADD, both[0], event) == 0);
    auto* events = reinterpret_cast<epoll_event*>(fresh(60));
    MUST(epoll_wait(ep, events, 10, 1000) == 1 && events->data.u64 == 4711);
    auto* time = reinterpret_cast<timespec*>(fresh(70));
    *time = {0, 1000};
    zap(gas::page_of(time), 1);
    MUST(nanosleep(time, nullptr) == 0);
    MUST(getrandom(fresh(80), 10000, 0) == 10000);
    char* cwd = fresh(90);
    MUST(getcwd(cwd, 4096) == cwd && cwd[0] == '/');
  });
}

TEST_P(Calls, ErrorsAreThoseOfTheKernel) {
  run([] {
    char* p = fresh(0);
    MUST(read(-1, p, 30000) == -1 && errno == EBADF);
    MUST(write(-1, p, 30000) == -1 && errno == EBADF);
    MUST(open(p, O_RDONLY) == -1 && errno == ENOENT);
    int fds[2];
    MUST(pipe(fds) == 0);
    MUST(fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0 && read(fds[0], p, 1 << 20) == -1 && errno == EAGAIN);
    close(fds[1]);
    MUST(read(fds[0], p, 1 << 20) == 0);
  });
}

TEST_P(Dispatched, ABadPointerElsewhereIsEfault) {
  run([] {
    const int fd = pattern_file(100);
    void* volatile bad = reinterpret_cast<void*>(8);
    MUST(read(fd, bad, 100) == -1 && errno == EFAULT);
    iovec v[2] = {{fresh(0), 10}, {bad, 10}};
    MUST(readv(fd, v, 2) >= 0 || errno == EFAULT);
    MUST(readv(fd, static_cast<iovec*>(bad), 2) == -1 && errno == EFAULT);
  });
}

TEST_P(Dispatched, DirectoriesScanfPrintfTimeAndSemaphores) {
  run([] {
    DIR* d = opendir("/proc/self");
    int n = 0;
    while (readdir(d)) ++n;
    MUST(n > 20);
    closedir(d);
    FILE* out = fdopen(empty_file(), "w+");
    setvbuf(out, fresh(0), _IOFBF, 8192);  // stdio's own buffer in the space
    for (int i = 0; i < 5000; ++i) fprintf(out, "number %d\n", i);
    std::rewind(out);
    for (int i = 0; i < 5000; ++i) {
      int k = -1;
      if (i % 100 == 0) zap(gas::page_of(fresh(0)), 2);
      MUST(fscanf(out, " number %d", &k) == 1 && k == i);
    }
    auto* sem = reinterpret_cast<sem_t*>(fresh(10));
    sem_init(sem, 1, 0);
    std::thread poster([sem] {
      usleep(20000);
      sem_post(sem);
    });
    zap(gas::page_of(sem), 1);
    MUST(sem_wait(sem) == 0);
    poster.join();
    usleep(100);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  });
}

TEST_P(Dispatched, ThreadsMayBeMadeAndSignalsHandled) {
  run([] {
    std::atomic<int> sum{0};
    for (int i = 0; i < 20; ++i) std::thread([&sum] { sum += 1; }).join();
    MUST(sum == 20);
    static volatile sig_atomic_t got = 0;
    MUST(signal(SIGUSR1, [](int) { got = 1; }) != SIG_ERR);
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    MUST(pthread_sigmask(SIG_BLOCK, &set, &old) == 0 && raise(SIGUSR1) == 0 && got == 0);
    sigset_t pending;
    MUST(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1);
    MUST(sigsuspend(&old) == -1 && errno == EINTR && got == 1);
    got = 0;
    MUST(raise(SIGUSR1) == 0 && got == 0 && pthread_sigmask(SIG_SETMASK, &old, nullptr) == 0 && got == 1);
    // An interrupted read ends with EINTR when the handler says so.
    struct sigaction interrupting = {};
    interrupting.sa_handler = [](int) { got = 2; };
    MUST(sigaction(SIGALRM, &interrupting, nullptr) == 0);
    int fds[2];
    MUST(pipe(fds) == 0);
    ualarm(20000, 0);
    MUST(read(fds[0], fresh(0), 100) == -1 && errno == EINTR && got == 2);
  });
}

// ---- other programs

extern "C" char** environ;

void other_programs() {
  MUST(system("exit 7") == 7 << 8);
  FILE* in = popen("echo hello", "r");
  char line[100];
  MUST(in && fgets(line, sizeof line, in) && std::string(line) == "hello\n" && pclose(in) == 0);
  char* words = fresh(0);
  std::strcpy(words, "/bin/sh");
  std::strcpy(words + 5000, "-c");
  std::strcpy(words + 10000, "exit 9");
  char* argv[] = {words, words + 5000, words + 10000, nullptr};
  zap(gas::page_of(words), 3);
  pid_t pid;
  int status;
  MUST(posix_spawn(&pid, words, nullptr, nullptr, argv, environ) == 0);
  MUST(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 9);
  zap(gas::page_of(words), 3);
#if !defined(__SANITIZE_THREAD__)  // which makes the C library's fork of it: parent and child on one stack of the space
  pid = vfork();
  if (pid == 0) {
    execl("/bin/sh", "sh", "-c", "exit 5", nullptr);
    _exit(1);
  }
  MUST(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 5);
#endif
}
TEST_P(Dispatched, SystemPopenSpawnAndVfork) {
  run([] { other_programs(); });
}
TEST_P(Calls, SystemAndPopen) {
  run([] {
    MUST(system("exit 7") == 7 << 8);
    FILE* in = popen("echo hello", "r");
    char line[100];
    MUST(in && fgets(line, sizeof line, in) && std::string(line) == "hello\n" && pclose(in) == 0);
  });
}

// Parent and child go on from one fork on one stack of the space, both deep in it.
[[gnu::noinline]] int go_on(pid_t pid, int depth) {
  volatile char frame[512];
  for (volatile char& c : frame) c = static_cast<char>(pid == 0 ? 1 : 2);
  const int below = depth == 0 ? 0 : go_on(pid, depth - 1);
  for (volatile char& c : frame) MUST(c == (pid == 0 ? 1 : 2));
  return below + 1;
}
TEST_P(Calls, ForkGivesTheChildItsOwnStack) {
  run([] {
    volatile int local = 1;
    for (int round = 0; round < 20; ++round) {
      const pid_t pid = fork();
      MUST(pid >= 0);
      if (pid == 0) {
        local = local + 100;
        MUST(go_on(0, 200) == 201);
        _exit(local == 101 ? 33 : 1);
      }
      MUST(go_on(pid, 200) == 201 && local == 1);
      int status;
      MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 33);
    }
    const pid_t pid = fork();
    if (pid == 0) {
      execl("/bin/sh", "sh", "-c", "exit 6", nullptr);
      _exit(1);
    }
    int status;
    MUST(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 6);
  });
}

TEST_P(Dispatched, ExecFromAThreadReplacesTheProcess) {
  expect_child_exits_with(8, [&] {
    start({GetParam().engine, 2, GetParam().syscalls});
    on_space_stack([] {
      char* words = fresh(0);
      std::strcpy(words, "/bin/sh");
      std::strcpy(words + 5000, "-c");
      std::strcpy(words + 10000, "exit 8");
      auto** argv = reinterpret_cast<char**>(fresh(10));
      argv[0] = words;
      argv[1] = words + 5000;
      argv[2] = words + 10000;
      argv[3] = nullptr;
      zap(gas::page_of(words), 11);
      execv(words, argv);
    });
  });
}

}  // namespace
