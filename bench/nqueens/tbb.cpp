// SPDX-License-Identifier: Apache-2.0
#include <oneapi/tbb/task_group.h>

#include "peers/peer.hpp"

using namespace common::queens;

std::int64_t peers::nqueens(const Board& given, int n, int row, int cutoff) {
  Board board = given;
  if (n - row <= cutoff) return count_here(board, n, row);
  std::int64_t counts[kRowsMax] = {};
  tbb::task_group tasks;
  for (int c = 0; c < n; ++c) {
    if (!is_free(board, row, c)) continue;
    board.column[row] = static_cast<signed char>(c);
    std::int64_t* const result = &counts[c];
    tasks.run([board, n, row, cutoff, result] { *result = nqueens(board, n, row + 1, cutoff); });
  }
  tasks.wait();
  std::int64_t sum = 0;
  for (int c = 0; c < n; ++c) sum += counts[c];
  return sum;
}
