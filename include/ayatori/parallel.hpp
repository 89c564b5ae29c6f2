// SPDX-License-Identifier: Apache-2.0
// Structured parallelism over threads: parallel_invoke, parallel_for, parallel_reduce, the scans, the sorts, task_group.
// Part of ayatori/ayatori.hpp.
//
// A range is [first, last) of integers, for which functions get the index, or of random access iterators, for which they
// get *i; its elements lie in the space (heap, or locals of a thread). What all parts wrote is visible to the caller when
// the call returns. An exception that leaves a part reaches the caller after all parts have ended (other parts are not
// told); of several one does, the rest is dropped. Where no thread can be had (no stack left, or outside of run), parts
// run in the caller. Functions are called by several threads at once, through one reference.
//
// Thread-safety: as of the threads that they fork: any user-level thread, on its own data.
#pragma once

#include <ayatori/ayatori.hpp>
#include <iterator>
#include <optional>
#include <vector>

namespace ayatori {

namespace detail {

inline void rethrow_first(std::exception_ptr mine, std::exception_ptr theirs) {
  if (mine) std::rethrow_exception(std::move(mine));
  if (theirs) std::rethrow_exception(std::move(theirs));
}

// Should the caller, who is about to fork two halves of a range, run the upper one first and leave the lower one to a
// thief? True where a thief will take this fork's continuation next and the caller's process is one of the upper half of
// the job: large arrays lie in one block a process, in order.
bool upper_first() noexcept;
// A hint: thieves find nothing at the caller's worker, or the caller is no user-level thread.
bool nothing_to_steal() noexcept;

template <class F>
std::exception_ptr catch_all(F& f) {
  try {
    f();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

struct NoAttributes {};
// Runs `forked` in a thread and `here` in the caller, both in any case; `forked_is_lower`: its exception comes first.
// `attributes`: as thread has them.
template <class Attributes, class Forked, class Here>
void fork_and_run(const Attributes& attributes, Forked& forked, Here&& here, bool forked_is_lower) {
  thread t;
  std::exception_ptr mine, theirs;
  try {
    if constexpr (std::is_same_v<Attributes, NoAttributes>)
      t = thread([&forked] { forked(); });
    else
      t = thread(attributes, [&forked] { forked(); });
  } catch (const std::system_error&) {  // none can be had
  }
  if (!t.joinable()) [[unlikely]]
    theirs = catch_all(forked);
  mine = catch_all(here);
  if (t.joinable()) [[likely]]
    theirs = t.join_nothrow();
  if (forked_is_lower) std::swap(mine, theirs);
  rethrow_first(std::move(mine), std::move(theirs));
}

template <class Forked, class Here>
void fork_and_run(Forked& forked, Here& here, bool forked_is_lower) {
  fork_and_run(NoAttributes(), forked, here, forked_is_lower);
}

template <class Lower, class Upper>
void run_halves(Lower&& lower, Upper&& upper) {
  if (upper_first()) [[unlikely]]
    fork_and_run(upper, lower, false);
  else
    fork_and_run(lower, upper, true);
}

template <class I>
concept Position = std::integral<I> || std::random_access_iterator<I>;

// NOLINTBEGIN(performance-unnecessary-value-param): iterators are passed by value, as everywhere.
// Of ranges that may be longer than the greatest Index.
template <Position Index>
constexpr std::uint64_t length_of(Index first, Index last) noexcept {
  if constexpr (std::integral<Index>)
    return static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first);
  else
    return static_cast<std::uint64_t>(last - first);
}
template <Position Index>
constexpr Index advanced(Index first, std::uint64_t by) noexcept {
  if constexpr (std::integral<Index>)
    return static_cast<Index>(static_cast<std::uint64_t>(first) + by);
  else
    return first + static_cast<std::iter_difference_t<Index>>(by);
}
template <Position Index>
constexpr Index middle_of(Index first, Index last) noexcept {
  return advanced(first, length_of(first, last) / 2);
}

template <Position Index, class F>
decltype(auto) call_at(F& f, Index& i) {
  if constexpr (std::integral<Index>)
    return std::invoke(f, i);
  else
    return std::invoke(f, *i);
}
template <Position Index, class F>
void for_serial(Index first, Index last, F& f) {
  for (Index i = first; i < last; ++i) call_at(f, i);
}

template <Position Index, class F>
void for_range(Index first, Index last, std::uint64_t grain, F& f) {
  if (length_of(first, last) <= grain) return for_serial(first, last, f);
  const Index middle = middle_of(first, last);
  run_halves([&, first, middle] { for_range(first, middle, grain, f); },
             [&, middle, last] { for_range(middle, last, grain, f); });
}

inline std::uint64_t all_workers() noexcept {
  return static_cast<std::uint64_t>(process_count()) * static_cast<std::uint64_t>(worker_count());
}

// Of a loop without a grain.
struct LazyLoop {
  std::uint64_t chunk;  // iterations between two looks at the deque
  std::uint64_t share;  // what is longer is split although nobody knows yet how long an iteration takes
};
inline constexpr double kWorthAFork = 5000;  // ns: about what it costs when another process takes part

inline std::int64_t loop_clock() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// Splits where there is nothing else to steal (lazy binary splitting: Tzannes et al., PPoPP 2010); otherwise it runs what
// is left in order, chunk by chunk. ns_each: of an iteration; negative: not known.
template <Position Index, class F>
void for_lazily(Index first, Index last, const LazyLoop& loop, double ns_each, F& f) {
  std::uint64_t done = 0, chunk = loop.chunk;
  std::int64_t began = 0;
  for (;;) {
    const std::uint64_t left = length_of(first, last);
    if (left <= chunk) return for_serial(first, last, f);
    if (nothing_to_steal()) {
      if (done != 0) ns_each = static_cast<double>(loop_clock() - began) / static_cast<double>(done);
      if (ns_each < 0 ? left > loop.share : static_cast<double>(left) * ns_each >= kWorthAFork) {
        const Index middle = middle_of(first, last);
        return run_halves([&, first, middle, ns_each] { for_lazily(first, middle, loop, ns_each, f); },
                          [&, middle, last, ns_each] { for_lazily(middle, last, loop, ns_each, f); });
      }
      chunk = std::max(chunk, done);  // as much again: few looks at the clock, and a pace that changes is noticed
      if (left <= chunk) return for_serial(first, last, f);
    }
    if (done == 0) began = loop_clock();
    const Index next = advanced(first, chunk);
    for_serial(first, next, f);
    first = next;
    done += chunk;
  }
}

template <Position Index, class F>
void for_lazily(Index first, Index last, F& f) {
  const std::uint64_t length = length_of(first, last), workers = all_workers();
  for_lazily(first, last, LazyLoop{std::max<std::uint64_t>(1, length / (64 * workers)), length / (4 * workers)}, -1.0,
             f);
}

template <Position Index, class T, class F, class Op>
T reduce_range(Index first, Index last, std::uint64_t grain, const T& identity, F& f, Op& op) {
  if (length_of(first, last) <= grain) {
    T sum = identity;
    for (Index i = first; i < last; ++i) sum = op(std::move(sum), call_at(f, i));
    return sum;
  }
  const Index middle = middle_of(first, last);
  T lower = identity, upper = identity;
  run_halves([&, first, middle] { lower = reduce_range(first, middle, grain, identity, f, op); },
             [&, middle, last] { upper = reduce_range(middle, last, grain, identity, f, op); });
  return op(std::move(lower), std::move(upper));
}

inline std::uint64_t automatic_grain(std::uint64_t count) noexcept {
  return std::max<std::uint64_t>(1, count / (8 * all_workers()));
}

template <std::integral Grain>
constexpr std::uint64_t checked_grain(Grain grain) noexcept {
  return grain > 0 ? static_cast<std::uint64_t>(grain) : 1;
}

// Runs functions kFirst .. kLast-1 of a tuple of references, in halves: neighbours, as their data are, stay together.
template <std::size_t kFirst, std::size_t kLast, class Functions>
void invoke_range(Functions& functions) {
  if constexpr (kLast - kFirst == 1) {
    std::invoke(std::get<kFirst>(std::move(functions)));
  } else {
    constexpr std::size_t kMiddle = kFirst + (kLast - kFirst + 1) / 2;
    run_halves([&functions] { invoke_range<kFirst, kMiddle>(functions); },
               [&functions] { invoke_range<kMiddle, kLast>(functions); });
  }
}

}  // namespace detail

// Runs all of them, possibly at once, returns when all have ended; rethrows the first exception in argument order.
template <std::invocable F, class... Rest>
void parallel_invoke(F&& f, Rest&&... rest) {
  auto functions = std::forward_as_tuple(std::forward<F>(f), std::forward<Rest>(rest)...);
  detail::invoke_range<0, 1 + sizeof...(Rest)>(functions);
}

// ---------------------------------------------------------------------------------------------------- loops

// f for each of [first, last), both in their common type; at most `grain` consecutive ones in one thread (grain 0 counts
// as 1): a thread for each.
template <detail::Position First, detail::Position Last, std::integral Grain, class F>
void parallel_for(First first, Last last, Grain grain, F&& f) {
  using Index = std::common_type_t<First, Last>;
  const auto begin = static_cast<Index>(first), end = static_cast<Index>(last);
  if (begin < end) detail::for_range(begin, end, detail::checked_grain(grain), f);
}
// The automatic grain. A thread runs its part in chunks of 1/(64 x workers of the job), and looks between two of them
// whether its worker has something left for thieves; if not, it forks, in halves, what is left of its part, unless that
// takes less than 5 us at its pace so far. Parts longer than 1/(4 x workers) are split without knowing their pace. So
// there are about as many forks as steals. For few and unequal iterations choose grain 1.
template <detail::Position First, detail::Position Last, class F>
void parallel_for(First first, Last last, F&& f) {
  using Index = std::common_type_t<First, Last>;
  const auto begin = static_cast<Index>(first), end = static_cast<Index>(last);
  if (begin < end) detail::for_lazily(begin, end, f);
}

// op over f of each, in order, starting from identity: op must associate, need not commute. How the operands are grouped
// depends on the length and the grain, not on who stole what: with the same grain sums of floating-point numbers are the
// same in every run. Without one the grain is 1/(8 x workers of the job) of the range. T is copied and assigned.
template <detail::Position First, detail::Position Last, std::integral Grain, class T, class F, class Op>
T parallel_reduce(First first, Last last, Grain grain, T identity, F&& f, Op&& op) {
  using Index = std::common_type_t<First, Last>;
  const auto begin = static_cast<Index>(first), end = static_cast<Index>(last);
  if (!(begin < end)) return identity;
  return detail::reduce_range(begin, end, detail::checked_grain(grain), identity, f, op);
}
template <detail::Position First, detail::Position Last, class T, class F, class Op>
T parallel_reduce(First first, Last last, T identity, F&& f, Op&& op) {
  using Index = std::common_type_t<First, Last>;
  const auto begin = static_cast<Index>(first), end = static_cast<Index>(last);
  if (!(begin < end)) return identity;
  const std::uint64_t grain = detail::automatic_grain(detail::length_of(begin, end));
  return detail::reduce_range(begin, end, grain, identity, f, op);
}

// ---------------------------------------------------------------------------------------------------- scans

namespace detail {

// In two passes over blocks: what each comes to, then each from what the ones before it come to. On one worker there is one
// block, read once. An element is read before its result is written, by the same thread.
template <bool kExclusive, class In, class Out, class T, class Op>
Out scan(In first, In last, Out result, std::optional<T> start, Op& op) {
  const std::uint64_t length = first < last ? length_of(first, last) : 0;
  if (length == 0) return result;
  const std::uint64_t workers = all_workers();
  const std::uint64_t blocks = workers == 1 ? 1 : std::min(length, 16 * workers);
  const auto begin_of = [&](std::uint64_t b) { return b * (length / blocks) + std::min(b, length % blocks); };

  std::vector<std::optional<T>, allocator<std::optional<T>>> before(blocks);  // empty: nothing
  before[0] = std::move(start);
  parallel_for(std::uint64_t{1}, blocks, 1, [&](std::uint64_t b) {
    In i = advanced(first, begin_of(b - 1));
    const In end = advanced(first, begin_of(b));
    T sum = *i;
    while (++i < end) sum = op(std::move(sum), *i);
    before[b].emplace(std::move(sum));
  });
  for (std::uint64_t b = 1; b < blocks; ++b)
    if (before[b - 1]) before[b].emplace(op(*before[b - 1], std::move(*before[b])));

  parallel_for(std::uint64_t{0}, blocks, 1, [&](std::uint64_t b) {
    In i = advanced(first, begin_of(b));
    const In end = advanced(first, begin_of(b + 1));
    Out to = advanced(result, begin_of(b));
    if constexpr (kExclusive) {
      T sum = *before[b];
      for (; i < end; ++i, ++to) {
        std::iter_value_t<In> value = *i;
        *to = sum;
        sum = op(std::move(sum), std::move(value));
      }
    } else {
      T sum = before[b] ? T(op(*before[b], *i)) : T(*i);
      *to = sum;
      while (++i < end) {
        sum = op(std::move(sum), *i);
        *++to = sum;
      }
    }
  });
  return advanced(result, length);
}

}  // namespace detail

// std::inclusive_scan and std::exclusive_scan: result[i] is op over [start,] first[0] .. first[i], without the last one in
// the exclusive scan. Returns the end of the results. op must associate, need not commute, and is called up to twice an
// element. result may be first, otherwise the ranges do not overlap; elements share no bytes (no std::vector<bool>). After
// an exception some results are written.
template <std::random_access_iterator In, std::random_access_iterator Out, class Op = std::plus<>>
Out parallel_inclusive_scan(In first, In last, Out result, Op op = {}) {
  return detail::scan<false>(first, last, result, std::optional<std::iter_value_t<In>>(), op);
}
template <std::random_access_iterator In, std::random_access_iterator Out, class Op, class T>
Out parallel_inclusive_scan(In first, In last, Out result, Op op, T start) {
  return detail::scan<false>(first, last, result, std::optional<T>(std::move(start)), op);
}
template <std::random_access_iterator In, std::random_access_iterator Out, class T, class Op = std::plus<>>
Out parallel_exclusive_scan(In first, In last, Out result, T start, Op op = {}) {
  return detail::scan<true>(first, last, result, std::optional<T>(std::move(start)), op);
}

// ---------------------------------------------------------------------------------------------------- sorts

namespace detail {

// Merge sort with parallel merges, to and fro between the range (`data`) and a buffer as long (`spare`).
// M1. All objects of data live throughout, some of them moved from; one of spare lives while it holds an element.
// M2. sort<> and merge<> leave all their elements in their destination, also when less throws.
template <class It, class Less, bool kStable>
class Sorter {
 public:
  using T = std::iter_value_t<It>;
  using D = std::ptrdiff_t;

