// SPDX-License-Identifier: Apache-2.0
// Threads that wait in calls of the C library let others run: in each case more threads wait than there are workers, and
// another thread does what they wait for. If a call kept its worker, the job would stand still until the test's time limit.
//
// Each process runs all cases. Arguments: names of cases. The last line is `check: ok` or `check: FAILED`.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <ayatori/ayatori.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace here = ayatori::this_thread;
constexpr int kThreads = 9;  // more than workers

ayatori::global<ayatori::atomic<int>> wrong;

void check(bool right, const char* what, int line, long value) {
  if (right) return;
  const int error = errno;
  std::printf("blocking.cpp:%d: not true on process %d: %s (%ld, errno %d)\n", line, ayatori::process_id(), what, value,
              error);
  wrong->fetch_add(1);
}
template <class A, class B>
void equal(A a, B b, const char* what, int line) {
  check(std::cmp_equal(a, b), what, line, static_cast<long>(a));
}
#define CHECK(e) check((e), #e, __LINE__, 0)
#define EQUAL(a, b) equal(a, b, #a " == " #b, __LINE__)

struct Pipe {
  int in = -1, out = -1;
  Pipe() {
    int ends[2];
    CHECK(pipe(ends) == 0);
    in = ends[0], out = ends[1];
  }
  explicit Pipe(int type) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, type, 0, ends) == 0);
    in = ends[0], out = ends[1];
  }
  ~Pipe() {
    close_out();
    close(in);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_out() {
    if (out >= 0) close(std::exchange(out, -1));
  }
};

// Threads that each wait in `wait(i)` before `release(i)` is called, and have ended after it.
void wait_and_release(const std::function<void(int)>& wait, const std::function<void(int)>& release) {
  std::vector<ayatori::thread> threads;
  ayatori::atomic<int> begun{0};
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      const ayatori::pinned stay;
      begun.fetch_add(1);
      wait(i);
    });
  while (begun.load() < kThreads) here::yield();
  for (int i = 0; i < kThreads; ++i) release(i);
  for (ayatori::thread& t : threads) t.join();
}

// ------------------------------------------------------------------------------------------------ pipes and sockets

void reads() {
  std::vector<Pipe> pipes(kThreads);
  wait_and_release(
      [&](int i) {
        char text[8] = {};
        errno = 1000 + i;
        EQUAL(read(pipes[static_cast<std::size_t>(i)].in, text, sizeof text), 4);
        EQUAL(errno, 1000 + i);
        CHECK(std::strcmp(text, "abc") == 0);
        char first[2] = {}, second[8] = {};
        const iovec parts[] = {{first, 2}, {second, 8}};
        EQUAL(readv(pipes[static_cast<std::size_t>(i)].in, parts, 2), 5);
        CHECK(std::memcmp(first, "de", 2) == 0 && std::memcmp(second, "fgh", 3) == 0);
        EQUAL(read(pipes[static_cast<std::size_t>(i)].in, text, sizeof text), 0);  // nobody writes any more
      },
      [&](int i) {
        Pipe& p = pipes[static_cast<std::size_t>(i)];
        EQUAL(write(p.out, "abc", 4), 4);
        while (p.out >= 0) {
          int left = 0;
          pollfd look{p.in, POLLIN, 0};
          left = poll(&look, 1, 0);
          if (left == 0) break;
          here::yield();
        }
        const iovec parts[] = {{const_cast<char*>("def"), 3}, {const_cast<char*>("gh"), 2}};
        EQUAL(writev(p.out, parts, 2), 5);
        pollfd look{p.in, POLLIN, 0};
        while (poll(&look, 1, 0) != 0) here::yield();
        p.close_out();
      });
}

