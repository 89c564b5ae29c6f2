// SPDX-License-Identifier: Apache-2.0
// Threads that are suspended in page faults, where fetches take time.
//
// `suspended parks`: while a thread waits for a page its worker runs another one; `suspended stays`: it does not (as where
// the C++ library is part of the executable). Two processes of one worker.
// `suspended anywhere [parks]`: code of the runtime, too, may be suspended and go on on another worker, where it touches
// memory of the program, but not where it is the first to touch a page of the stack: threads that have come from another process
// recurse deep, with a fork, a lock, a yield, an exception or a value of their own before and after each call, on objects
// that lie at other processes, and their frames end near the ends of pages. With `parks` it goes on until threads have
// changed their worker in the middle of a load.
//
// The last line is `check: ok` or `check: FAILED`.
#include <alloca.h>

#include <atomic>
#include <ayatori/ayatori.hpp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "../c/cases.h"

namespace {

constexpr std::size_t kPageBytes = 4096;

// ------------------------------------------------------------------------------------------------ parks, stays

constexpr int kPages = 20;

// Of process 1: how often the other thread ran.
std::atomic<long> ran{0};
std::atomic<bool> over{false};

int wait_for_pages(bool parks) {
  auto* const bytes = static_cast<volatile char*>(ayatori::allocate((2 * kPages + 1) * kPageBytes));  // of process 0
  for (int i = 0; i < 2 * kPages; ++i) bytes[static_cast<std::size_t>(i) * kPageBytes] = static_cast<char>(i);
  long between = 0;
  std::uint64_t faults = 0;
  ayatori::thread(ayatori::on(1), [&, bytes] {
    const ayatori::pinned here;
    ayatori::thread other([] {
      const ayatori::pinned stay;
      while (!over.load(std::memory_order_relaxed)) {
        ran.fetch_add(1, std::memory_order_relaxed);
        ayatori::this_thread::yield();
      }
    });
    const std::uint64_t faults_before = ayatori::snapshot().read_faults;
    for (int i = 0; i < 2 * kPages; i += 2) {
      const long before = ran.load(std::memory_order_relaxed);
      const char value = bytes[static_cast<std::size_t>(i) * kPageBytes];
      between += ran.load(std::memory_order_relaxed) - before;
      CHECK(value == static_cast<char>(i));
    }
    faults = ayatori::snapshot().read_faults - faults_before;
    over.store(true, std::memory_order_relaxed);
    other.join();
  }).join();
  std::printf("%llu faults, another thread ran %ld times meanwhile\n", static_cast<unsigned long long>(faults),
              between);
  CHECK(faults > 0);
  CHECK(parks == (between > 0));
  return failures();
}

// ------------------------------------------------------------------------------------------------ anywhere

constexpr int kThreads = 24;  // of a round, more than workers
constexpr int kDepth = 60;
constexpr int kRounds = 3, kRoundsMax = 300;

// What lies at one process. Each in a page of its own, as the pages are to be fetched again and again.
struct alignas(kPageBytes) Guarded {
  ayatori::mutex mutex;
  long count = 0;
};
struct alignas(kPageBytes) Handle {
  ayatori::thread thread;
};
struct alignas(kPageBytes) Word {
  volatile long value = 0;
};
struct Place {
  Guarded guarded[2];
  Handle handles[kThreads];
  Word words[8];
  std::exception_ptr errors[kThreads];  // each for one thread: they are counted on one process at a time
};
struct Shared {
  std::vector<std::unique_ptr<Place>> places;  // one a process
  ayatori::atomic<long> locked, changed;
  ayatori::local<long> own;
};

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
  return x ^ x >> 31;
}