  Sorter(It data, Less& less) : data_(data), less_(less) {}
  void run(D length) {
    if (length <= kLeaf) return sort<false>(0, length);
    const auto free = [](T* p) { ayatori::deallocate(p); };
    const std::unique_ptr<T, decltype(free)> memory(
        static_cast<T*>(ayatori::allocate(static_cast<std::size_t>(length) * sizeof(T), alignof(T))), free);
    spare_ = memory.get();
    sort<false>(0, length);
  }

 private:
  static constexpr D kSerial = 2048;  // elements; no longer ranges are sorted in one thread
  static constexpr D kLeaf = kStable ? 24 : kSerial;

  template <bool kToSpare>
  void move(D to, D from) noexcept {
    if constexpr (kToSpare) {
      std::construct_at(spare_ + to, std::move(data_[from]));
    } else {
      data_[to] = std::move(spare_[from]);
      std::destroy_at(spare_ + from);
    }
  }
  template <bool kToSpare>
  void move(D to, D from, D end) noexcept {
    for (; from < end; ++from, ++to) move<kToSpare>(to, from);
  }
  template <bool kToSpare>
  T& source(D i) const noexcept {
    if constexpr (kToSpare)
      return data_[i];
    else
      return spare_[i];
  }

  void insertion_sort(D begin, D end) {
    for (D i = begin + 1; i < end; ++i) {
      if (!less_(data_[i], data_[i - 1])) continue;
      T value = std::move(data_[i]);
      D j = i;
      try {
        do {
          data_[j] = std::move(data_[j - 1]);
          --j;
        } while (j > begin && less_(value, data_[j - 1]));
      } catch (...) {
        data_[j] = std::move(value);
        throw;
      }
      data_[j] = std::move(value);
    }
  }