// Far more than fits: whole all the same.
void writes() {
  constexpr std::size_t kBytes = 1'000'003;
  for (const int kind : {0, 1, 2}) {
    std::vector<std::unique_ptr<Pipe>> ends;
    for (int i = 0; i < kThreads; ++i)
      ends.push_back(kind == 0 ? std::make_unique<Pipe>() : std::make_unique<Pipe>(SOCK_STREAM));
    wait_and_release(
        [&](int i) {
          std::vector<unsigned char> bytes(kBytes);
          for (std::size_t k = 0; k < kBytes; ++k)
            bytes[k] = static_cast<unsigned char>(k * 7 + static_cast<std::size_t>(i));
          const int fd = ends[static_cast<std::size_t>(i)]->out;
          iovec parts[] = {
              {bytes.data(), 10}, {bytes.data() + 10, 500'000}, {bytes.data() + 500'010, kBytes - 500'010}};
          ssize_t n = 0;
          if (kind == 2) {
            msghdr m{};
            m.msg_iov = parts;
            m.msg_iovlen = 3;
            n = sendmsg(fd, &m, MSG_NOSIGNAL);
          } else if (i % 3 == 0) {
            n = writev(fd, parts, 3);
          } else if (i % 3 == 1 && kind == 1) {
            n = send(fd, bytes.data(), kBytes, 0);
          } else {
            n = write(fd, bytes.data(), kBytes);
          }
          EQUAL(n, static_cast<ssize_t>(kBytes));
        },
        [&](int i) {
          std::vector<unsigned char> bytes(kBytes);
          const int fd = ends[static_cast<std::size_t>(i)]->in;
          std::size_t got = 0;
          if (kind == 1 && i % 2 == 0) {
            got = static_cast<std::size_t>(recv(fd, bytes.data(), kBytes, MSG_WAITALL));
          } else if (kind == 2) {
            iovec parts[] = {{bytes.data(), 400'000}, {bytes.data() + 400'000, kBytes - 400'000}};
            msghdr m{};
            m.msg_iov = parts;
            m.msg_iovlen = 2;
            got = static_cast<std::size_t>(recvmsg(fd, &m, MSG_WAITALL));
          } else {
            while (got < kBytes) {
              const ssize_t n = read(fd, bytes.data() + got, kBytes - got);
              if (n <= 0) break;
              got += static_cast<std::size_t>(n);
            }
          }
          EQUAL(got, kBytes);
          std::size_t bad = 0;
          for (std::size_t k = 0; k < kBytes; ++k)
            bad += bytes[k] != static_cast<unsigned char>(k * 7 + static_cast<std::size_t>(i));
          EQUAL(bad, 0u);
        });
  }
}

void messages() {
  std::vector<std::unique_ptr<Pipe>> ends;
  for (int i = 0; i < kThreads; ++i) ends.push_back(std::make_unique<Pipe>(i % 2 == 0 ? SOCK_DGRAM : SOCK_STREAM));
  wait_and_release(
      [&](int i) {
        const int fd = ends[static_cast<std::size_t>(i)]->in;
        char text[8] = {};
        ssize_t n = 0;
        if (i % 3 == 0) n = recv(fd, text, sizeof text, 0);
        if (i % 3 == 1) n = recvfrom(fd, text, sizeof text, 0, nullptr, nullptr);
        if (i % 3 == 2) {
          iovec part{text, sizeof text};
          msghdr m{};
          m.msg_iov = &part;
          m.msg_iovlen = 1;
          n = recvmsg(fd, &m, 0);
        }
        EQUAL(n, 3);
        CHECK(std::strcmp(text, "hi") == 0);
        EQUAL(recv(fd, text, sizeof text, MSG_DONTWAIT), -1);
        EQUAL(errno, EAGAIN);
      },
      [&](int i) { EQUAL(send(ends[static_cast<std::size_t>(i)]->out, "hi", 3, 0), 3); });
}

int listener(sockaddr_in* at, int backlog) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  *at = {};
  at->sin_family = AF_INET;
  at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(bind(fd, reinterpret_cast<sockaddr*>(at), sizeof *at) == 0);
  CHECK(listen(fd, backlog) == 0);
  socklen_t bytes = sizeof *at;
  CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(at), &bytes) == 0);
  return fd;
}

// All accept at one socket. Each sends back what it hears.
void connections() {
  sockaddr_in at;
  const int fd = listener(&at, 64);
  wait_and_release(
      [&](int i) {
        sockaddr_in from{};
        socklen_t bytes = sizeof from;
        const int c = i % 2 == 0 ? accept(fd, reinterpret_cast<sockaddr*>(&from), &bytes)
                                 : accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
        CHECK(c >= 0);
        if (i % 2 == 0) EQUAL(ntohl(from.sin_addr.s_addr), INADDR_LOOPBACK);
        int n = 0;
        EQUAL(recv(c, &n, sizeof n, MSG_WAITALL), 4);
        ++n;
        EQUAL(send(c, &n, sizeof n, 0), 4);
        close(c);
      },
      [&](int i) {
        const int c = socket(AF_INET, SOCK_STREAM, 0);
        EQUAL(connect(c, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
        EQUAL(fcntl(c, F_GETFL) & O_NONBLOCK, 0);
        int n = i;
        EQUAL(write(c, &n, sizeof n), 4);
        EQUAL(read(c, &n, sizeof n), 4);
        EQUAL(n, i + 1);
        close(c);
      });
  close(fd);
}

// A local listener has room for few: who connects waits until somebody accepts.
void crowded() {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "ayatori-blocking-%d", static_cast<int>(getpid()));
  CHECK(bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  CHECK(listen(fd, 1) == 0);
  wait_and_release(
      [&](int) {
        const int c = socket(AF_UNIX, SOCK_STREAM, 0);
        EQUAL(connect(c, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
        char end;
        EQUAL(read(c, &end, 1), 0);
        close(c);
      },
      [&](int) {
        const int c = accept(fd, nullptr, nullptr);
        CHECK(c >= 0);
        close(c);
      });
  close(fd);
}

// A reader is told when its socket is shut down, and when the other end goes.
void ends() {
  std::vector<std::unique_ptr<Pipe>> all;
  for (int i = 0; i < kThreads; ++i) all.push_back(std::make_unique<Pipe>(SOCK_STREAM));
  wait_and_release(
      [&](int i) {
        char c;
        EQUAL(read(all[static_cast<std::size_t>(i)]->in, &c, 1), 0);
      },
      [&](int i) {
        Pipe& p = *all[static_cast<std::size_t>(i)];
        if (i % 2 == 0)
          CHECK(shutdown(p.in, SHUT_RD) == 0);
        else
          p.close_out();
      });
}

// Many threads of one descriptor: each byte goes to one.
void one_for_all() {
  Pipe p;
  ayatori::atomic<int> sum{0};
  wait_and_release(
      [&](int) {
        unsigned char c = 0;
        EQUAL(read(p.in, &c, 1), 1);
        sum.fetch_add(c);
      },
      [&](int i) {
        const auto c = static_cast<unsigned char>(i + 1);
        EQUAL(write(p.out, &c, 1), 1);
      });
  EQUAL(sum.load(), kThreads * (kThreads + 1) / 2);
}

// A token goes round a ring of threads.
void ring() {
  constexpr int kRing = 60, kRounds = 5;
  std::vector<Pipe> pipes(kRing);
  std::vector<ayatori::thread> threads;
  for (int i = 1; i < kRing; ++i)
    threads.emplace_back([&, i] {
      const ayatori::pinned stay;
      for (int r = 0; r < kRounds; ++r) {
        int n = 0;
        EQUAL(read(pipes[static_cast<std::size_t>(i)].in, &n, sizeof n), 4);
        ++n;
        EQUAL(write(pipes[static_cast<std::size_t>((i + 1) % kRing)].out, &n, sizeof n), 4);
      }
    });
  int n = 0;
  for (int r = 0; r < kRounds; ++r) {
    ++n;
    EQUAL(write(pipes[1].out, &n, sizeof n), 4);
    EQUAL(read(pipes[0].in, &n, sizeof n), 4);
  }
  EQUAL(n, kRing * kRounds);
  for (ayatori::thread& t : threads) t.join();
}

// ------------------------------------------------------------------------------------------------ several descriptors

void polls() {
  std::vector<Pipe> first(kThreads), second(kThreads);
  wait_and_release(
      [&](int i) {
        const int a = first[static_cast<std::size_t>(i)].in, b = second[static_cast<std::size_t>(i)].in;
        pollfd both[] = {{a, POLLIN, 0}, {-1, POLLIN, 0}, {b, POLLIN, 0}, {b, 0, 0}};
        fd_set set, other;
        FD_ZERO(&set);
        FD_SET(a, &set);
        FD_SET(b, &set);
        FD_ZERO(&other);
        timeval long_time{3600, 0};
        const timespec long_time_ns{3600, 0};
        switch (i % 6) {
          case 0:
            EQUAL(poll(both, 4, -1), 1);
            CHECK(both[0].revents == 0 && both[2].revents == POLLIN);
            break;
          case 1:
            EQUAL(ppoll(both, 3, &long_time_ns, nullptr), 1);
            CHECK(both[0].revents == 0 && both[2].revents == POLLIN);
            break;
          case 2:
            EQUAL(select(std::max(a, b) + 1, &set, nullptr, &other, &long_time), 1);
            CHECK(!FD_ISSET(a, &set) && FD_ISSET(b, &set));
            CHECK(long_time.tv_sec > 3000 && long_time.tv_sec < 3600);
            break;
          case 3:
            EQUAL(pselect(std::max(a, b) + 1, &set, nullptr, nullptr, nullptr, nullptr), 1);
            CHECK(!FD_ISSET(a, &set) && FD_ISSET(b, &set));
            break;
          case 4: EQUAL(poll(&both[2], 1, 3'600'000), 1); break;
          default: {
            const int ep = epoll_create1(0);
            epoll_event event{};
            event.events = EPOLLIN;
            event.data.fd = 77;
            CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, b, &event) == 0);
            epoll_event got{};
            EQUAL(epoll_wait(ep, &got, 1, -1), 1);
            EQUAL(got.data.fd, 77);
            close(ep);
          }
        }
      },
      [&](int i) { EQUAL(write(second[static_cast<std::size_t>(i)].out, "x", 1), 1); });
}

// Times end a wait, and nothing else did.
void timeouts() {
  Pipe p;
  Pipe s(SOCK_STREAM);
  const timeval time{0, 30'000};
  CHECK(setsockopt(s.in, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
  CHECK(setsockopt(s.in, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0);
  wait_and_release(
      [&](int i) {
        pollfd look[] = {{p.in, POLLIN, 0}, {s.in, POLLIN, 0}};
        fd_set set;
        FD_ZERO(&set);
        FD_SET(p.in, &set);
        timeval short_time{0, 20'000};
        const timespec short_time_ns{0, 20'000'000};
        char c;
        switch (i % 8) {
          case 0: EQUAL(poll(look, 2, 20), 0); break;
          case 1: EQUAL(poll(look, 1, 20), 0); break;
          case 2: EQUAL(poll(nullptr, 0, 20), 0); break;
          case 3:
            EQUAL(select(p.in + 1, &set, nullptr, nullptr, &short_time), 0);
            CHECK(!FD_ISSET(p.in, &set) && short_time.tv_sec == 0 && short_time.tv_usec == 0);
            break;
          case 4: EQUAL(pselect(0, nullptr, nullptr, nullptr, &short_time_ns, nullptr), 0); break;
          case 5:
            EQUAL(recv(s.in, &c, 1, 0), -1);
            EQUAL(errno, EAGAIN);
            break;
          case 6:
            EQUAL(read(s.in, &c, 1), -1);
            EQUAL(errno, EAGAIN);
            break;
          default: {
            std::vector<char> many(8'000'000);
            const ssize_t n = write(s.in, many.data(), many.size());
            CHECK(n > 0 && n < 8'000'000);  // nobody reads
          }
        }
      },
      [](int) {});
}

// ------------------------------------------------------------------------------------------------ time

void sleeps() {
  ayatori::atomic<int> awake{0};
  std::vector<ayatori::thread> threads;
  const auto sleeper = [&](auto&& f) {
    threads.emplace_back([&, f] {
      const auto begun = std::chrono::steady_clock::now();
      f();
      CHECK(std::chrono::steady_clock::now() - begun >= std::chrono::seconds(1));
      awake.fetch_add(1);
    });
  };
  const timespec second{1, 0};
  for (int k = 0; k < 2; ++k) {
    sleeper([&] { EQUAL(nanosleep(&second, nullptr), 0); });
    sleeper([&] { EQUAL(usleep(1'000'000), 0); });
    sleeper([&] { EQUAL(sleep(1), 0u); });
    sleeper([&] { EQUAL(clock_nanosleep(CLOCK_REALTIME, 0, &second, nullptr), 0); });
    sleeper([&] {
      timespec until;
      clock_gettime(CLOCK_REALTIME, &until);
      until.tv_sec += 1;
      until.tv_nsec = std::min(until.tv_nsec + 1'000'000, 999'999'999L);
      EQUAL(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, nullptr), 0);
    });
    sleeper([&] { std::this_thread::sleep_for(std::chrono::seconds(1)); });
  }
  // Who sleeps with its worker would have woken by now, one after the other.
  CHECK(awake.load() < static_cast<int>(threads.size()));
  for (ayatori::thread& t : threads) t.join();
  EQUAL(awake.load(), static_cast<int>(threads.size()));
}

// Many at once, in any order: each wakes.
void sleepers() {
  constexpr int kMany = 300;
  ayatori::atomic<int> awake{0};
  std::vector<ayatori::thread> threads;
  for (int i = 0; i < kMany; ++i)
    threads.emplace_back([&, i] {
      usleep(static_cast<useconds_t>((i * 7919) % 40'000));
      awake.fetch_add(1);
    });
  for (ayatori::thread& t : threads) t.join();
  EQUAL(awake.load(), kMany);
}

// ------------------------------------------------------------------------------------------------ children, files

void children() {
  std::vector<Pipe> pipes(3);
  std::vector<pid_t> pids;
  for (std::size_t i = 0; i < 3; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {  // no member of the job: its calls wait as they always did
      char c = 0;
      const ssize_t n = read(pipes[i].in, &c, 1);
      _exit(n == 1 ? 40 + c : 1);
    }
    CHECK(pid > 0);
    pids.push_back(pid);
  }
  std::vector<ayatori::thread> threads;
  ayatori::atomic<int> any{0};
  threads.emplace_back([&] {
    const ayatori::pinned stay;
    int status = 0;
    EQUAL(waitpid(pids[0], &status, 0), pids[0]);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 41);
  });
  for (int k = 0; k < 2; ++k)
    threads.emplace_back([&] {
      const ayatori::pinned stay;
      int status = 0;
      const pid_t pid = waitpid(k == 0 ? pids[1] : pids[2], &status, 0);
      CHECK(pid == pids[1] || pid == pids[2]);
      any.fetch_add(WEXITSTATUS(status));
    });
  for (std::size_t i = 0; i < 3; ++i) {
    const char c = static_cast<char>(i + 1);
    EQUAL(write(pipes[i].out, &c, 1), 1);
  }
  for (ayatori::thread& t : threads) t.join();
  EQUAL(any.load(), 42 + 43);
  EQUAL(waitpid(pids[0], nullptr, 0), -1);
  EQUAL(errno, ECHILD);
}

// Any child: by an OS thread, as there is no descriptor for it.
void any_child() {
  Pipe p;
  const pid_t pid = fork();
  if (pid == 0) {
    char c = 0;
    _exit(read(p.in, &c, 1) == 1 ? 9 : 1);
  }
  ayatori::thread waiter([&] {
    const ayatori::pinned stay;
    int status = 0;
    EQUAL(wait(&status), pid);
    EQUAL(WEXITSTATUS(status), 9);
  });
  EQUAL(write(p.out, "x", 1), 1);
  waiter.join();
}

void files() {
  std::vector<ayatori::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([i] {
      const ayatori::pinned stay;
      char name[] = "/tmp/ayatori-blocking.XXXXXX";
      const int fd = mkstemp(name);
      CHECK(fd >= 0);
      unlink(name);
      std::vector<int> out(300'001), in(300'001);
      std::iota(out.begin(), out.end(), i);
      const std::size_t bytes = out.size() * sizeof(int);
      EQUAL(write(fd, out.data(), bytes), static_cast<ssize_t>(bytes));
      EQUAL(fsync(fd), 0);
      EQUAL(fdatasync(fd), 0);
      for (const bool cold : {false, true, true}) {
        if (cold) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        std::fill(in.begin(), in.end(), -1);
        CHECK(lseek(fd, 0, SEEK_SET) == 0);
        in.resize(out.size() + 25);  // more than there is
        EQUAL(read(fd, in.data(), bytes + 100), static_cast<ssize_t>(bytes));
        in.resize(out.size());
        CHECK(in == out);
        if (cold) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        std::fill(in.begin(), in.end(), -1);
        const iovec parts[] = {{in.data(), 4000}, {in.data() + 1000, bytes - 4000}};
        EQUAL(preadv(fd, parts, 2, 0), static_cast<ssize_t>(bytes));
        CHECK(in == out);
        if (cold) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        int one = 0;
        EQUAL(pread(fd, &one, sizeof one, 4 * 123'456), 4);
        EQUAL(one, 123'456 + i);
      }
      EQUAL(read(fd, in.data(), 8), 0);  // the end
      close(fd);
    });
  for (ayatori::thread& t : threads) t.join();
}

// ------------------------------------------------------------------------------------------------ errors

void errors() {
  signal(SIGPIPE, SIG_IGN);
  char c = 0;
  EQUAL(read(-1, &c, 1), -1);
  EQUAL(errno, EBADF);
  EQUAL(write(9999, &c, 1), -1);
  EQUAL(errno, EBADF);
  EQUAL(accept(-1, nullptr, nullptr), -1);
  EQUAL(errno, EBADF);
  EQUAL(fsync(-1), -1);
  EQUAL(errno, EBADF);
  Pipe p;
  EQUAL(recv(p.in, &c, 1, 0), -1);
  EQUAL(errno, ENOTSOCK);
  EQUAL(accept(p.in, nullptr, nullptr), -1);
  EQUAL(errno, ENOTSOCK);
  EQUAL(fsync(p.in), -1);
  EQUAL(errno, EINVAL);
  EQUAL(pread(p.in, &c, 1, 0), -1);
  EQUAL(errno, ESPIPE);
  CHECK(fcntl(p.in, F_SETFL, O_NONBLOCK) == 0 && fcntl(p.out, F_SETFL, O_NONBLOCK) == 0);
  EQUAL(read(p.in, &c, 1), -1);
  EQUAL(errno, EAGAIN);
  const std::vector<char> many(1'000'000);
  const ssize_t part = write(p.out, many.data(), many.size());
  CHECK(part > 0 && part < 1'000'000);
  EQUAL(write(p.out, many.data(), many.size()), -1);
  EQUAL(errno, EAGAIN);
  Pipe s(SOCK_STREAM);
  close(std::exchange(s.in, open("/dev/null", O_RDWR)));
  EQUAL(write(s.out, "x", 1), -1);
  EQUAL(errno, EPIPE);
  EQUAL(send(s.out, "x", 1, MSG_NOSIGNAL), -1);
  EQUAL(errno, EPIPE);
  sockaddr_in at;
  close(listener(&at, 1));
  const int nobody = socket(AF_INET, SOCK_STREAM, 0);
  EQUAL(connect(nobody, reinterpret_cast<sockaddr*>(&at), sizeof at), -1);
  EQUAL(errno, ECONNREFUSED);
  close(nobody);
  pollfd look{9999, POLLIN, 0};
  EQUAL(poll(&look, 1, -1), 1);
  EQUAL(look.revents, POLLNVAL);
  fd_set set;
  FD_ZERO(&set);
  const int closed = dup(0);
  close(closed);
  FD_SET(closed, &set);
  EQUAL(select(closed + 1, &set, nullptr, nullptr, nullptr), -1);
  EQUAL(errno, EBADF);
  const timespec bad{0, 2'000'000'000}, negative{-1, 0};
  EQUAL(nanosleep(&bad, nullptr), -1);
  EQUAL(errno, EINVAL);
  EQUAL(clock_nanosleep(CLOCK_MONOTONIC, 0, &negative, nullptr), EINVAL);
  EQUAL(ppoll(nullptr, 0, &bad, nullptr), -1);
  EQUAL(errno, EINVAL);
  EQUAL(wait(nullptr), -1);
  EQUAL(errno, ECHILD);
  EQUAL(waitpid(getpid(), nullptr, 0), -1);
  EQUAL(errno, ECHILD);
}

struct Case {
  const char* name;
  void (*run)();
};
constexpr Case kCases[] = {{"reads", reads},
                           {"writes", writes},
                           {"messages", messages},
                           {"connections", connections},
                           {"crowded", crowded},
                           {"ends", ends},
                           {"one_for_all", one_for_all},
                           {"ring", ring},
                           {"polls", polls},
                           {"timeouts", timeouts},
                           {"sleeps", sleeps},
                           {"sleepers", sleepers},
                           {"children", children},
                           {"any_child", any_child},
                           {"files", files},
                           {"errors", errors}};

}  // namespace

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto args) {
    int done = 0;
    for (const Case& c : kCases) {
      bool wanted = args.size() == 1;
      for (std::size_t i = 1; i < args.size(); ++i) wanted = wanted || std::strcmp(args[i], c.name) == 0;
      if (!wanted) continue;
      ++done;
      const int before = wrong->load();
      std::vector<ayatori::thread> all;
      for (int p = 0; p < ayatori::process_count(); ++p)
        all.emplace_back(ayatori::on(p), [&c, p] {
          const ayatori::pinned stay;
          if (ayatori::process_id() != p) std::abort();
          c.run();
        });
      for (ayatori::thread& t : all) t.join();
      std::printf("%s: %s\n", c.name, wrong->load() == before ? "ok" : "FAILED");
    }
    const bool ok = done > 0 && wrong->load() == 0;
    std::printf("check: %s\n", ok ? "ok" : "FAILED");
    return ok ? 0 : 1;
  });
}
