// SPDX-License-Identifier: Apache-2.0
// Kinds about what belongs to a process or an OS thread: files, errno.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cerrno>
#include <cfenv>

#include "soak.hpp"

namespace soak {
namespace {

// ---------------------------------------------------------------------------------------------------- files

// Threads that stay where their descriptors are; system calls and stdio with buffers in the space, some of which another
// process wrote last, or nobody yet.
void one_file(u64 seed, std::vector<Byte>& from, std::vector<Byte>& into) {
  const ayatori::pinned here;
  const int process = ayatori::process_id();
  std::FILE* const file = std::tmpfile();
  if (!expect(file != nullptr, true, "a temporary file", seed)) return;
  const int fd = fileno(file);
  expect(::pwrite(fd, from.data(), from.size(), 0), static_cast<ssize_t>(from.size()), "bytes written", seed);
  expect(::pread(fd, into.data(), into.size(), 0), static_cast<ssize_t>(into.size()), "bytes read", seed);
  expect(into == from, true, "what was read", seed);
  sometimes_yield(seed >> 5);
  expect(ayatori::process_id(), process, "where a pinned thread is after a yield", seed);
  // stdio, with a buffer of its own and a line from the stack of this thread
  std::rewind(file);
  expect(::ftruncate(fd, 0), 0, "ftruncate", seed);
  for (int i = 0; i < 40; ++i)
    std::fprintf(file, "%d %llx\n", i, static_cast<unsigned long long>(mix(seed, static_cast<u64>(i))));
  std::rewind(file);
  char line[80];
  int lines = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    char want[80];
    std::snprintf(want, sizeof want, "%d %llx\n", lines,
                  static_cast<unsigned long long>(mix(seed, static_cast<u64>(lines))));
    expect(std::string(line) == want, true, "a line of a file", seed);
    ++lines;
  }
  expect(lines, 40, "the lines of a file", seed);
  // a vector of pieces of fresh memory, through a pipe
  int ends[2];
  if (expect(::pipe(ends), 0, "pipe", seed)) {
    auto fresh = std::make_unique<Byte[]>(20000);  // zeros that nobody has touched elsewhere
    iovec out[3] = {{from.data(), std::min<std::size_t>(from.size(), 3000)}, {fresh.get(), 1000}, {line, 10}};
    const auto bytes = static_cast<ssize_t>(out[0].iov_len + 1010);
    expect(::writev(ends[1], out, 3), bytes, "bytes through a pipe", seed);
    expect(::read(ends[0], fresh.get() + 5000, 15000), bytes, "bytes out of a pipe", seed);
    expect(std::equal(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(out[0].iov_len), fresh.get() + 5000),
           true, "what came through a pipe", seed);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  struct stat status = {};
  expect(::fstat(fd, &status) == 0 && S_ISREG(status.st_mode), true, "fstat", seed);
  errno = 0;
  expect(::read(-1, into.data(), 1) == -1 && errno == EBADF, true, "the error of a bad descriptor", seed);
  std::fclose(file);
}

void files(const Run& run) {
  Crew crew;
  for (int t = 0; t < 6; ++t)
    crew.start(mix(run.seed, static_cast<u64>(t)), [&run, t] {
      for (int i = 0; i < run.scaled(20); ++i) {
        const u64 r = mix(run.seed, static_cast<u64>(t * 1000 + i));
        std::vector<Byte> from(r % 30000 + 1), into(from.size());
        // written on another process; read into here, and looked at elsewhere again
        ayatori::thread(ayatori::on(anywhere(r >> 8)), [&from, r] {
          for (std::size_t k = 0; k < from.size(); ++k) from[k] = static_cast<Byte>(r + k * 7);
        }).join();
        ayatori::thread(ayatori::on(anywhere(r >> 16)), [&, r] { one_file(r, from, into); }).join();
        expect(into == from, true, "what another process read from a file", r);
      }
    });
}

// ---------------------------------------------------------------------------------------------------- errno

// errno goes with its thread; a rounding mode holds through page faults, and is given back before a thread waits.
double third(double x) {
  volatile double one = x;
  return one / 3;
}

void errors(const Run& run) {
  const double nearest = third(1);
  const auto upward = [] {
    std::fesetround(FE_UPWARD);
    const double x = third(1);
    std::fesetround(FE_TONEAREST);
    return x;
  }();
  expect(upward > nearest, true, "whether a third is rounded", run.seed);
  Crew crew;
  for (int t = 0; t < 8; ++t)
    crew.start(mix(run.seed, static_cast<u64>(t)), [&, t] {
      for (int i = 0; i < run.scaled(60); ++i) {
        const u64 r = mix(run.seed, static_cast<u64>(t * 1000 + i));
        const int mine = 1 + static_cast<int>(r % 130);
        errno = mine;
        sometimes_yield(r >> 3);
        expect(errno, mine, "errno after a yield", r);
        int child = 0;
        ayatori::thread c([&child, r] {
          errno = 1 + static_cast<int>((r >> 20) % 130);
          ayatori::this_thread::yield();
          child = errno;
        });
        expect(errno, mine, "errno after a fork", r);
        c.join();
        expect(errno, mine, "errno after a join", r);
        expect(child, 1 + static_cast<int>((r >> 20) % 130), "errno of a child", r);
        // pages that another process wrote: they are fetched while the mode is another one
        std::vector<double> far(6000);
        ayatori::thread(ayatori::on(anywhere(r >> 8)), [&far] {
          for (std::size_t k = 0; k < far.size(); ++k) far[k] = 1;
        }).join();
        errno = mine;
        std::fesetround(FE_UPWARD);
        std::size_t bad = 0;
        for (std::size_t k = 0; k < far.size(); k += 97) bad += third(far[k]) != upward;
        std::fesetround(FE_TONEAREST);
        expect(bad, 0u, "thirds that are not rounded upward", r);
        expect(errno, mine, "errno after page faults", r);
        expect(third(1) == nearest, true, "whether the rounding mode is back", r);
      }
    });
}

constexpr Kind kKinds[] = {{"files", files}, {"errno", errors}};
}  // namespace

std::span<const Kind> process_kinds() { return kKinds; }
}  // namespace soak