  template <bool kToSpare>
  void sort(D begin, D length) {
    const auto sort_it = [&] {
      if (length <= kLeaf) {
        if constexpr (kStable)
          insertion_sort(begin, begin + length);
        else
          std::sort(data_ + begin, data_ + (begin + length), std::ref(less_));
        return;
      }
      const D half = length / 2;
      const auto lower = [&] { sort<!kToSpare>(begin, half); };
      const auto upper = [&] { sort<!kToSpare>(begin + half, length - half); };
      if (length > kSerial) {
        run_halves(lower, upper);
      } else {
        std::exception_ptr error = catch_all(lower);
        upper();
        if (error) std::rethrow_exception(std::move(error));
      }
    };
    // kLeaf sorts in data, the halves are where sort_it leaves them: on the side that this one moves from.
    const bool in_data = length <= kLeaf;
    if (const std::exception_ptr error = catch_all(sort_it)) {
      if (!in_data || kToSpare) move<kToSpare>(begin, begin, begin + length);
      std::rethrow_exception(error);
    }
    if (!in_data)
      merge<kToSpare>(begin, begin + length / 2, begin + length / 2, begin + length, begin);
    else if (kToSpare)
      move<kToSpare>(begin, begin, begin + length);
  }

  // [a, a_end) and [b, b_end) to `to`; of equal elements those of a come first.
  template <bool kToSpare>
  void merge(D a, D a_end, D b, D b_end, D to) {
    const D a_length = a_end - a, b_length = b_end - b;
    D a_middle = a, b_middle = b;
    try {
      if (a_length + b_length <= 2 * kSerial) {
        while (a < a_end && b < b_end) {
          const bool second = less_(source<kToSpare>(b), source<kToSpare>(a));
          move<kToSpare>(to++, second ? b++ : a++);
        }
      } else if (a_length >= b_length) {
        a_middle = a + a_length / 2;
        b_middle = lower_bound<kToSpare>(b, b_end, source<kToSpare>(a_middle));
      } else {
        b_middle = b + b_length / 2;
        a_middle = upper_bound<kToSpare>(a, a_end, source<kToSpare>(b_middle));
      }
    } catch (...) {
      move<kToSpare>(to, a, a_end);
      move<kToSpare>(to + (a_end - a), b, b_end);
      throw;
    }
    if (a_length + b_length <= 2 * kSerial) {
      move<kToSpare>(to, a, a_end);
      move<kToSpare>(to + (a_end - a), b, b_end);
      return;
    }
    run_halves([&] { merge<kToSpare>(a, a_middle, b, b_middle, to); },
               [&] { merge<kToSpare>(a_middle, a_end, b_middle, b_end, to + (a_middle - a) + (b_middle - b)); });
  }
  template <bool kToSpare>
  D lower_bound(D begin, D end, T& value) {
    while (begin < end) {
      const D middle = begin + (end - begin) / 2;
      if (less_(source<kToSpare>(middle), value))
        begin = middle + 1;
      else
        end = middle;
    }
    return begin;
  }
  template <bool kToSpare>
  D upper_bound(D begin, D end, T& value) {
    while (begin < end) {
      const D middle = begin + (end - begin) / 2;
      if (less_(value, source<kToSpare>(middle)))
        end = middle;
      else
        begin = middle + 1;
    }
    return begin;
  }

