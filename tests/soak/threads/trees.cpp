// SPDX-License-Identifier: Apache-2.0
// Kinds of trees of forks: fib, queens, uts, deep.
#include <array>

#include "soak.hpp"

namespace soak {
namespace {

// ---------------------------------------------------------------------------------------------------- fib

long fib_serial(long n) { return n < 2 ? n : fib_serial(n - 1) + fib_serial(n - 2); }

// A thread a call; the child writes the parent's local.
long fib_threads(long n) {
  if (n < 2) return n;
  long a = -1;
  ayatori::thread t([&a, n] { a = fib_threads(n - 1); });
  const long b = fib_threads(n - 2);
  t.join();
  return a + b;
}

void fib(const Run& run) {
  const int rounds = run.scaled(4);
  for (int r = 0; r < rounds; ++r) {
    const long n = 17 + static_cast<long>(mix(run.seed, static_cast<u64>(r)) % 5);
    expect(fib_threads(n), fib_serial(n), "a Fibonacci number", static_cast<u64>(n));
  }
}

// ---------------------------------------------------------------------------------------------------- queens

constexpr std::array<long, 11> kSolutions = {1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724};  // known counts
struct Board {
  std::array<signed char, 11> column;
};

bool fits(const Board& board, int row, int column) {
  for (int r = 0; r < row; ++r) {
    const int c = board.column[static_cast<std::size_t>(r)];
    if (c == column || c - column == row - r || column - c == row - r) return false;
  }
  return true;
}

// Children read the parent's board and count into an array of the parent's frame.
long queens_below(const Board& board, int row, int n, int serial_from) {
  if (row == n) return 1;
  std::array<long, 11> counts = {};
  std::array<ayatori::thread, 11> threads;
  for (int c = 0; c < n; ++c) {
    if (!fits(board, row, c)) continue;
    const auto place = [&board, &counts, row, n, serial_from, c] {
      Board next = board;
      next.column[static_cast<std::size_t>(row)] = static_cast<signed char>(c);
      counts[static_cast<std::size_t>(c)] = queens_below(next, row + 1, n, serial_from);
    };
    if (row >= serial_from)
      place();
    else
      threads[static_cast<std::size_t>(c)] = ayatori::thread(place);
  }
  long sum = 0;
  for (std::size_t c = 0; c < static_cast<std::size_t>(n); ++c) {
    if (threads[c].joinable()) threads[c].join();
    sum += counts[c];
  }
  return sum;
}

void queens(const Run& run) {
  const int rounds = run.scaled(3);
  for (int r = 0; r < rounds; ++r) {
    Random random(mix(run.seed, static_cast<u64>(r)));
    const int n = random.range(7, 9);
    const Board empty = {};
    expect(queens_below(empty, 0, n, random.range(3, n)), kSolutions[static_cast<std::size_t>(n)],
           "a count of solutions", static_cast<u64>(n));
  }
}

// ---------------------------------------------------------------------------------------------------- uts

// An unbalanced tree: most nodes have no children, few have many. A node is a 64-bit number.
constexpr int kMany = 6;
int children(u64 node, int depth) {
  if (depth == 0) return 40;  // the root
  return mix(node, 1) % 1000 < 158 ? kMany : 0;
}

struct Counted {
  long nodes = 0;
  u64 sum = 0;
};
void add(Counted& to, const Counted& what) {
  to.nodes += what.nodes;
  to.sum += what.sum;
}

Counted count_serial(u64 node, int depth) {
  Counted counted{1, node};
  const int n = children(node, depth);
  for (int i = 0; i < n; ++i) add(counted, count_serial(mix(node, 10 + static_cast<u64>(i)), depth + 1));
  return counted;
}

void count_threads(u64 node, int depth, Counted& to) {
  Counted counted{1, node};
  const int n = children(node, depth);
  std::vector<Counted> below(static_cast<std::size_t>(n));  // on the heap: neighbours in one word's page
  std::vector<ayatori::thread> threads;
  for (int i = 0; i < n; ++i)
    threads.emplace_back([&below, node, depth, i] {
      count_threads(mix(node, 10 + static_cast<u64>(i)), depth + 1, below[static_cast<std::size_t>(i)]);
    });
  for (ayatori::thread& t : threads) t.join();
  for (const Counted& c : below) add(counted, c);
  to = counted;
}

void uts(const Run& run) {
  const long enough = 20000L * static_cast<long>(run.size) / 100;
  long nodes = 0;
  for (u64 r = 0; r < 60 && nodes < enough; ++r) {
    const u64 root = mix(run.seed, r);
    const Counted want = count_serial(root, 0);
    if (want.nodes > 4 * enough) continue;
    Counted got;
    count_threads(root, 0, got);
    expect(got.nodes, want.nodes, "the nodes of a tree", root);
    expect(got.sum, want.sum, "the sum of a tree", root);
    nodes += want.nodes;
  }
}

// ---------------------------------------------------------------------------------------------------- deep

// Recursion where at each level the caller or a child goes on, with frames of random sizes whose bytes are checked when the
// level returns, on whatever process that is.
u64 sink(u64 seed, int level, int last);

template <std::size_t kBytes>
u64 level_of(u64 seed, int level, int last) {
  std::array<Byte, kBytes> frame;
  const u64 mine = mix(seed, static_cast<u64>(level));
  for (std::size_t i = 0; i < kBytes; ++i) frame[i] = static_cast<Byte>(mine >> (i % 8 * 8));
  u64 below = 0, side = 0;
  switch (mine % 4) {
    case 0:  // the child goes on
      ayatori::thread([&] { below = sink(seed, level + 1, last); }).join();
      break;
    case 1: {  // the caller goes on, a child beside it
      ayatori::thread t([&side, mine] {
        sometimes_yield(mine >> 8);
        side = mine >> 3;
      });
      below = sink(seed, level + 1, last);
      t.join();
      below += side;
      break;
    }
    case 2: {  // the child goes on, the caller computes, in its frame
      ayatori::thread t([&] { below = sink(seed, level + 1, last); });
      frame[0] = static_cast<Byte>(frame[0] + 1);
      t.join();
      frame[0] = static_cast<Byte>(frame[0] - 1);
      break;
    }
    default: below = sink(seed, level + 1, last);
  }
  for (std::size_t i = 0; i < kBytes; ++i)
    if (!expect(frame[i], static_cast<Byte>(mine >> (i % 8 * 8)), "a byte of a deep frame", mine)) break;
  return mine + 3 * below;
}

u64 sink(u64 seed, int level, int last) {
  if (level == last) return seed;
  switch (mix(seed, static_cast<u64>(level)) >> 32 & 3) {
    case 0: return level_of<16>(seed, level, last);
    case 1: return level_of<200>(seed, level, last);
    case 2: return level_of<1500>(seed, level, last);
    default: return level_of<6000>(seed, level, last);
  }
}

u64 sink_serial(u64 seed, int level, int last) {
  if (level == last) return seed;
  const u64 mine = mix(seed, static_cast<u64>(level));
  u64 below = sink_serial(seed, level + 1, last);
  if (mine % 4 == 1) below += mine >> 3;
  return mine + 3 * below;
}

void deep(const Run& run) {
  ayatori::parallel_for(0, run.scaled(30), 1, [&](int i) {
    const u64 seed = mix(run.seed, static_cast<u64>(i));
    const int levels = 50 + static_cast<int>(seed % 250);
    expect(sink(seed, 0, levels), sink_serial(seed, 0, levels), "what a deep recursion returns", seed);
  });
}

constexpr Kind kKinds[] = {{"fib", fib}, {"queens", queens}, {"uts", uts}, {"deep", deep}};
}  // namespace

std::span<const Kind> tree_kinds() { return kKinds; }
}  // namespace soak
