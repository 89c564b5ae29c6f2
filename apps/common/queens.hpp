// SPDX-License-Identifier: Apache-2.0
// The board of nqueens and what is the same in every version of it: apps/nqueens.cpp, bench/nqueens.
#pragma once

#include <cstdint>

namespace common::queens {

constexpr int kRowsMax = 20;

// column[r] of the queen in row r.
struct Board {
  signed char column[kRowsMax];
};

inline bool is_free(const Board& board, int row, int column) {
  for (int r = 0; r < row; ++r) {
    const int distance = board.column[r] - column;
    if (distance == 0 || distance == row - r || distance == r - row) return false;
  }
  return true;
}

inline std::int64_t count_here(Board& board, int n, int row) {
  if (row == n) return 1;
  std::int64_t count = 0;
  for (int c = 0; c < n; ++c) {
    if (!is_free(board, row, c)) continue;
    board.column[row] = static_cast<signed char>(c);
    count += count_here(board, n, row + 1);
  }
  return count;
}

// Sequence A000170 of the OEIS.
constexpr std::int64_t kSolutions[kRowsMax + 1] = {1,
                                                   1,
                                                   0,
                                                   0,
                                                   2,
                                                   10,
                                                   4,
                                                   40,
                                                   92,
                                                   352,
                                                   724,
                                                   2'680,
                                                   14'200,
                                                   73'712,
                                                   365'596,
                                                   2'279'184,
                                                   14'772'512,
                                                   95'815'104,
                                                   666'090'624,
                                                   4'968'057'848,
                                                   39'029'188'884};

}  // namespace common::queens
