// SPDX-License-Identifier: Apache-2.0
// Parallel merge sort with parallel merge, after cilksort of the Cilk-5 distribution: four quarters are sorted at once,
// merged into a second array by pairs, and merged back. Used by cilksort (integers), psort (lines), nbody (keys).
//
// 1. No forks below `grain` elements, some tens of KiB: a fork costs nothing beside sorting or merging them, and a
//    thread that runs on another process touches runs of pages rather than single ones.
// 2. std::sort below `leaf` elements: fastest where comparisons are cheap. Where they are dear (strings), a small leaf
//    lets merging do the rest of the grain, which compares less.
// 3. Sequential merges of cheap keys choose by data, not by a branch: random input mispredicts half of the branches. Where
//    a comparison waits for memory, the predicted branch is better: it lets the next comparison's loads start.
// 4. Not stable: equal elements keep no order. Callers whose result must not depend on the split order totally.
#pragma once

#include "mode.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace common {

template <class Mode, class T, class Less, bool kCheapLess = true>
class MergeSort {
 public:
  static constexpr std::size_t kGrain = std::max<std::size_t>(16, 64 * 1024 / sizeof(T));

  explicit MergeSort(Less less, std::size_t leaf = kGrain, std::size_t grain = kGrain)
      : less_(less), leaf_(std::max<std::size_t>(leaf, 4)), grain_(std::max(grain, leaf_)) {}

  // Sorts data[0, n); scratch has room for n more and holds nothing of use afterwards.
  void sort(T* data, T* scratch, std::size_t n) const {
    if (n <= grain_)
      sort_by<Serial>(data, scratch, n);
    else
      sort_by<Mode>(data, scratch, n);
  }

 private:
  // `Forks` decides about this level; deeper ones ask again.
  template <class Forks>
  void sort_by(T* data, T* scratch, std::size_t n) const {
    if (n <= leaf_) {
      std::sort(data, data + n, less_);
      return;
    }
    const std::size_t half = n / 2, a = half / 2, c = (n - half) / 2;
    Forks::invoke([=, this] { sort(data, scratch, a); }, [=, this] { sort(data + a, scratch + a, half - a); },
                  [=, this] { sort(data + half, scratch + half, c); },
                  [=, this] { sort(data + half + c, scratch + half + c, n - half - c); });
    Forks::invoke([=, this] { merge(data, a, data + a, half - a, scratch); },
                  [=, this] { merge(data + half, c, data + half + c, n - half - c, scratch + half); });
    merge(scratch, half, scratch + half, n - half, data);
  }

  // Merges x[0, nx) and y[0, ny) into out.
  void merge(const T* x, std::size_t nx, const T* y, std::size_t ny, T* out) const {
    if (nx + ny <= 2 * grain_) {
      merge_here(x, x + nx, y, y + ny, out);
      return;
    }
    if (nx < ny) {
      std::swap(x, y);
      std::swap(nx, ny);
    }
    const std::size_t i = nx / 2;
    const std::size_t j = static_cast<std::size_t>(std::lower_bound(y, y + ny, x[i], less_) - y);
    Mode::invoke([=, this] { merge(x, i, y, j, out); },
                 [=, this] { merge(x + i, nx - i, y + j, ny - j, out + i + j); });
  }

  void merge_here(const T* x, const T* x_end, const T* y, const T* y_end, T* out) const {
    if constexpr (!kCheapLess) {
      std::merge(x, x_end, y, y_end, out, less_);
      return;
    }
    while (x != x_end && y != y_end) {
      const bool second = less_(*y, *x);
      *out++ = *(second ? y : x);
      y += second;
      x += !second;
    }
    out = std::copy(x, x_end, out);
    std::copy(y, y_end, out);
  }

  Less less_;
  std::size_t leaf_, grain_;
};

}  // namespace common
