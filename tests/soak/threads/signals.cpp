// SPDX-License-Identifier: Apache-2.0
// Kinds where threads tell each other something: buffer, semaphores, stencil, pipeline, timed.
#include <deque>
#include <optional>

#include "soak.hpp"

namespace soak {
namespace {

// ---------------------------------------------------------------------------------------------------- buffer

struct Buffer {
  ayatori::mutex mutex;
  ayatori::condition_variable not_empty, not_full;
  std::deque<std::unique_ptr<std::string>> items;
  int producers = 0;
};

void buffer(const Run& run) {
  for (int round = 0; round < 3; ++round) {
    Random random(mix(run.seed, static_cast<u64>(round)));
    const int producers = random.range(1, 4), consumers = random.range(1, 4), each = run.scaled(random.range(60, 150));
    const auto room = static_cast<std::size_t>(random.range(1, 8));
    const bool all = random.one_in(3);  // everybody is told each time
    Buffer shared;
    shared.producers = producers;
    std::vector<u64> sums(static_cast<std::size_t>(consumers));
    const auto tell = [all](ayatori::condition_variable& c) { all ? c.notify_all() : c.notify_one(); };
    const auto item_of = [&run, round](int p, int i) {
      return mix(run.seed, static_cast<u64>(round * 100000 + p * 1000 + i)) >> 8;
    };
    u64 want = 0;
    {
      Crew crew;
      for (int p = 0; p < producers; ++p)
        crew.start(random.next(), [&, p] {
          for (int i = 0; i < each; ++i) {
            auto item = std::make_unique<std::string>(std::to_string(item_of(p, i)));
            std::unique_lock lock(shared.mutex);
            if (i % 4 == 0) {
              while (!shared.not_full.wait_for(lock, std::chrono::microseconds(200),
                                               [&] { return shared.items.size() < room; })) {
              }
            } else {
              shared.not_full.wait(lock, [&] { return shared.items.size() < room; });
            }
            shared.items.push_back(std::move(item));
            tell(shared.not_empty);
          }
          const std::lock_guard lock(shared.mutex);
          if (--shared.producers == 0) shared.not_empty.notify_all();
        });
      for (int c = 0; c < consumers; ++c)
        crew.start(random.next(), [&, c] {
          for (;;) {
            std::unique_ptr<std::string> item;
            {
              std::unique_lock lock(shared.mutex);
              shared.not_empty.wait(lock, [&] { return !shared.items.empty() || shared.producers == 0; });
              if (shared.items.empty()) return;
              item = std::move(shared.items.front());
              shared.items.pop_front();
              tell(shared.not_full);
            }
            sums[static_cast<std::size_t>(c)] += std::stoull(*item);
          }
        });
    }
    for (int p = 0; p < producers; ++p)
      for (int i = 0; i < each; ++i) want += item_of(p, i);
    u64 got = 0;
    for (const u64 s : sums) got += s;
    expect(got, want, "what went through a buffer", run.seed);
    expect(shared.items.size(), 0u, "the rest in a buffer", run.seed);
  }
}

// ---------------------------------------------------------------------------------------------------- semaphores

void semaphores(const Run& run) {
  constexpr std::size_t kRoom = 5;
  struct Ring {
    ayatori::counting_semaphore<> free{kRoom}, filled{0};
    ayatori::binary_semaphore put{1}, take{1};
    std::size_t head = 0, tail = 0;
    u64 cells[kRoom] = {};
  };
  const auto ring = std::make_unique<Ring>();
  constexpr int kPairs = 4;
  const int each = run.scaled(150);
  std::vector<u64> sums(kPairs);
  {
    Crew crew;
    for (int p = 0; p < kPairs; ++p) {
      crew.start(mix(run.seed, static_cast<u64>(p)), [&, p] {
        for (int i = 0; i < each; ++i) {
          ring->free.acquire();
          while (!ring->put.try_acquire_for(std::chrono::microseconds(300))) {
          }
          ring->cells[ring->head++ % kRoom] = mix(run.seed, static_cast<u64>(p * 100000 + i));
          ring->put.release();
          ring->filled.release();
        }
      });
      crew.start(mix(run.seed, 50 + static_cast<u64>(p)), [&, p] {
        for (int i = 0; i < each; ++i) {
          if (i % 3 != 0)
            ring->filled.acquire();
          else
            while (!ring->filled.try_acquire()) ayatori::this_thread::yield();
          ring->take.acquire();
          const u64 item = ring->cells[ring->tail++ % kRoom];
          ring->take.release();
          ring->free.release();
          sums[static_cast<std::size_t>(p)] += item;
        }
      });
    }
  }
  u64 got = 0, want = 0;
  for (const u64 s : sums) got += s;
  for (int p = 0; p < kPairs; ++p)
    for (int i = 0; i < each; ++i) want += mix(run.seed, static_cast<u64>(p * 100000 + i));
  expect(got, want, "what went through a ring of semaphores", run.seed);
  expect(ring->filled.try_acquire(), false, "whether a semaphore has units left", run.seed);
  // Many units at once; units are neither lost nor made.
  ayatori::counting_semaphore<> units(0);
  ayatori::atomic<long> taken{0};
  {
    Crew crew;
    for (int t = 0; t < 6; ++t)
      crew.start(mix(run.seed, 90 + static_cast<u64>(t)), [&] {
        for (int i = 0; i < 20; ++i) {
          units.acquire();
          taken.fetch_add(1, std::memory_order_relaxed);
        }
      });
    for (int i = 0; i < 30; ++i) {
      units.release(4);
      sometimes_yield(mix(run.seed, 1000 + static_cast<u64>(i)));
    }
  }
  expect(taken.load(), 120, "units taken", run.seed);
  expect(units.try_acquire(), false, "whether units are left", run.seed);
}

// ---------------------------------------------------------------------------------------------------- stencil

// Phases of a one-dimensional stencil between barriers, with a completion that swaps and counts, against a serial model.
void stencil(const Run& run) {
  Random random(run.seed);
  const int parties = random.range(2, 7), phases = run.scaled(60), leaves = random.range(0, parties - 1);
  const int cells = parties * random.range(20, 900) + 2;
  std::vector<std::vector<u64>> field(2, std::vector<u64>(static_cast<std::size_t>(cells)));
  for (int i = 0; i < cells; ++i) field[0][static_cast<std::size_t>(i)] = mix(run.seed, static_cast<u64>(i));
  field[1] = field[0];
  std::vector<u64> model = field[0];
  const auto step = [](const std::vector<u64>& from, std::vector<u64>& to, int first, int last) {
    for (int i = first; i < last; ++i) {
      const auto k = static_cast<std::size_t>(i);
      to[k] = (from[k - 1] >> 2) + (from[k] >> 1) + (from[k + 1] >> 2) + k;
    }
  };
  struct Shared {
    int phase = 0;
  } shared;
  const auto completion = [&shared] { ++shared.phase; };
  ayatori::basic_barrier<decltype(completion)> barrier(parties + leaves, completion);
  {
    Crew crew;
    const int per = (cells - 2) / parties;
    for (int t = 0; t < parties; ++t)
      crew.start(random.next(), [&, t, per] {
        for (int p = 0; p < phases; ++p) {
          expect(shared.phase, p, "a phase", run.seed);
          const auto side = static_cast<std::size_t>(p % 2);
          step(field[side], field[1 - side], 1 + t * per, 1 + (t + 1) * per);
          if ((p + t) % 5 == 0) {
            auto token = barrier.arrive();
            sometimes_yield(mix(run.seed, static_cast<u64>(p)));
            barrier.wait(std::move(token));
          } else {
            barrier.arrive_and_wait();
          }
        }
      });
    for (int t = 0; t < leaves; ++t)  // these come to some phases and leave
      crew.start(random.next(), [&, t] {
        for (int p = 0; p < std::min(t + 1, phases - 1); ++p) barrier.arrive_and_wait();
        barrier.arrive_and_drop();
      });
  }
  std::vector<u64> next = model;
  for (int p = 0; p < phases; ++p) {
    step(model, next, 1, cells - 1);
    std::swap(model, next);
  }
  expect(shared.phase, phases, "completions", run.seed);
  expect(field[static_cast<std::size_t>(phases % 2)] == model, true, "a field after the phases", run.seed);
}

// ---------------------------------------------------------------------------------------------------- pipeline

// Stages that hand on by yielding until the next one has room.
void pipeline(const Run& run) {
  struct Stage {
    ayatori::mutex mutex;
    std::optional<std::string> slot;
  };
  Random random(run.seed);
  const int stages = random.range(2, 6), items = run.scaled(80);
  std::vector<Stage> between(static_cast<std::size_t>(stages + 1));
  const auto put = [](Stage& stage, std::string item) {
    for (;; ayatori::this_thread::yield()) {
      const std::lock_guard lock(stage.mutex);
      if (stage.slot) continue;
      stage.slot.emplace(std::move(item));
      return;
    }
  };
  const auto take = [](Stage& stage) {
    for (;; ayatori::this_thread::yield()) {
      const std::lock_guard lock(stage.mutex);
      if (!stage.slot) continue;
      std::string item = std::move(*stage.slot);
      stage.slot.reset();
      return item;
    }
  };
  const auto work = [&run](int stage, const std::string& item) {
    const u64 r = mix(run.seed ^ static_cast<u64>(stage), std::hash<std::string>()(item));
    return item.substr(item.size() / 2) + "-" + std::to_string(r % 100000) + std::string(r % 50, 'p');
  };
  Crew crew;
  for (int s = 0; s < stages; ++s)
    crew.start(random.next(), [&, s] {
      for (int i = 0; i < items; ++i)
        put(between[static_cast<std::size_t>(s + 1)], work(s, take(between[static_cast<std::size_t>(s)])));
    });
  crew.start(random.next(), [&] {
    for (int i = 0; i < items; ++i) put(between.front(), std::to_string(mix(run.seed, static_cast<u64>(i))));
  });
  for (int i = 0; i < items; ++i) {
    std::string want = std::to_string(mix(run.seed, static_cast<u64>(i)));
    for (int s = 0; s < stages; ++s) want = work(s, want);
    expect(take(between.back()) == want, true, "an item of a pipeline", static_cast<u64>(i));
  }
}

// ---------------------------------------------------------------------------------------------------- timed

// Waits with times that meet notifications: a token is with who took it or still there, and nobody wakes before its time.
void timed(const Run& run) {
  struct Shared {
    ayatori::mutex mutex;
    ayatori::condition_variable changed;
    long tokens = 0;
  } shared;
  ayatori::counting_semaphore<> units(0);
  constexpr int kThreads = 10;
  std::vector<long> taken(kThreads), units_taken(kThreads), given(kThreads);
  {
    Crew crew;
    for (int t = 0; t < kThreads; ++t)
      crew.start(mix(run.seed, static_cast<u64>(t)), [&, t] {
        using Clock = std::chrono::steady_clock;
        const auto me = static_cast<std::size_t>(t);
        Random random(mix(run.seed, 100 + me));
        for (int i = 0; i < run.scaled(60); ++i) {
          const auto some = std::chrono::microseconds(random.below(1500));
          const auto until = Clock::now() + some;
          switch (random.below(6)) {
            case 0:
              ayatori::this_thread::sleep_for(some);
              expect(Clock::now() >= until, true, "whether a sleeper slept long enough", run.seed);
              break;
            case 1:
              ayatori::this_thread::sleep_until(until);
              expect(Clock::now() >= until, true, "whether a sleeper slept until then", run.seed);
              break;
            case 2: {
              std::unique_lock lock(shared.mutex);
              if (shared.changed.wait_until(lock, until, [&] { return shared.tokens > 0; })) {
                --shared.tokens;
                ++taken[me];
              } else {
                expect(Clock::now() >= until, true, "whether a wait timed out in time", run.seed);
              }
              break;
            }
            case 3: {
              const bool got = units.try_acquire_until(until);
              units_taken[me] += got;
              if (!got) expect(Clock::now() >= until, true, "whether a semaphore timed out in time", run.seed);
              break;
            }
            default: {
              {
                const std::lock_guard lock(shared.mutex);
                ++shared.tokens;
              }
              shared.changed.notify_one();
              units.release();
              ++given[me];
            }
          }
        }
      });
  }
  long balance = shared.tokens, unit_balance = 0;
  while (units.try_acquire()) ++unit_balance;
  for (std::size_t t = 0; t < kThreads; ++t) {
    balance += taken[t] - given[t];
    unit_balance += units_taken[t] - given[t];
  }
  expect(balance, 0, "tokens made or lost", run.seed);
  expect(unit_balance, 0, "units made or lost", run.seed);
}

constexpr Kind kKinds[] = {
    {"buffer", buffer}, {"semaphores", semaphores}, {"stencil", stencil}, {"pipeline", pipeline}, {"timed", timed}};
}  // namespace

std::span<const Kind> signal_kinds() { return kKinds; }
}  // namespace soak
