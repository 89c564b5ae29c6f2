// SPDX-License-Identifier: Apache-2.0
// Work that the caller can weigh: it is dealt out over the processes in proportion before anybody steals, the same part to the same
// process each time, and stealing corrects what the weights got wrong (after Shiina and Taura, "Almost Deterministic Work
// Stealing", SC '19). Part of ayatori/ayatori.hpp.
//
// The processes of the job are the line [0, process_count()), process p is [p, p + 1). A computation owns a share of it; a
// fork with weights divides the share of its caller in proportion, and what begins on another process is sent there as by
// near(), the rest is forked as by parallel_invoke. Large arrays lie in one block a process, in order: with weights that follow
// the elements, the owner of an element works on it.
//
// Exceptions and threads that cannot be had: as parallel.hpp. Thread-safety: shares are values.
#pragma once

#include <ayatori/ayatori.hpp>
#include <utility>

namespace ayatori {

class share {
 public:
  static share all() noexcept { return share(0, process_count()); }
  // Of the caller's process: forks stay here until they are stolen.
  static share here() noexcept { return of(process_id()); }
  static share of(int process) noexcept { return share(process + 0.5, process + 0.5); }

  double begin() const noexcept { return begin_; }
  double end() const noexcept { return end_; }
  // On which process the work begins.
  int process() const noexcept {
    return std::clamp(static_cast<int>(begin_ + std::min(1.0, end_ - begin_) / 2), 0, process_count() - 1);
  }
  // Has one process all of it but crumbs?
  bool is_one() const noexcept {
    return end_ - begin_ <= 2 * kCrumb || static_cast<int>(begin_ + kCrumb) == static_cast<int>(end_ - kCrumb);
  }
  // In proportion to the weights, which are not negative; halves where both are 0.
  std::pair<share, share> divide(double first, double second) const noexcept {
    const double sum = first + second;
    const double middle = begin_ + (end_ - begin_) * (sum > 0 ? first / sum : 0.5);
    return {share(begin_, middle).trimmed(), share(middle, end_).trimmed()};
  }
  // The border between two processes that is nearest to the middle. Not is_one().
  double border() const noexcept {
    const double middle = std::round((begin_ + end_) / 2);
    return middle > begin_ && middle < end_ ? middle : std::floor(end_ - kCrumb);
  }

 private:
  static constexpr double kCrumb = 1.0 / 16;  // of a process: not worth sending
  share(double begin, double end) noexcept : begin_(begin), end_(end) {}
  share trimmed() const noexcept { return is_one() ? of(process()) : *this; }

  double begin_, end_;
};

namespace detail {

// Runs first and second, which begin on the processes of their shares, or here.
template <class First, class Second>
void run_shares(share first_share, First& first, share second_share, Second& second) {
  const int me = process_id(), a = first_share.process(), b = second_share.process();
  if (a == b) {
    // What has parts for others comes first.
    if (first_share.is_one() && !second_share.is_one())
      fork_and_run(second, first, false);
    else
      run_halves(first, second);
  } else if (a == me) {
    fork_and_run(near::at(b), second, first, false);
  } else if (b == me) {
    fork_and_run(near::at(a), first, second, true);
  } else {
    const auto send_first = [&] { fork_and_run(near::at(a), first, [] {}, true); };
    fork_and_run(near::at(b), second, send_first, false);
  }
}

template <Position Index, class Work, class F>
void for_share(share mine, Index first, Index last, std::uint64_t grain, const Work& work, F& f) {
  const std::uint64_t length = length_of(first, last);
  if (mine.is_one() || length <= 1) return for_range(first, last, grain, f);
  const double border = mine.border();
  const double wanted = (border - mine.begin()) / (mine.end() - mine.begin());
  const double before = work(first), whole = work(last) - before;
  // How many iterations have that part of the work.
  std::uint64_t low = 0, high = length;
  if (!(whole > 0)) low = high = length / 2;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (work(advanced(first, middle)) - before < wanted * whole)
      low = middle + 1;
    else
      high = middle;
  }
  const Index middle = advanced(first, low);
  const std::pair<share, share> parts = mine.divide(wanted, 1 - wanted);
  const auto lower = [&, part = parts.first] { for_share(part, first, middle, grain, work, f); };
  const auto upper = [&, part = parts.second] { for_share(part, middle, last, grain, work, f); };
  run_shares(parts.first, lower, parts.second, upper);
}

}  // namespace detail

// first(its share) and second(its share), possibly at once, each with the part of `mine` that its weight comes to. Weights
// are relative to each other: elements, expected seconds.
template <class First, class Second>
void parallel_invoke(share mine, double first_weight, First&& first, double second_weight, Second&& second) {
  const std::pair<share, share> parts = mine.divide(first_weight, second_weight);
  const auto run_first = [&, part = parts.first] { std::invoke(first, part); };
  const auto run_second = [&, part = parts.second] { std::invoke(second, part); };
  detail::run_shares(parts.first, run_first, parts.second, run_second);
}

// As parallel_for(first, last, grain, f), with one run of iterations for each process of `mine`, where it is split further. All
// iterations weigh the same, or work(i) is what all before i come to, from any origin: it does not decrease.
template <detail::Position First, detail::Position Last, std::integral Grain, class F>
void parallel_for(share mine, First first, Last last, Grain grain, F&& f) {
  using Index = std::common_type_t<First, Last>;
  const auto begin = static_cast<Index>(first), end = static_cast<Index>(last);
  const auto work = [begin](Index i) { return static_cast<double>(detail::length_of(begin, i)); };
  if (begin < end) detail::for_share(mine, begin, end, detail::checked_grain(grain), work, f);
}
template <detail::Position First, detail::Position Last, std::integral Grain, class Work, class F>
void parallel_for(share mine, First first, Last last, Grain grain, const Work& work, F&& f) {
  using Index = std::common_type_t<First, Last>;
  const auto begin = static_cast<Index>(first), end = static_cast<Index>(last);
  if (begin < end) detail::for_share(mine, begin, end, detail::checked_grain(grain), work, f);
}

}  // namespace ayatori