  It data_;
  T* spare_ = nullptr;
  Less& less_;
};

template <bool kStable, class It, class Less>
void sort(It first, It last, Less& less) {
  using T = std::iter_value_t<It>;
  static_assert(std::is_same_v<std::iter_reference_t<It>, T&>, "the range holds its elements");
  if (last - first < 2) return;
  if constexpr (std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>)
    Sorter<It, Less, kStable>(first, less).run(last - first);
  else if constexpr (kStable)
    std::stable_sort(first, last, std::ref(less));
  else
    std::sort(first, last, std::ref(less));
}

}  // namespace detail

// std::sort and std::stable_sort, by merging; need as much memory again as the range, throw std::bad_alloc. Elements are only
// moved; where moving one may throw, one thread sorts. When less throws, every element is valid; after
// parallel_stable_sort the range holds the same elements in some order, after parallel_sort some may be moved from, as
// after std::sort. Ranges up to 2048 elements are sorted in one thread.
template <std::random_access_iterator It, class Less = std::less<>>
void parallel_sort(It first, It last, Less less = {}) {
  detail::sort<false>(first, last, less);
}
template <std::random_access_iterator It, class Less = std::less<>>
void parallel_stable_sort(It first, It last, Less less = {}) {
  detail::sort<true>(first, last, less);
}

// NOLINTEND(performance-unnecessary-value-param)

// ---------------------------------------------------------------------------------------------------- task groups

enum class task_group_status { complete, canceled };

// tbb::task_group's shape: tasks that run possibly at once, and somebody who waits for all of them. Tasks begin when they are
// run, child first as threads do. What they wrote is visible to who waited.
//
// run and cancel may be called by any thread, also by the group's tasks (each from another thread than the one that made
// the group pays for a lock when its task was stolen); wait, run_and_wait and the destructor by no task of the group, by
// one thread at a time, which is the one that made the group or comes after its last run. The group lies in the space:
// a local, a heap object, or global<task_group>; not static data.
class task_group {
 public:
  // `outer`: its cancellation is this group's, too; it lives longer. Tasks find their group by reference: nothing is
  // inherited by itself.
  explicit task_group(const task_group* outer = nullptr) : outer_(outer), owner_(detail::current_thread_number()) {}
  ~task_group() { (void)join_all(); }  // waits; what no wait rethrew is dropped
  task_group(const task_group&) = delete;
  task_group& operator=(const task_group&) = delete;

