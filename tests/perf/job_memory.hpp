// SPDX-License-Identifier: Apache-2.0
// The memory that a job has, by category, counted once over all its processes. For programs that measure what threads need;
// called by the program's threads inside the run, one at a time.
//
//   stacks      blocks of the files behind the space (one a process), whether mapped or not; heap included
//   tables      shared anonymous memory: descriptors, deques, tables of the space and of coherence
//   private     anonymous memory of the processes: Pss, as the rest
//   files       the program and its libraries
//   page tables of all processes (VmPTE)
//   file index  nodes of the kernel's tree that finds the pages of those files: 576 bytes for each 64 pages of which one is
//               there, and the levels above. Computed from the holes of the files.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ayatori/ayatori.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace job_memory {

struct Memory {
  std::int64_t stacks, tables, priv, files, page_tables, index;
  std::int64_t total() const { return stacks + tables + priv + files + page_tables + index; }
};
inline Memory operator-(const Memory& a, const Memory& b) {
  return {a.stacks - b.stacks, a.tables - b.tables,           a.priv - b.priv,
          a.files - b.files,   a.page_tables - b.page_tables, a.index - b.index};
}
inline Memory& operator+=(Memory& a, const Memory& b) {
  return a = {a.stacks + b.stacks, a.tables + b.tables,           a.priv + b.priv,
              a.files + b.files,   a.page_tables + b.page_tables, a.index + b.index};
}

[[noreturn]] inline void give_up(const char* what) {
  std::perror(what);
  std::_Exit(2);
}

// Calls line(text) for each line of a file. Static memory: nothing of the space is touched by the measurement.
template <class F>
void for_lines(const char* path, F&& line) {
  static char buffer[1 << 16];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) give_up(path);
  std::size_t held = 0;
  for (;;) {
    const ssize_t got = read(fd, buffer + held, sizeof buffer - held);
    if (got < 0) give_up(path);
    if (got == 0) break;
    held += static_cast<std::size_t>(got);
    char* at = buffer;
    while (char* end = static_cast<char*>(std::memchr(at, '\n', held - static_cast<std::size_t>(at - buffer)))) {
      line(std::string_view(at, static_cast<std::size_t>(end - at)));
      at = end + 1;
    }
    held -= static_cast<std::size_t>(at - buffer);
    std::memmove(buffer, at, held);
  }
  close(fd);
}

inline std::int64_t kilobytes(std::string_view line) {
  const std::size_t at = line.find_first_of("0123456789");
  return at == std::string_view::npos ? 0 : std::atoll(line.data() + at) * 1024;
}

// The file behind this process's part of the space.
inline int space_file() {
  static int found = -1;
  for (int fd = 0; found < 0 && fd < 1024; ++fd) {
    char link[64], target[64] = {};
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, target, sizeof target - 1) > 0 && std::strstr(target, "memfd:ayatori-space")) found = fd;
  }
  if (found < 0) give_up("the file behind the space");
  return found;
}

inline std::int64_t index_bytes(int fd) {
  constexpr std::int64_t kNodeBytes = 576, kNodePages = 64, kLevels = 6;
  std::int64_t nodes = 0, last[kLevels];
  for (std::int64_t& l : last) l = -1;
  for (off_t at = 0; (at = lseek(fd, at, SEEK_DATA)) >= 0;) {
    std::int64_t number = at / 4096 / kNodePages;
    at = static_cast<off_t>((number + 1) * kNodePages * 4096);
    for (std::int64_t& l : last) {
      nodes += number != l;
      l = number;
      number /= kNodePages;
    }
  }
  return nodes * kNodeBytes;
}

inline Memory measure() {
  Memory m{};
  struct stat file{};
  if (fstat(space_file(), &file) != 0) give_up("the file behind the space");
  m.stacks = file.st_blocks * 512;
  m.index = index_bytes(space_file());
  std::int64_t* kind = nullptr;
  static std::int64_t none;
  for_lines("/proc/self/smaps", [&](std::string_view line) {
    if (line.starts_with("Pss:")) {
      *kind += kilobytes(line);
      return;
    }
    const std::size_t colon = line.find(':'), space = line.find(' ');
    if (colon < space) return;  // a mapping's head has a range of addresses first, and its device behind that
    const auto names = [line](const char* name) { return line.find(name) != std::string_view::npos; };
    if (names("memfd:ayatori-space"))
      kind = &none;  // counted by its blocks
    else if (names("/dev/zero"))
      kind = &m.tables;
    else if (names(" /"))
      kind = &m.files;
    else
      kind = &m.priv;
  });
  for_lines("/proc/self/status", [&](std::string_view line) {
    if (line.starts_with("VmPTE:")) m.page_tables = kilobytes(line);
  });
  return m;
}

inline Memory measure_all() {
  Memory sum{};
  for (int p = 0; p < ayatori::process_count(); ++p) {
    Memory one{};
    ayatori::thread(ayatori::on(p), [&one] {
      const ayatori::pinned here;
      one = measure();
    }).join();
    sum += one;
  }
  return sum;
}

inline void print(const Memory& m) {
  const auto line = [](const char* what, std::int64_t bytes) {
    std::printf("  %-12s %12lld bytes\n", what, static_cast<long long>(bytes));
  };
  line("stacks", m.stacks);
  line("tables", m.tables);
  line("private", m.priv);
  line("files", m.files);
  line("page tables", m.page_tables);
  line("file index", m.index);
}

}  // namespace job_memory
