// SPDX-License-Identifier: Apache-2.0
// Files and streams: buffers of space memory of any size and state (own, remote, untouched) given to the C library, to
// system calls and to iostreams. FILE and descriptors belong to a process: they are used under `pinned`.
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "suite.hpp"

using suite::elsewhere;
using suite::kMigrations;
using suite::migrate;

namespace {

constexpr std::size_t kSizes[] = {1, 100, 4096, 30'000, 3'000'000};

unsigned char at(std::size_t i) { return static_cast<unsigned char>(i * 131 + i / 4096); }
bool right(const unsigned char* p, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    if (p[i] != at(i)) return false;
  return true;
}
void fill(unsigned char* p, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) p[i] = at(i);
}

// A file of this process, without a name.
FILE* scratch() {
  FILE* f = std::tmpfile();
  CHECK(f != nullptr);
  return f;
}

// What a buffer can be when it is given away.
enum class Buffer { kUntouched, kOwn, kRemote };
std::unique_ptr<unsigned char[]> buffer(Buffer kind, std::size_t n, bool filled) {
  // 100 bytes of another allocation in front: the buffer does not begin where a page does.
  std::unique_ptr<unsigned char[]> p;
  if (kind == Buffer::kRemote) {
    elsewhere([&] {
      p = std::make_unique_for_overwrite<unsigned char[]>(n);
      std::memset(p.get(), 1, n);
      if (filled) fill(p.get(), n);
    });
  } else {
    p = std::make_unique_for_overwrite<unsigned char[]>(n);
    if (kind == Buffer::kOwn) std::memset(p.get(), 2, n);
    if (filled) fill(p.get(), n);
  }
  return p;
}

}  // namespace

CASE(fread_and_fwrite_of_any_buffer) {
  for (const Buffer kind : {Buffer::kUntouched, Buffer::kOwn, Buffer::kRemote})
    for (const std::size_t n : kSizes) {
      const auto out = buffer(kind, n, true), in = buffer(kind, n, false);
      migrate();
      ayatori::pinned here;
      FILE* f = scratch();
      CHECK(std::fwrite(out.get(), 1, n, f) == n);
      CHECK(std::fseek(f, 0, SEEK_SET) == 0);
      const std::size_t got = std::fread(in.get(), 1, n, f);
      CHECK_NOTE(got == n && right(in.get(), n), std::to_string(got) + " of " + std::to_string(n));
      std::fclose(f);
    }
}

CASE(read_and_write_of_any_buffer) {
  for (const Buffer kind : {Buffer::kUntouched, Buffer::kOwn, Buffer::kRemote})
    for (const std::size_t n : kSizes) {
      const auto out = buffer(kind, n, true), in = buffer(kind, n, false), again = buffer(kind, n, false);
      migrate();
      ayatori::pinned here;
      FILE* f = scratch();
      const int fd = fileno(f);
      const auto want = static_cast<ssize_t>(n);
      CHECK(write(fd, out.get(), n) == want);
      CHECK(lseek(fd, 0, SEEK_SET) == 0);
      const ssize_t got = read(fd, in.get(), n);
      CHECK_NOTE(got == want && right(in.get(), n), std::to_string(got) + " of " + std::to_string(n));
      CHECK(pread(fd, again.get(), n, 0) == want && right(again.get(), n));
      const std::size_t half = n / 2;
      const iovec parts[2] = {{out.get(), half}, {out.get() + half, n - half}};
      CHECK(pwritev(fd, parts, 2, 5) == want);
      const iovec back[2] = {{again.get(), half}, {again.get() + half, n - half}};
      std::memset(again.get(), 0, n);
      CHECK(preadv(fd, back, 2, 5) == want && right(again.get(), n));
      std::fclose(f);
    }
}

CASE(a_pipe_from_one_thread_to_another) {
  for (int round = 0; round < 5; ++round) {
    const std::size_t n = 300'000;
    const auto out = buffer(Buffer::kRemote, n, true), in = buffer(Buffer::kRemote, n, false);
    int fds[2];
    ayatori::pinned here;
    CHECK(pipe(fds) == 0);
    CHECK(fcntl(fds[1], F_SETPIPE_SZ, 1 << 20) > 0);
    CHECK(write(fds[1], out.get(), n) == static_cast<ssize_t>(n));
    std::size_t got = 0;
    while (got < n) {
      const ssize_t r = read(fds[0], in.get() + got, n - got);
      if (r <= 0) break;
      got += static_cast<std::size_t>(r);
    }
    CHECK(got == n && right(in.get(), n));
    close(fds[0]);
    close(fds[1]);
  }
}