void operate(Shared& s, int number, std::uint64_t random) {
  Place& place = *s.places[random % s.places.size()];
  switch (random >> 8 & 7) {
    case 0: {  // the handle lies in a page of another process: to store and to clear it are writes there
      ayatori::thread& handle = place.handles[number].thread;
      CHECK(!handle.joinable());
      handle = ayatori::thread([] {});
      handle.join();
      CHECK(!handle.joinable());
      break;
    }
    case 1: {
      Guarded& g = place.guarded[random >> 16 & 1];
      const std::lock_guard lock(g.mutex);
      ++g.count;
      s.locked.fetch_add(1, std::memory_order_relaxed);
      break;
    }
    case 2: ayatori::this_thread::yield(); break;
    case 3: CHECK(++*s.own > 0); break;
    case 4: {
      bool caught = false;
      try {
        std::rethrow_exception(place.errors[number]);
      } catch (const std::runtime_error& e) {
        caught = std::string_view(e.what()) == "of one";
      }
      CHECK(caught && std::uncaught_exceptions() == 0);
      break;
    }
    default: {
      const int before = ayatori::worker_id(), process = ayatori::process_id();
      const long value = place.words[random >> 16 & 7].value;
      const int after = ayatori::worker_id();
      CHECK(value == 0 && process == ayatori::process_id());
      if (before != after) s.changed.fetch_add(1, std::memory_order_relaxed);
    }
  }
}

// Its frame ends a little above the end of a page, which is touched first by what is called: the operation, or the library.
[[gnu::noinline]] std::uint64_t descend(Shared& s, int number, int depth, std::uint64_t random) {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const std::uintptr_t page = (here - 1024) / kPageBytes - (random >> 32 & 1), above = (random >> 33) % 32 * 16;
  const std::size_t bytes = here - 64 - page * kPageBytes - above;
  volatile unsigned char* const frame = static_cast<unsigned char*>(alloca(bytes));
  operate(s, number, random);
  const auto mark = static_cast<unsigned char>(random >> 24);
  frame[0] = mark;
  frame[bytes - 1] = mark;
  std::uint64_t sum = mark;
  if (depth > 0) sum += descend(s, number, depth - 1, mix(random + 1));
  CHECK(frame[0] == mark && frame[bytes - 1] == mark);
  operate(s, number, mix(random + 2));
  return sum;
}
std::uint64_t expected(int depth, std::uint64_t random) {
  std::uint64_t sum = 0;
  for (; depth >= 0; --depth, random = mix(random + 1)) sum += static_cast<unsigned char>(random >> 24);
  return sum;
}

int suspend_anywhere(bool until_changed) {
  const auto s = std::make_unique<Shared>();
  const int processes = ayatori::process_count();
  s->places.resize(static_cast<std::size_t>(processes));
  for (int p = 0; p < processes; ++p)
    ayatori::thread(ayatori::on(p), [&s, p] {
      auto place = std::make_unique<Place>();
      for (std::exception_ptr& error : place->errors) error = std::make_exception_ptr(std::runtime_error("of one"));
      s->places[static_cast<std::size_t>(p)] = std::move(place);
    }).join();
  int rounds = 0;
  for (; rounds < kRounds || (until_changed && s->changed.load() == 0 && rounds < kRoundsMax); ++rounds) {
    std::vector<ayatori::thread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&s, i, rounds] {
        migrate();
        const std::uint64_t seed =
            mix(static_cast<std::uint64_t>(rounds) * kThreads + static_cast<std::uint64_t>(i) + 1);
        CHECK(descend(*s, i, kDepth, seed) == expected(kDepth, seed));
      });
    for (ayatori::thread& t : threads) t.join();
  }
  long counted = 0;
  for (const auto& place : s->places)
    for (Guarded& g : place->guarded) {
      const std::lock_guard lock(g.mutex);
      counted += g.count;
    }
  CHECK(counted == s->locked.load() && counted > 0);
  std::printf("%d rounds, %ld changes of the worker in a load\n", rounds, s->changed.load());
  CHECK(!until_changed || s->changed.load() > 0);
  return failures();
}

int program(std::span<char*> arguments) {
  const std::string_view what = arguments.size() > 1 ? arguments[1] : "";
  const int wrong = what == "parks" || what == "stays" ? wait_for_pages(what == "parks")
                    : what == "anywhere"               ? suspend_anywhere(arguments.size() > 2)
                                                       : 1;
  std::printf("check: %s\n", wrong == 0 ? "ok" : "FAILED");
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return ayatori::run(argc, argv, program); }