  // Runs a copy of f in a thread, or nothing at all where the group is canceled. An exception that leaves it cancels the
  // group.
  template <class F>
    requires(!detail::is_attribute<std::remove_cvref_t<F>>)
  void run(F&& f) {
    if (is_canceling()) return;
    start([this, f = std::decay_t<F>(std::forward<F>(f))]() mutable { perform(f); });
  }
  // On that process, as thread(on) does; throws as it.
  template <class F>
  void run(on where, F&& f) {
    if (is_canceling()) return;
    keep(thread(where, [this, f = std::decay_t<F>(std::forward<F>(f))]() mutable {
      if (!is_canceling()) perform(f);
    }));
  }

  // Until all tasks have ended, also those that they ran. Rethrows the first exception that left one. The group can then
  // be used again, and is canceled no more (unless an outer one is).
  task_group_status wait() { return finish(join_all()); }
  // The same after f ran in the caller, as one more task.
  template <class F>
  task_group_status run_and_wait(F&& f) {
    std::exception_ptr error;
    if (!is_canceling()) {
      const auto task = [&] { perform(f); };
      error = detail::catch_all(task);
    }
    if (std::exception_ptr theirs = join_all()) error = std::move(theirs);  // one of them at most (perform)
    return finish(std::move(error));
  }

