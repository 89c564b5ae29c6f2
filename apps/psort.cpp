// SPDX-License-Identifier: Apache-2.0
// psort FILE [-o OUT]: sorts the lines of any file, byte for byte as `LC_ALL=C sort` does: lines end at '\n', every other
// byte (NUL, '\r', anything) is text, a shorter line goes before a longer one that it begins, a last line without
// newline gets one. '-' is standard input.
//
// 1. The text lies in one piece in the space; read and written with plain system calls by process 0, chunk by chunk.
// 2. What is sorted are 24-byte records with the first eight bytes of the line as a number: most comparisons need no
//    look at the text, which may lie on another process.
// 3. Everything between reading and writing is parallel: finding lines, sorting, gathering the output.
#include "common/merge_sort.hpp"
#include "common/program.hpp"
#include "common/random.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

namespace {

struct Options {
  common::Text file, out;
  bool serial = false;
};

constexpr std::size_t kChunk = 8 << 20;          // bytes of one system call
constexpr std::int64_t kTextBlock = 256 * 1024;  // bytes of text scanned by one thread
constexpr std::int64_t kLineBlock = 4096;        // lines gathered by one thread
constexpr std::size_t kLeaf = 32;                // lines sorted without merging

struct Line {
  std::uint64_t prefix;  // the first 8 bytes, big-endian, filled up with zeros
  const char* text;
  std::uint64_t length;  // without the newline
};

struct Before {
  bool operator()(const Line& a, const Line& b) const {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    const std::uint64_t common_length = std::min(a.length, b.length);
    if (common_length > 8)
      if (const int order = std::memcmp(a.text + 8, b.text + 8, common_length - 8)) return order < 0;
    return a.length < b.length;  // also for prefixes equal by their filling
  }
};

Line line_at(const char* text, const char* end) {
  std::uint64_t prefix = 0;
  std::memcpy(&prefix, text, std::min<std::size_t>(8, static_cast<std::size_t>(end - text)));
  if constexpr (std::endian::native == std::endian::little) prefix = __builtin_bswap64(prefix);
  return {prefix, text, static_cast<std::uint64_t>(end - text)};
}

// A piece of text that always ends with a newline, unless empty.
struct Buffer {
  std::unique_ptr<char[]> data;
  std::size_t size = 0;
};

// Empty string: read; otherwise what went wrong.
const char* read_all(const char* path, Buffer& buffer, int& error) {
  const bool standard_input = !std::strcmp(path, "-");
  const int fd = standard_input ? STDIN_FILENO : ::open(path, O_RDONLY | O_CLOEXEC);
  error = errno;
  if (fd < 0) return "cannot open";
  struct stat info = {};
  std::size_t capacity = kChunk;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0)
    capacity = static_cast<std::size_t>(info.st_size) + 2;  // the newline, and one byte to see the end
  buffer.data = std::make_unique_for_overwrite<char[]>(capacity);
  const char* wrong = "";
  for (;;) {
    if (buffer.size + 1 >= capacity) {  // a pipe, or the file grows
      auto larger = std::make_unique_for_overwrite<char[]>(capacity * 2);
      std::memcpy(larger.get(), buffer.data.get(), buffer.size);
      buffer.data = std::move(larger);
      capacity *= 2;
    }
    const ssize_t n = ::read(fd, buffer.data.get() + buffer.size, std::min(kChunk, capacity - 1 - buffer.size));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      error = errno;
      wrong = "cannot read";
    }
    if (n <= 0) break;
    buffer.size += static_cast<std::size_t>(n);
  }
  if (!standard_input) ::close(fd);
  if (buffer.size > 0 && buffer.data[buffer.size - 1] != '\n') buffer.data[buffer.size++] = '\n';
  return wrong;
}

