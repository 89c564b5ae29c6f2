// SPDX-License-Identifier: Apache-2.0
// What calls that may wait cost on user-level threads of one worker, against the same calls as the kernel offers them
// (syscall(2)). Usage: ayatori run -n 1 -w 1 blocking_micro
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ayatori/ayatori.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

template <class F>
void tell(const char* what, int operations, F&& operation) {
  std::vector<double> rounds;
  for (int r = 0; r < 11; ++r) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < operations; ++i) operation();
    rounds.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() /
                     operations);
  }
  std::ranges::sort(rounds);
  std::printf("%-64s %8.0f ns\n", what, rounds[rounds.size() / 2]);
}

void need(bool ok) {
  if (!ok) std::abort();
}

int measure() {
  const ayatori::pinned stay;
  char name[] = "/tmp/blocking_micro.XXXXXX";
  const int fd = mkstemp(name);
  unlink(name);
  static char page[4096];
  need(write(fd, page, sizeof page) == sizeof page);
  tell("pread of a cached page, the system call", 5'000,
       [&] { need(syscall(SYS_pread64, fd, page, 4096, 0) == 4096); });
  tell("... pread()", 5'000, [&] { need(pread(fd, page, 4096, 0) == 4096); });
  tell("... lseek(), read()", 5'000, [&] { need(lseek(fd, 0, SEEK_SET) == 0 && read(fd, page, 4096) == 4096); });
  tell("... lseek(), write()", 5'000, [&] { need(lseek(fd, 0, SEEK_SET) == 0 && write(fd, page, 4096) == 4096); });
  close(fd);

  int there[2], back[2];
  need(pipe(there) == 0 && pipe(back) == 0);
  const auto answer = [&] {
    const ayatori::pinned here;
    char c = 0;
    while (read(there[0], &c, 1) == 1 && c != 'e') need(write(back[1], &c, 1) == 1);
  };
  const auto ask = [&] {
    char c = 'x';
    need(write(there[1], &c, 1) == 1 && read(back[0], &c, 1) == 1);
  };
  ayatori::thread partner(answer);
  tell("a byte there and back between two user-level threads", 1'000, ask);
  need(write(there[1], "e", 1) == 1);
  partner.join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int there[2], back[2];
  need(pipe(there) == 0 && pipe(back) == 0);
  std::thread partner([&] {
    char c = 0;
    while (read(there[0], &c, 1) == 1 && c != 'e') need(write(back[1], &c, 1) == 1);
  });
  tell("a byte there and back between two OS threads", 1'000, [&] {
    char c = 'x';
    need(write(there[1], &c, 1) == 1 && read(back[0], &c, 1) == 1);
  });
  need(write(there[1], "e", 1) == 1);
  partner.join();
  return ayatori::run(argc, argv, [](auto) { return measure(); });
}
