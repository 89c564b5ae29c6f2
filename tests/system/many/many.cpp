// SPDX-License-Identifier: Apache-2.0
// `many CASE N [STACKS]`: many threads. STACKS: at least so many fit into the space that run.sh asks for. Status 0: right; what
// is wrong is printed. Times are printed for people; an attempt in vain that waits would run into the test's time limit.
#include <ayatori/ayatori.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <ayatori/ayatori.hpp>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "job_memory.hpp"

namespace {

constexpr std::int64_t kSlack = 64 << 20;  // of memory, for what does not grow with the number of threads
constexpr std::int64_t kThreadBytes = 4'800;
constexpr std::int64_t kSpare = 4'096;  // stacks that a process may have too many of, if they are small

double seconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

int failed(const char* what, std::int64_t is, std::int64_t bound) {
  std::printf("FAILED: %s: %" PRId64 ", bound %" PRId64 "\n", what, is, bound);
  return 1;
}

ayatori::stats of_all() {
  ayatori::stats sum;
  for (int p = 0; p < ayatori::process_count(); ++p) {
    ayatori::stats one;
    ayatori::thread(ayatori::on(p), [&one] {
      const ayatori::pinned here;
      one = ayatori::snapshot();
    }).join();
    sum.steals_remote += one.steals_remote;
    sum.joins_remote += one.joins_remote;
    sum.steals_local += one.steals_local;
  }
  return sum;
}

bool nobody_else() { return ayatori::process_count() == 1 && ayatori::worker_count() == 1; }

// ------------------------------------------------------------------------------------------------ chain

// Each thread forks the next one and joins it.
std::int64_t chain(std::int64_t depth, ayatori::atomic<int>& moved) {
  if (depth == 0) {
    // Without a scheduling point: who waits for this thread is taken by others while it computes.
    while (!nobody_else() && moved.load() == 0)
      for (volatile int pause = 0; pause < 100;) pause = pause + 1;
    return 0;
  }
  std::int64_t below = 0;
  const int process = ayatori::process_id();
  const int worker = ayatori::worker_id();
  ayatori::thread next([depth, &moved, &below] { below = chain(depth - 1, moved); });
  if (ayatori::process_count() > 1 ? ayatori::process_id() != process : ayatori::worker_id() != worker) moved.store(1);
  next.join();
  return below + 1;
}

int chain_case(std::int64_t depth) {
  ayatori::atomic<int> moved{0};
  const std::int64_t got = chain(depth, moved);
  if (got != depth) return failed("depth", got, depth);
  const ayatori::stats s = of_all();
  std::printf("depth %" PRId64 ", %" PRIu64 " steals between processes, %" PRIu64 " joins\n", got, s.steals_remote,
              s.joins_remote);
  if (ayatori::process_count() > 1 && (s.steals_remote == 0 || s.joins_remote == 0))
    return failed("nothing crossed processes", 0, 1);
  return 0;
}

// ------------------------------------------------------------------------------------------------ detached

// Short threads that nobody joins, while the thread that forks them goes from process to process.
int detached_case(std::int64_t count) {
  ayatori::atomic<std::int64_t> ended{0};
  std::int64_t forked = 0, visits = 0;
  const auto fork = [&ended, &forked] {
    ayatori::thread([&ended] { ended.fetch_add(1); }).detach();
    ++forked;
  };
  for (int i = 0; i < 1000; ++i) fork();
  const job_memory::Memory before = job_memory::measure_all();
  int last = ayatori::process_id();
  while (forked < count || (ayatori::process_count() > 1 && visits < 10)) {
    fork();
    if (const int now = ayatori::process_id(); now != last) {
      last = now;
      ++visits;
    }
  }
  while (ended.load() != forked) ayatori::this_thread::yield();
  const std::int64_t grown = (job_memory::measure_all() - before).total();
  std::printf("%" PRId64 " detached threads, %" PRId64 " times on another process, %" PRId64
              " bytes more than before\n",
              forked, visits, grown);
  // Each worker's deque goes round in a ring with a place for every stack there can be, 64 MiB here, and so touches it once.
  const std::int64_t ring = std::min<std::int64_t>(8 * forked, 64 << 20);
  const std::int64_t bound = kSlack + ring * ayatori::thread::hardware_concurrency();
  return grown > bound ? failed("bytes", grown, bound) : 0;
}

// Short threads that start on each process in turn, joined or not: what they leave behind is used again.
int placed_case(std::int64_t count) {
  ayatori::atomic<std::int64_t> elsewhere{0}, ended{0};
  // Sixteen at a time, four of them detached.
  const auto batch = [&elsewhere, &ended](std::int64_t threads) {
    std::array<ayatori::thread, 12> joined;
    for (std::int64_t i = 0; i < threads; i += 16) {
      const std::int64_t all = ended.load() + 16;
      for (std::size_t k = 0; k < 16; ++k) {
        const int process = static_cast<int>(k) % ayatori::process_count();
        ayatori::thread t(ayatori::on(process), [&elsewhere, &ended, from = ayatori::process_id()] {
          if (ayatori::process_id() != from) elsewhere.fetch_add(1);
          ended.fetch_add(1);
        });
        if (k < joined.size())
          joined[k] = std::move(t);
        else
          t.detach();
      }
      for (ayatori::thread& t : joined) t.join();
      while (ended.load() != all) ayatori::this_thread::yield();
    }
  };
  batch(20'000);
  const job_memory::Memory before = job_memory::measure_all();
  const std::int64_t elsewhere_before = elsewhere.load();
  batch(count);
  const std::int64_t grown = (job_memory::measure_all() - before).total();
  const std::int64_t there = elsewhere.load() - elsewhere_before;
  std::printf("%" PRId64 " placed threads, %" PRId64 " elsewhere, %" PRId64 " bytes more than before\n", count, there,
              grown);
  if (ayatori::process_count() > 1 && there < count / 3) return failed("threads elsewhere", there, count / 3);
  // Free stacks that lie where the last threads on them ended, and memory that others left in theirs.
  const std::int64_t bound = kSlack + (ayatori::process_count() + 1) * kSpare * kThreadBytes;
  return grown > bound ? failed("bytes", grown, bound) : 0;
}

// Deep ones, one at a time, that end elsewhere than where they start: their stacks come back before they take much memory.
int deep_case(std::int64_t count) {
  static constexpr std::size_t kDepth = 200 << 10;
  constexpr std::int64_t kStacks = 512 + 64;  // that may lie elsewhere, and what workers keep
  const ayatori::pinned pinned;
  const job_memory::Memory before = job_memory::measure_all();
  for (std::int64_t i = 0; i < count; ++i)
    ayatori::thread(ayatori::on(ayatori::process_count() - 1), [] {
      volatile char room[kDepth];
      for (std::size_t at = 0; at < kDepth; at += 4096) room[at] = 1;
      if (room[0] != 1) std::abort();
    }).join();
  const std::int64_t grown = (job_memory::measure_all() - before).total();
  std::printf("%" PRId64 " deep threads, %" PRId64 " bytes more than before\n", count, grown);
  const std::int64_t bound = 3 * kStacks * static_cast<std::int64_t>(kDepth) / 2 + kSlack;  // some of it here, too
  return grown > bound ? failed("bytes", grown, bound) : 0;
}

// ------------------------------------------------------------------------------------------------ no stack left

bool is_eagain(const std::system_error& e) { return e.code() == std::errc::resource_unavailable_try_again; }

// Forks in vain, so many times, by the interface of C++ and of C. Returns how many did not fail.
std::int64_t attempts(std::int64_t count) {
  std::int64_t got = 0;
  const double start = seconds();
  for (std::int64_t i = 0; i < count; ++i) {
    if ((i & 1) == 0) {
      try {
        ayatori::thread([] {}).detach();
        ++got;
      } catch (const std::system_error& e) {
        if (!is_eagain(e)) ++got;
      }
    } else {
      ayatori_thread_t t;
      if (ayatori_thread_create(&t, nullptr, [](void*) -> void* { return nullptr; }, nullptr) != EAGAIN) ++got;
    }
  }
  std::printf("%" PRId64 " attempts in vain: %.0f ns each\n", count,
              (seconds() - start) * 1e9 / static_cast<double>(count));
  return got;
}

// Threads that have ended and that nobody joins: their stacks, and no more; then EAGAIN, at once; joined, they are there again.
int unjoined_case(std::int64_t count, std::int64_t stacks) {
  std::vector<ayatori::thread> handles;
  handles.reserve(static_cast<std::size_t>(stacks) * 2);
  const job_memory::Memory before = job_memory::measure_all();
  for (int round = 0; round < 2; ++round) {
    try {
      for (;;) handles.emplace_back([] {});
    } catch (const std::system_error& e) {
      if (!is_eagain(e)) return failed(e.what(), e.code().value(), EAGAIN);
    }
    const auto held = static_cast<std::int64_t>(handles.size());
    std::printf("%" PRId64 " threads ended, none joined\n", held);
    if (held < stacks) return failed("threads", held, stacks);
    if (const std::int64_t got = attempts(count); got != 0) return failed("attempts that did not fail", got, 0);
    for (ayatori::thread& t : handles) t.join();
    handles.clear();
    const job_memory::Memory more = job_memory::measure_all() - before;
    job_memory::print(more);
    const std::int64_t grown = more.total();
    if (grown > held * kThreadBytes + kSlack) return failed("bytes", grown, held * kThreadBytes + kSlack);
  }
  return 0;
}

// Many more than there are stacks, all of which are joined last: one that has ended gives its stack back when its object is
// moved. Where others take the continuation, some have not ended by then.
int moved_case(std::int64_t count, std::int64_t stacks) {
  std::vector<ayatori::thread> handles;
  handles.reserve(static_cast<std::size_t>(count));
  ayatori::atomic<std::int64_t> ended{0};
  const job_memory::Memory before = job_memory::measure_all();
  std::int64_t again = 0;
  while (static_cast<std::int64_t>(handles.size()) < count) {
    try {
      handles.push_back(ayatori::thread([&ended] { ended.fetch_add(1); }));
    } catch (const std::system_error& e) {
      if (!is_eagain(e) || nobody_else()) return failed(e.what(), e.code().value(), 0);
      ++again;
      std::vector<ayatori::thread> moved;
      moved.reserve(handles.capacity());
      for (ayatori::thread& t : handles) moved.push_back(std::move(t));
      handles.swap(moved);
    }
  }
  std::printf("%" PRId64 " threads, %" PRId64 " times no stack\n", count, again);
  if (again > 8 * count / stacks) return failed("times without a stack", again, 8 * count / stacks);
  for (ayatori::thread& t : handles) t.join();
  if (ended.load() != count) return failed("threads that ended", ended.load(), count);
  handles = std::vector<ayatori::thread>();
  const std::int64_t grown = (job_memory::measure_all() - before).total();
  // Two vectors, on each process that has written them, each page with its twin.
  const std::int64_t bound =
      (nobody_else() ? 0 : stacks * kThreadBytes) + 32 * count * ayatori::process_count() + kSlack;
  if (grown > bound) return failed("bytes", grown, bound);
  return 0;
}

// Threads that wait for ever: then EAGAIN, at once; the job goes on, some of them end, as many others are forked; it ends with
// those that wait.
int parked_case(std::int64_t count, std::int64_t stacks) {
  static constexpr std::int64_t kEnd = 1000;
  ayatori::counting_semaphore<> go_on(0);
  ayatori::atomic<std::int64_t> ended{0};
  std::int64_t forked = 0;
  const auto fork = [&go_on, &ended, &forked] {
    ayatori::thread([&go_on, &ended] {
      go_on.acquire();
      ended.fetch_add(1);
    }).detach();
    ++forked;
  };
  const job_memory::Memory before = job_memory::measure_all();
  try {
    for (;;) fork();
  } catch (const std::system_error& e) {
    if (!is_eagain(e)) return failed(e.what(), e.code().value(), EAGAIN);
  }
  std::printf("%" PRId64 " threads wait\n", forked);
  if (forked < stacks) return failed("threads", forked, stacks);
  if (const std::int64_t got = attempts(count); got != 0) return failed("attempts that did not fail", got, 0);
  go_on.release(kEnd);
  while (ended.load() != kEnd) ayatori::this_thread::yield();
  const std::int64_t goal = forked + kEnd;
  std::int64_t vain = 0;
  while (forked < goal - 16) {  // who measures needs a stack
    try {
      fork();
    } catch (const std::system_error&) {  // the last that ended may be on their way back
      ++vain;
      ayatori::this_thread::yield();
    }
  }
  std::printf("%" PRId64 " of them ended, as many were forked, %" PRId64 " attempts in vain\n", kEnd, vain);
  const std::int64_t grown = (job_memory::measure_all() - before).total();
  if (grown > forked * kThreadBytes + kSlack) return failed("bytes", grown, forked * kThreadBytes + kSlack);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto args) {
    const std::string name = args.size() > 1 ? args[1] : "";
    const std::int64_t count = args.size() > 2 ? std::atoll(args[2]) : 0;
    const std::int64_t stacks = args.size() > 3 ? std::atoll(args[3]) : 0;
    if (name == "chain") return chain_case(count);
    if (name == "detached") return detached_case(count);
    if (name == "placed") return placed_case(count);
    if (name == "unjoined") return unjoined_case(count, stacks);
    if (name == "deep") return deep_case(count);
    if (name == "moved") return moved_case(count, stacks);
    if (name == "parked") return parked_case(count, stacks);
    return 2;
  });
}