  // Tasks that run go on, and may ask is_canceling; others do not begin.
  void cancel() noexcept { state_.fetch_or(kCanceled, std::memory_order_relaxed); }
  // Up to microseconds where the group, or an outer one, lies in another process.
  bool is_canceling() const noexcept {
    for (const task_group* g = this; g != nullptr; g = g->outer_)
      if ((g->state_.load(std::memory_order_relaxed) & kCanceled) != 0) return true;
    return false;
  }

 private:
  static constexpr int kCanceled = 1, kFailed = 2;
  static constexpr std::size_t kMany = 64;

  // Tasks that had not ended when they were noted.
  struct Tasks {
    std::vector<thread, allocator<thread>> threads;
    std::exception_ptr error;
    std::size_t sweep_at = kMany;

    void add(thread t, std::exception_ptr thrown) noexcept {
      note(std::move(thrown));
      if (!t.joinable()) return;
      try {
        if (threads.size() >= sweep_at) sweep();
        threads.push_back(std::move(t));
      } catch (const std::bad_alloc&) {
        note(t.join_nothrow());
      }
    }
    void note(std::exception_ptr thrown) noexcept {
      if (thrown) error = std::move(thrown);
    }
    // Frees the stacks of those that have ended.
    void sweep() noexcept {
      std::erase_if(threads, [this](thread& t) {
        if (!detail::thread_ended(t.native_handle())) return false;
        note(t.join_nothrow());
        return true;
      });
      sweep_at = std::max(kMany, 2 * threads.size());
    }
  };

