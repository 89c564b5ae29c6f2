// SPDX-License-Identifier: Apache-2.0
// What a thread costs that waits: memory by category, counted once over all processes of the job, and time.
//
//   ayatori run -n P -w W parked_threads [THREADS [WAY [BYTES]]]
//
// THREADS (1,000,000) are forked by the first thread, wait, go on and are joined. WAY: barrier, condition, semaphore, mutex,
// or join: each joins the one before it. Status 1: a thread needs more than BYTES, or one did not wait or was lost.
//
// Memory is what is there while all wait, less what was there before the first of them (job_memory.hpp).
#include <time.h>

#include <ayatori/ayatori.hpp>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "job_memory.hpp"

namespace {

double seconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Round {
  explicit Round(std::ptrdiff_t threads) : barrier(threads + 1) {}
  ayatori::barrier barrier;
  ayatori::mutex mutex;
  ayatori::condition_variable condition;
  ayatori::counting_semaphore<> semaphore{0};
  bool open = false;
  ayatori::atomic<std::int64_t> waiting{0}, gone_on{0};
};

enum class Way { kBarrier, kCondition, kSemaphore, kMutex, kJoin };

void wait(Round& r, Way way, ayatori::thread* before) {
  r.waiting.fetch_add(1);
  switch (way) {
    case Way::kBarrier: r.barrier.arrive_and_wait(); break;
    case Way::kCondition: {
      std::unique_lock<ayatori::mutex> lock(r.mutex);
      while (!r.open) r.condition.wait(lock);
      break;
    }
    case Way::kSemaphore: r.semaphore.acquire(); break;
    case Way::kMutex: {
      const std::lock_guard<ayatori::mutex> lock(r.mutex);
      break;
    }
    case Way::kJoin:
      if (before)
        before->join();
      else
        r.semaphore.acquire();
      break;
  }
  r.gone_on.fetch_add(1);
}

void let_go(Round& r, Way way, std::int64_t threads) {
  switch (way) {
    case Way::kBarrier: r.barrier.arrive_and_wait(); break;
    case Way::kCondition: {
      const std::lock_guard<ayatori::mutex> lock(r.mutex);
      r.open = true;
      r.condition.notify_all();
      break;
    }
    case Way::kSemaphore: r.semaphore.release(threads); break;
    case Way::kMutex: r.mutex.unlock(); break;
    case Way::kJoin: r.semaphore.release(); break;
  }
}

struct Result {
  job_memory::Memory memory;
  double fork_ns, end_ns;
  std::int64_t waited, lost;
};

Result round(std::int64_t threads, Way way) {
  Result result{};
  Round r(threads);
  std::vector<ayatori::thread> handles(static_cast<std::size_t>(threads));
  std::memset(static_cast<void*>(handles.data()), 0, handles.size() * sizeof handles[0]);  // its memory is there
  const job_memory::Memory before = job_memory::measure_all();
  if (way == Way::kMutex) r.mutex.lock();
  const double start = seconds();
  for (std::int64_t i = 0; i < threads; ++i) {
    ayatori::thread* const last = i == 0 ? nullptr : &handles[static_cast<std::size_t>(i - 1)];
    handles[static_cast<std::size_t>(i)] = ayatori::thread([&r, way, last] { wait(r, way, last); });
  }
  while (r.waiting.load() != threads) ayatori::this_thread::yield();
  const double forked = seconds();
  result.waited = threads - r.gone_on.load();
  result.memory = job_memory::measure_all() - before;
  const double go = seconds();
  let_go(r, way, threads);
  if (way == Way::kJoin) {
    handles.back().join();
  } else {
    for (ayatori::thread& t : handles) t.join();
  }
  const double end = seconds();
  result.lost = threads - r.gone_on.load();
  result.fork_ns = (forked - start) * 1e9 / static_cast<double>(threads);
  result.end_ns = (end - go) * 1e9 / static_cast<double>(threads);
  return result;
}

int run(std::int64_t threads, const std::string& name, std::int64_t bound) {
  const char* const names[] = {"barrier", "condition", "semaphore", "mutex", "join"};
  int way = 0;
  while (way < 5 && name != names[way]) ++way;
  if (way == 5 || threads < 1) return 2;
  round(100, static_cast<Way>(way));  // what is used for the first time
  const Result r = round(threads, static_cast<Way>(way));
  std::printf("%" PRId64 " threads, %s, %d processes x %d workers\n", threads, names[way], ayatori::process_count(),
              ayatori::worker_count());
  const auto line = [threads](const char* what, std::int64_t bytes) {
    std::printf("  %-12s %8.1f bytes a thread\n", what, static_cast<double>(bytes) / static_cast<double>(threads));
  };
  line("stacks", r.memory.stacks);
  line("tables", r.memory.tables);
  line("private", r.memory.priv);
  line("files", r.memory.files);
  line("page tables", r.memory.page_tables);
  line("file index", r.memory.index);
  line("all", r.memory.total());
  std::printf("  fork until it waits %.0f ns, go on, end and join %.0f ns\n", r.fork_ns, r.end_ns);
  if (r.waited != threads || r.lost != 0) {
    std::printf("FAILED: %" PRId64 " of %" PRId64 " waited, %" PRId64 " were lost\n", r.waited, threads, r.lost);
    return 1;
  }
  if (bound > 0 && r.memory.total() > bound * threads) {
    std::printf("FAILED: more than %" PRId64 " bytes a thread\n", bound);
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto args) {
    return run(args.size() > 1 ? std::atoll(args[1]) : 1'000'000, args.size() > 2 ? args[2] : "barrier",
               args.size() > 3 ? std::atoll(args[3]) : 0);
  });
}
