// SPDX-License-Identifier: Apache-2.0
// nqueens N: counts the ways to place N queens so that none attacks another, as in the Cilk-5 distribution: row by row,
// one thread for each column that is free. No memory but stacks: a thread's board is a copy on its own stack, its count
// goes into its parent's frame.
#include "common/program.hpp"
#include "common/queens.hpp"

namespace {

using namespace common::queens;

struct Options {
  std::int64_t n = 13;
  std::int64_t cutoff = 6;
  bool serial = false;
};

template <class Mode>
std::int64_t count(Board board, int n, int row, int cutoff) {
  if (n - row <= cutoff) return count_here(board, n, row);
  std::int64_t counts[kRowsMax];
  typename Mode::thread threads[kRowsMax];
  int forked = 0;
  for (int c = 0; c < n; ++c) {
    if (!is_free(board, row, c)) continue;
    board.column[row] = static_cast<signed char>(c);
    std::int64_t* result = &counts[forked];
    *result = 0;
    threads[forked] =
        typename Mode::thread([board, n, row, cutoff, result] { *result = count<Mode>(board, n, row + 1, cutoff); });
    ++forked;
  }
  std::int64_t sum = 0;
  for (int i = 0; i < forked; ++i) {
    threads[i].join();
    sum += counts[i];
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  common::Arguments arguments("nqueens", "Ways to place N queens on a board of N x N.");
  arguments.size("N", &options.n, 1, kRowsMax, "rows of the board");
  arguments.number("--cutoff", &options.cutoff, 0, kRowsMax, "plain calls for the last N rows");
  arguments.flag("--serial", &options.serial, "plain calls");
  if (const auto status = arguments.parse(argc, argv)) return *status;

  return common::start(argc, argv, options, options.serial, [](auto mode, const Options& o) {
    using Mode = decltype(mode);
    const int n = static_cast<int>(o.n);
    const common::Timer<Mode> timer;
    const std::int64_t solutions = count<Mode>(Board{}, n, 0, static_cast<int>(o.cutoff));
    const double seconds = timer.seconds();
    int status = 0;
    Mode::on_process_0([&] {
      std::printf("nqueens(%d) = %lld\n", n, static_cast<long long>(solutions));
      status = common::finish(seconds, solutions == kSolutions[n]);
    });
    return status;
  });
}
