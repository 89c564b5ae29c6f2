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
  void sort(T* data, T* scratch, std::size_t n) const { sort(data, scratch, n, Mode::whole()); }

 private:
  using Share = typename Mode::Share;  // weights are elements

  void sort(T* data, T* scratch, std::size_t n, Share share) const {
    if (n <= grain_)
      sort_by<Serial>(data, scratch, n, share);
    else
      sort_by<Mode>(data, scratch, n, share);
  }

  // `Forks` decides about this level; deeper ones ask again.
  template <class Forks>
  void sort_by(T* data, T* scratch, std::size_t n, Share share) const {
    if (n <= leaf_) {
      std::sort(data, data + n, less_);
      return;
    }
    const std::size_t half = n / 2, a = half / 2, c = (n - half) / 2;
    const auto quarters = [this](T* from, T* spare, std::size_t m, std::size_t first) {
      return [=, this](Share s) {
        divide<Forks>(
            s, first, [=, this](Share part) { sort(from, spare, first, part); }, m - first,
            [=, this](Share part) { sort(from + first, spare + first, m - first, part); });
      };
    };
    divide<Forks>(share, half, quarters(data, scratch, half, a), n - half,
                  quarters(data + half, scratch + half, n - half, c));
    divide<Forks>(
        share, half, [=, this](Share s) { merge(data, a, data + a, half - a, scratch, s); }, n - half,
        [=, this](Share s) { merge(data + half, c, data + half + c, n - half - c, scratch + half, s); });
    merge(scratch, half, scratch + half, n - half, data, share);
  }

  // Merges x[0, nx) and y[0, ny) into out.
  void merge(const T* x, std::size_t nx, const T* y, std::size_t ny, T* out, Share share) const {
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
    divide<Mode>(
        share, i + j, [=, this](Share s) { merge(x, i, y, j, out, s); }, nx + ny - i - j,
        [=, this](Share s) { merge(x + i, nx - i, y + j, ny - j, out + i + j, s); });
  }

  template <class Forks>
  static void divide(Share share, std::size_t a_weight, auto&& a, std::size_t b_weight, auto&& b) {
    Forks::divide(share, static_cast<double>(a_weight), a, static_cast<double>(b_weight), b);
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