  // One exception of a group leaves here: the first in time. It travels by the join.
  template <class F>
  void perform(F& f) {
    std::exception_ptr error;
    const auto call = [&f] { std::invoke(f); };
    if ((error = detail::catch_all(call)) && fail()) std::rethrow_exception(std::move(error));
  }
  bool fail() noexcept { return (state_.fetch_or(kCanceled | kFailed, std::memory_order_relaxed) & kFailed) == 0; }
  template <class Task>
  void start(Task task) {
    thread t;
    try {
      t = thread(std::move(task));
    } catch (const std::system_error&) {  // none can be had, and the task is not moved
      return note(thread(), detail::catch_all(task));
    }
    keep(std::move(t));
  }
  void keep(thread t) {
    std::exception_ptr error;
    if (detail::thread_ended(t.native_handle())) error = t.join_nothrow();
    if (t.joinable() || error) note(std::move(t), std::move(error));
  }
  void note(thread t, std::exception_ptr error) {
    if (detail::current_thread_number() == owner_) return mine_.add(std::move(t), std::move(error));
    const std::lock_guard lock(mutex_);
    others_.add(std::move(t), std::move(error));
  }
  std::exception_ptr join_all() {
    std::exception_ptr error;
    for (Tasks tasks = std::exchange(mine_, Tasks());;) {
      for (thread& t : tasks.threads) tasks.note(t.join_nothrow());
      if (tasks.error) error = std::move(tasks.error);
      const std::lock_guard lock(mutex_);
      tasks = std::exchange(others_, Tasks());
      if (tasks.threads.empty() && !tasks.error) return error;
    }
  }
  task_group_status finish(std::exception_ptr error) {
    const bool canceled = is_canceling();
    state_.store(0, std::memory_order_relaxed);  // ordered with the tasks' by forks and joins
    if (error) std::rethrow_exception(std::move(error));
    return canceled ? task_group_status::canceled : task_group_status::complete;
  }

  const task_group* const outer_;
  const std::uint64_t owner_;
  atomic<int> state_{0};
  Tasks mine_;  // of the thread that made the group, and who waits
  mutex mutex_;
  Tasks others_;  // Guarded by mutex_.
};

}  // namespace ayatori
