// SPDX-License-Identifier: Apache-2.0
// Kinds about locks: mutex, readers, philosophers, once.
#include <ayatori/ayatori.h>
#include <map>

#include "soak.hpp"

namespace soak {
namespace {

using namespace std::chrono_literals;

// ---------------------------------------------------------------------------------------------------- mutex

// One in static data is one object for all processes; what it guards is in the space.
ayatori::mutex static_mutex;
ayatori::timed_mutex static_timed;
struct Guarded {
  long plain = 0, timed = 0;
};
ayatori::global<Guarded> guarded;

void mutexes(const Run& run) {
  struct State {
    ayatori::mutex mutex;
    long count = 0;
    ayatori::timed_mutex timed;
    long timed_count = 0;
    std::string text;
  };
  const auto state = std::make_unique<State>();
  long before, before_timed;
  {
    const std::scoped_lock both(static_mutex, static_timed);
    before = guarded->plain;
    before_timed = guarded->timed;
  }
  constexpr int kThreads = 8;
  const int each = run.scaled(250);
  std::vector<long> statics(kThreads), timed_statics(kThreads), timed(kThreads);
  {
    Crew crew;
    for (int t = 0; t < kThreads; ++t)
      crew.start(mix(run.seed, static_cast<u64>(t)), [&, t] {
        const auto me = static_cast<std::size_t>(t);
        Random random(mix(run.seed, 100 + me));
        for (int i = 0; i < each; ++i) {
          const u64 r = random.next();
          {
            std::unique_lock lock(state->mutex, std::defer_lock);
            if (r % 3 == 0) {
              while (!lock.try_lock()) ayatori::this_thread::yield();
            } else {
              lock.lock();
            }
            ++state->count;
            if (state->text.size() > 40) state->text.clear();
            state->text += 'x';
            sometimes_yield(r >> 8);
          }
          if (r % 4 == 0) {  // the time may be over: then nothing is counted
            if (state->timed.try_lock_for(std::chrono::microseconds(r / 16 % 300))) {
              ++state->timed_count;
              sometimes_yield(r >> 16);
              state->timed.unlock();
              ++timed[me];
            }
          }
          if (r % 7 == 0) {
            const std::lock_guard lock(static_mutex);
            ++guarded->plain;
            ++statics[me];
          }
          if (r % 11 == 0 && static_timed.try_lock_until(std::chrono::steady_clock::now() + 200us)) {
            ++guarded->timed;
            ++timed_statics[me];
            static_timed.unlock();
          }
        }
      });
  }
  long want_timed = 0, want_static = 0, want_timed_static = 0;
  for (std::size_t t = 0; t < kThreads; ++t) {
    want_timed += timed[t];
    want_static += statics[t];
    want_timed_static += timed_statics[t];
  }
  expect(state->count, kThreads * each, "a counter under a mutex", run.seed);
  expect(state->timed_count, want_timed, "a counter under a timed mutex", run.seed);
  const std::scoped_lock both(static_mutex, static_timed);
  // Another run of this kind may have counted there meanwhile (`mixed`), nobody takes away.
  expect(guarded->plain - before >= want_static, true, "a counter under a static mutex", run.seed);
  expect(guarded->timed - before_timed >= want_timed_static, true, "a counter under a static timed mutex", run.seed);
}

// ---------------------------------------------------------------------------------------------------- readers

// Writers keep a + b == 1000 and a map in step; readers look.
void readers(const Run& run) {
  struct State {
    ayatori::shared_mutex mutex;
    int a = 1000, b = 0;
    std::map<int, std::string> map;
    long writes = 0;
    ayatori_rwlock_t c_lock = AYATORI_RWLOCK_INITIALIZER;  // prefers readers
    long c_writes = 0, c_twice = 0;
  };
  const auto state = std::make_unique<State>();
  constexpr int kThreads = 9;
  std::vector<long> writes(kThreads), c_writes(kThreads);
  const auto look = [&state](u64 where) {
    expect(state->a + state->b, 1000, "a sum under a shared mutex", where);
    for (const auto& [key, value] : state->map)
      if (!expect(value == std::to_string(key), true, "an entry under a shared mutex", where)) break;
  };
  {
    Crew crew;
    for (int t = 0; t < kThreads; ++t)
      crew.start(mix(run.seed, static_cast<u64>(t)), [&, t] {
        const auto me = static_cast<std::size_t>(t);
        Random random(mix(run.seed, 100 + me));
        const auto change = [&](u64 r) {
          const int by = static_cast<int>(r % 50);
          state->a -= by;
          sometimes_yield(r >> 8);
          state->b += by;
          const int key = static_cast<int>(r >> 16 & 31);
          if (r >> 24 & 1)
            state->map[key] = std::to_string(key);
          else
            state->map.erase(key);
          ++state->writes;
          ++writes[me];
        };
        for (int i = 0; i < run.scaled(120); ++i) {
          const u64 r = random.next();
          if (r % 10 < 5) {
            const std::shared_lock lock(state->mutex);
            look(r);
            sometimes_yield(r >> 9);
          } else if (r % 10 == 5) {
            std::shared_lock lock(state->mutex, std::chrono::microseconds(r / 64 % 400));
            if (lock) look(r);
          } else if (r % 10 == 6) {
            std::unique_lock lock(state->mutex, std::try_to_lock);
            if (lock) change(r);
          } else if (r % 10 == 7) {
            const std::unique_lock lock(state->mutex);
            change(r);
          } else if (r % 10 == 8) {
            expect(ayatori_rwlock_wrlock(&state->c_lock), 0, "ayatori_rwlock_wrlock", r);
            ++state->c_writes;
            sometimes_yield(r >> 8);
            ++state->c_twice;
            ++c_writes[me];
            expect(ayatori_rwlock_unlock(&state->c_lock), 0, "ayatori_rwlock_unlock", r);
          } else {
            expect(ayatori_rwlock_rdlock(&state->c_lock), 0, "ayatori_rwlock_rdlock", r);
            sometimes_yield(r >> 8);
            expect(ayatori_rwlock_rdlock(&state->c_lock), 0, "ayatori_rwlock_rdlock once more", r);
            expect(state->c_writes, state->c_twice, "what readers see twice", r);
            expect(ayatori_rwlock_unlock(&state->c_lock), 0, "ayatori_rwlock_unlock", r);
            expect(ayatori_rwlock_unlock(&state->c_lock), 0, "ayatori_rwlock_unlock", r);
          }
        }
      });
  }
  long want = 0, c_want = 0;
  for (std::size_t t = 0; t < kThreads; ++t) {
    want += writes[t];
    c_want += c_writes[t];
  }
  expect(state->writes, want, "writes under a shared mutex", run.seed);
  expect(state->c_writes, c_want, "writes under a read-write lock", run.seed);
  look(run.seed);
  expect(ayatori_rwlock_destroy(&state->c_lock), 0, "ayatori_rwlock_destroy", run.seed);
}

// ---------------------------------------------------------------------------------------------------- philosophers

void philosophers(const Run& run) {
  struct Fork {
    ayatori::mutex mutex;
    long uses = 0;
  };
  const int count = 3 + static_cast<int>(run.seed % 5), meals = run.scaled(200);
  std::vector<Fork> forks(static_cast<std::size_t>(count));
  {
    Crew crew;
    for (int p = 0; p < count; ++p)
      crew.start(mix(run.seed, static_cast<u64>(p)), [&, p] {
        Random random(mix(run.seed, 100 + static_cast<u64>(p)));
        for (int m = 0; m < meals; ++m) {
          Fork& left = forks[static_cast<std::size_t>(p)];
          Fork& right = forks[static_cast<std::size_t>((p + 1) % count)];
          if (random.one_in(6)) {  // three at once
            Fork& third = forks[static_cast<std::size_t>((p + 2) % count)];
            const std::scoped_lock lock(right.mutex, third.mutex, left.mutex);
            ++third.uses;
            --third.uses;
            ++left.uses;
            sometimes_yield(random.next());
            ++right.uses;
          } else {
            const std::scoped_lock lock(left.mutex, right.mutex);
            ++left.uses;
            sometimes_yield(random.next());
            ++right.uses;
          }
        }
      });
  }
  for (const Fork& fork : forks) expect(fork.uses, 2L * meals, "the uses of a fork", run.seed);
}

// ---------------------------------------------------------------------------------------------------- once

struct OnceState {
  ayatori_once_t control = AYATORI_ONCE_INIT;
  ayatori::recursive_mutex mutex;
  long entries = 0, outer = 0;
  std::vector<long> levels;
};
ayatori::global<ayatori::mutex> once_turn;  // ayatori_once has no argument
ayatori::global<ayatori::atomic<long>> once_runs;

void nest(OnceState& state, Random& random, int depth) {
  const std::lock_guard lock(state.mutex);
  ++state.entries;
  state.levels.push_back(depth);
  sometimes_yield(random.next());
  if (depth > 0) nest(state, random, depth - 1);
  if (random.one_in(4) && state.mutex.try_lock()) state.mutex.unlock();
  expect(state.levels.back(), depth, "the level of who holds a recursive mutex", static_cast<u64>(depth));
  state.levels.pop_back();
}

void once(const Run& run) {
  const std::lock_guard turn(once_turn.get());
  for (int round = 0; round < run.scaled(20); ++round) {
    const auto state = std::make_unique<OnceState>();
    const u64 seed = mix(run.seed, static_cast<u64>(round));
    const long before = once_runs->load();
    constexpr int kThreads = 6;
    std::vector<long> entries(kThreads);
    {
      Crew crew;
      for (int t = 0; t < kThreads; ++t)
        crew.start(mix(seed, static_cast<u64>(t)), [&, t] {
          Random random(mix(seed, 100 + static_cast<u64>(t)));
          const auto routine = [] {
            ayatori::this_thread::yield();
            once_runs->fetch_add(1);
          };
          expect(ayatori_once(&state->control, routine), 0, "ayatori_once", seed);
          expect(once_runs->load() - before, 1, "runs of a once routine when one has returned", seed);
          for (int i = 0; i < 8; ++i) {
            const int depth = random.range(0, 4);
            nest(*state, random, depth);
            entries[static_cast<std::size_t>(t)] += depth + 1;
            if (random.one_in(3)) {
              const std::unique_lock lock(state->mutex, std::chrono::microseconds(100));
              if (lock) ++state->outer, --state->outer;
            }
          }
        });
    }
    long want = 0;
    for (const long n : entries) want += n;
    expect(state->entries, want, "entries under a recursive mutex", seed);
    expect(state->levels.size(), 0u, "levels that are left", seed);
  }
}

constexpr Kind kKinds[] = {{"mutex", mutexes}, {"readers", readers}, {"philosophers", philosophers}, {"once", once}};
}  // namespace

std::span<const Kind> lock_kinds() { return kKinds; }
}  // namespace soak