const char* write_all(const char* path, const Buffer& buffer, int& error) {
  const bool standard_output = *path == '\0';
  const int fd = standard_output ? STDOUT_FILENO : ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  error = errno;
  if (fd < 0) return "cannot open";
  const char* wrong = "";
  for (std::size_t done = 0; done < buffer.size;) {
    const ssize_t n = ::write(fd, buffer.data.get() + done, std::min(kChunk, buffer.size - done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      error = errno;
      wrong = "cannot write";
      break;
    }
    done += static_cast<std::size_t>(n);
  }
  if (!standard_output && ::close(fd) != 0 && *wrong == '\0') {
    error = errno;
    wrong = "cannot write";
  }
  return wrong;
}

// What is known of a piece of text: its lines, a hash of their multiset, whether they are in order.
struct Digest {
  std::uint64_t lines = 0, hash = 0;
  bool sorted = true;
};

// Calls visit(begin, end) for each line that starts in block b of the text.
template <class Visit>
void lines_of_block(const char* text, std::size_t size, std::int64_t b, Visit visit) {
  const char* const last = text + size;
  const char* const block_end = std::min(last, text + (b + 1) * kTextBlock);
  const char* begin = text + b * kTextBlock;
  if (b > 0 && begin[-1] != '\n') {
    const void* newline = std::memchr(begin, '\n', static_cast<std::size_t>(block_end - begin));
    if (!newline) return;
    begin = static_cast<const char*>(newline) + 1;
  }
  while (begin < block_end) {
    const char* end = static_cast<const char*>(std::memchr(begin, '\n', static_cast<std::size_t>(last - begin)));
    visit(begin, end);
    begin = end + 1;
  }
}

template <class Mode>
Digest digest(const char* text, std::size_t size, std::int64_t blocks) {
  return Mode::reduce(
      0, blocks, Digest{},
      [=](std::int64_t b) {
        Digest d;
        lines_of_block(text, size, b, [&](const char* begin, const char* end) {
          ++d.lines;
          d.hash += common::hash_bytes(begin, static_cast<std::size_t>(end - begin));
          if (end + 1 < text + size) {
            const char* next = end + 1;
            const char* next_end =
                static_cast<const char*>(std::memchr(next, '\n', static_cast<std::size_t>(text + size - next)));
            d.sorted &= !Before()(line_at(next, next_end), line_at(begin, end));
          }
        });
        return d;
      },
      [](Digest a, Digest b) { return Digest{a.lines + b.lines, a.hash + b.hash, a.sorted && b.sorted}; });
}

template <class Mode>
Buffer sorted(const Buffer& in, std::int64_t blocks) {
  const char* const text = in.data.get();
  const std::size_t size = in.size;
  // Where the lines of each block go.
  std::vector<std::uint64_t> first(static_cast<std::size_t>(blocks) + 1);
  Mode::for_each(0, blocks, 1, [=, counts = first.data()](std::int64_t b) {
    std::uint64_t count = 0;
    lines_of_block(text, size, b, [&count](const char*, const char*) { ++count; });
    counts[b + 1] = count;
  });
  for (std::size_t b = 0; b < static_cast<std::size_t>(blocks); ++b) first[b + 1] += first[b];
  const std::uint64_t count = first.back();

  const auto lines = std::make_unique_for_overwrite<Line[]>(count);
  const auto scratch = std::make_unique_for_overwrite<Line[]>(count);
  Mode::for_each(0, blocks, 1, [=, out = lines.get(), starts = first.data()](std::int64_t b) {
    Line* line = out + starts[b];
    lines_of_block(text, size, b, [&line](const char* begin, const char* end) { *line++ = line_at(begin, end); });
  });
  common::MergeSort<Mode, Line, Before, false>(Before(), kLeaf).sort(lines.get(), scratch.get(), count);

  // Where each block of sorted lines goes.
  const auto line_blocks = static_cast<std::int64_t>((count + kLineBlock - 1) / kLineBlock);
  std::vector<std::uint64_t> offset(static_cast<std::size_t>(line_blocks) + 1);
  const auto block_end = [count](std::int64_t b) {
    return std::min(count, static_cast<std::uint64_t>(b + 1) * kLineBlock);
  };
  Mode::for_each(0, line_blocks, 4, [=, line = lines.get(), sizes = offset.data()](std::int64_t b) {
    std::uint64_t bytes = 0;
    for (auto i = static_cast<std::uint64_t>(b) * kLineBlock; i < block_end(b); ++i) bytes += line[i].length + 1;
    sizes[b + 1] = bytes;
  });
  for (std::size_t b = 0; b < static_cast<std::size_t>(line_blocks); ++b) offset[b + 1] += offset[b];
  Buffer result{std::make_unique_for_overwrite<char[]>(size), size};
  Mode::for_each(0, line_blocks, 1,
                 [=, line = lines.get(), starts = offset.data(), data = result.data.get()](std::int64_t b) {
                   char* out = data + starts[b];
                   for (auto i = static_cast<std::uint64_t>(b) * kLineBlock; i < block_end(b); ++i) {
                     std::memcpy(out, line[i].text, line[i].length + 1);  // every line has its newline behind it
                     out += line[i].length + 1;
                   }
                 });
  return result;
}

template <class Mode>
int run(const Options& o) {
  Buffer in;
  const char* wrong = "";
  int error = 0, status = 0;
  const auto fail = [&](const common::Text& path) {
    if (*wrong == '\0') return false;
    std::fprintf(stderr, "psort: %s %s: %s\n", wrong, path.empty() ? "standard output" : path.text,
                 std::strerror(error));
    status = 1;
    return true;
  };
  bool failed = false;
  Mode::on_process_0([&] {
    wrong = read_all(o.file.text, in, error);
    failed = fail(o.file);
  });
  if (failed) return status;

  const std::int64_t blocks = (static_cast<std::int64_t>(in.size) + kTextBlock - 1) / kTextBlock;
  const common::Timer<Mode> timer;
  const Buffer out = sorted<Mode>(in, blocks);
  const double seconds = timer.seconds();

  const Digest before = digest<Mode>(in.data.get(), in.size, blocks);
  const Digest after = digest<Mode>(out.data.get(), out.size, blocks);
  const bool ok = after.sorted && before.lines == after.lines && before.hash == after.hash;
  Mode::on_process_0([&] {
    wrong = write_all(o.out.text, out, error);
    if (fail(o.out)) return;
    std::fprintf(stderr, "%llu lines, %zu bytes\n", static_cast<unsigned long long>(after.lines), out.size);
    status = common::finish(seconds, ok, stderr);
  });
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  common::Arguments arguments("psort", "Sorts the lines of FILE ('-': standard input) as LC_ALL=C sort does.");
  arguments.word("FILE", &options.file, true, "what to sort");
  arguments.text("-o", &options.out, "OUT", "where to write, instead of standard output; may be FILE");
  arguments.flag("--serial", &options.serial, "plain calls");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return common::start(argc, argv, options, options.serial,
                       [](auto mode, const Options& o) { return run<decltype(mode)>(o); });
}