CASE(system_calls_on_a_fresh_stack) {
  for (int i = 0; i < kMigrations; ++i) {
    elsewhere([&] {
      ayatori::pinned here;
      char below[60'000];  // pages of this stack that nobody touched
      FILE* f = scratch();
      const std::string text(50'000, static_cast<char>('a' + i % 26));
      CHECK(write(fileno(f), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
      CHECK(pread(fileno(f), below, sizeof below, 0) == static_cast<ssize_t>(text.size()));
      CHECK(std::memcmp(below, text.data(), text.size()) == 0);
      std::fclose(f);
      CHECK(getcwd(below, sizeof below) == below && below[0] == '/');
    });
  }
}

CASE(file_streams_and_long_lines) {
  for (int i = 0; i < 5; ++i) {
    std::string name = "/tmp/ayatori-ordinary-XXXXXX";
    std::string line(3'000'000, 'l'), text(30'000, 't'), a, b, c;
    for (std::size_t k = 0; k < line.size(); k += 1000) line[k] = static_cast<char>('0' + k / 1000 % 10);
    elsewhere([&] { a.assign(100, 'x'); });
    migrate();
    ayatori::pinned here;
    const int fd = mkstemp(name.data());
    CHECK(fd >= 0);
    close(fd);
    {
      std::ofstream out(name);
      out << text << '\n' << line << '\n' << 42 << '\n';
      CHECK(out.good());
    }
    {
      std::ifstream in(name);
      CHECK(std::getline(in, a) && a == text);
      CHECK(std::getline(in, b) && b == line);
      CHECK(std::getline(in, c) && c == "42");
    }
    FILE* f = std::fopen(name.c_str(), "r");
    char* got = nullptr;
    std::size_t room = 0;
    CHECK(getline(&got, &room, f) == 30'001 && text + "\n" == got);
    CHECK(getline(&got, &room, f) == 3'000'001 && line + "\n" == got);
    std::free(got);
    std::fclose(f);
    unlink(name.c_str());
  }
}

CASE(string_streams_migrate) {
  std::ostringstream out;
  std::string want;
  for (int i = 0; i < kMigrations; ++i) {
    out << std::setw(5) << std::setfill('.') << i << ' ' << std::hex << i * 77 << std::dec << ' ' << i / 8.0 << '\n';
    char text[100];
    std::snprintf(text, sizeof text, "%5d %x %g\n", i, i * 77, i / 8.0);
    for (char* p = text; *p == ' '; ++p) *p = '.';
    want += text;
    migrate();
  }
  CHECK(out.str() == want);
  std::istringstream in(out.str());
  std::string line;
  int lines = 0;
  while (std::getline(in, line)) {
    std::stringstream parts(line);
    std::string first;
    parts >> first;
    CHECK(static_cast<int>(first.size()) >= 5);
    if (++lines % 4 == 0) migrate();
  }
  CHECK(lines == kMigrations);
  for (int i = 0; i < kMigrations; ++i) {  // made here, destroyed there
    auto s = std::make_unique<std::stringstream>();
    *s << "made on process " << i;
    elsewhere([&] {
      CHECK(s->str() == "made on process " + std::to_string(i));
      s.reset();
    });
  }
}

// The lines of a thread come out in its order, wherever it goes; tests/system/ordinary/run.sh looks at them.
CASE(standard_output_keeps_a_threads_order) {
  for (int i = 0; i < kMigrations; ++i) {
    if (i % 2 == 0)
      std::cout << "line " << i << " by a stream, of some length " << std::string(static_cast<std::size_t>(i * 7), '-')
                << '\n';
    else
      std::printf("line %d by printf %s\n", i, std::string(static_cast<std::size_t>(i * 11), '=').c_str());
    migrate();
  }
}
