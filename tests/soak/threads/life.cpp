// SPDX-License-Identifier: Apache-2.0
// Kinds about the life of threads: detached, exceptions, keys, ring.
#include <ayatori/ayatori.h>
#include <stdexcept>

#include "soak.hpp"

namespace soak {
namespace {

// ---------------------------------------------------------------------------------------------------- detached

void detached(const Run& run) {
  for (int round = 0; round < run.scaled(12); ++round) {
    Random random(mix(run.seed, static_cast<u64>(round)));
    const int count = random.range(5, 60);
    struct Shared {
      explicit Shared(int n) : done(n) {}
      ayatori::latch done;
      ayatori::mutex mutex;
      u64 sum = 0;  // under mutex
      ayatori::atomic<u64> atomic{0};
      std::vector<u64> cells;
    };
    Shared shared(2 * count);
    shared.cells.resize(static_cast<std::size_t>(count));
    u64 want = 0;
    for (int i = 0; i < count; ++i) {
      const u64 r = random.next();
      want += r;
      start(r, [&shared, r, i] {
        if (r % 9 == 0) ayatori::this_thread::sleep_for(std::chrono::microseconds(r % 700));
        shared.cells[static_cast<std::size_t>(i)] = r;
        // detached by a detached one, which may end first
        start(r >> 8, [&shared, r] {
          sometimes_yield(r >> 16);
          shared.atomic.fetch_add(r, std::memory_order_relaxed);
          shared.done.count_down();
        }).detach();
        {
          const std::lock_guard lock(shared.mutex);
          shared.sum += r;
        }
        shared.done.count_down();
      }).detach();
    }
    if (random.one_in(2))
      while (!shared.done.try_wait()) ayatori::this_thread::yield();
    shared.done.wait();
    u64 cells = 0;
    for (const u64 c : shared.cells) cells += c;
    expect(shared.sum, want, "the sum of detached threads under a mutex", run.seed);
    expect(shared.atomic.load(), want, "the sum of their detached threads", run.seed);
    expect(cells, want, "what detached threads wrote", run.seed);
  }
}

// ---------------------------------------------------------------------------------------------------- exceptions

struct Failure {
  u64 id;
  std::string text;
  std::vector<u64> payload;
};
struct Error : std::runtime_error {
  Error(const std::string& what, u64 number) : std::runtime_error(what), id(number) {}
  u64 id;
};

ayatori::global<ayatori::atomic<long>> objects;
struct Counted {
  Counted() { objects->fetch_add(1, std::memory_order_relaxed); }
  Counted(const Counted&) { objects->fetch_add(1, std::memory_order_relaxed); }
  Counted& operator=(const Counted&) = default;
  ~Counted() { objects->fetch_sub(1, std::memory_order_relaxed); }
};

// Throws from below what its numbers say, through joins; catches forks, yields and throws again on the way up. Returns a sum
// of what was caught.
u64 thrower(u64 id, int depth);

[[noreturn]] void throw_it(u64 id) {
  const Counted unwound;
  sometimes_yield(id >> 4);
  if (id % 3 == 0) throw Failure{id, "failure " + std::to_string(id), std::vector<u64>(id % 200 + 1, id)};
  if (id % 3 == 1) throw Error("error " + std::to_string(id), id);
  throw id;
}

// What it is, from inside a catch block, with forks and yields while it is being handled.
u64 caught(u64 want) {
  u64 id = 0;
  try {
    throw;
  } catch (const Failure& f) {
    ayatori::this_thread::yield();
    id = f.id;
    expect(f.text == "failure " + std::to_string(id), true, "the text of a failure", id);
    expect(f.payload.size() == id % 200 + 1 && f.payload.back() == id, true, "the payload of a failure", id);
    u64 seen = 0;
    start(id >> 3, [&f, &seen] { seen = f.id; }).join();
    expect(seen, id, "an exception read by a child", id);
  } catch (const std::exception& e) {
    ayatori::this_thread::yield();
    const auto* const error = dynamic_cast<const Error*>(&e);
    if (expect(error != nullptr, true, "the type of an exception", want)) {
      id = error->id;
      expect(e.what() == "error " + std::to_string(id), true, "what an exception says", id);
    }
  } catch (const u64 number) {
    ayatori::this_thread::yield();
    id = number;
  }
  expect(id, want, "which exception was caught", want);
  return id;
}

u64 first_thrown(u64 id, int depth);  // model: what leaves thrower(id), 0: nothing
u64 thrower_serial(u64 id, int depth);

u64 thrower(u64 id, int depth) {
  const Counted unwound;
  u64 sum = id;
  if (depth == 0) {
    if (id % 2 == 0) throw_it(id | 1);
    return sum;
  }
  for (u64 i = 0; i < 2; ++i) {
    const u64 child = mix(id, i) | 2;
    u64 result = 0;
    ayatori::thread t([&result, child, depth] { result = thrower(child, depth - 1); });
    sometimes_yield(child >> 20);
    try {
      if (child % 5 == 0) {
        if (const std::exception_ptr error = t.join_nothrow()) std::rethrow_exception(error);
      } else {
        t.join();
      }
      sum += result;
    } catch (...) {
      const u64 which = caught(first_thrown(child, depth - 1));
      if (child % 4 == 0) throw;  // goes on, by another join
      if (child % 4 == 1) {       // another one is thrown and caught while this one is handled
        try {
          start(child >> 5, [child] { throw_it(child); }).join();
          expect(0, 1, "a throw", child);
        } catch (...) {
          caught(child);
        }
        try {
          throw;  // still this one
        } catch (...) {
          sum += caught(which);
        }
      }
      sum += 2 * which;
    }
  }
  return sum;
}

u64 thrower_serial(u64 id, int depth) {
  u64 sum = id;
  for (u64 i = 0; i < 2 && depth > 0; ++i) {
    const u64 child = mix(id, i) | 2;
    const u64 thrown = first_thrown(child, depth - 1);
    if (thrown == 0)
      sum += thrower_serial(child, depth - 1);
    else
      sum += (child % 4 == 1 ? thrown : 0) + 2 * thrown;
  }
  return sum;
}

u64 first_thrown(u64 id, int depth) {
  if (depth == 0) return id % 2 == 0 ? id | 1 : 0;
  for (u64 i = 0; i < 2; ++i) {
    const u64 child = mix(id, i) | 2;
    const u64 thrown = first_thrown(child, depth - 1);
    if (thrown != 0 && child % 4 == 0) return thrown;
  }
  return 0;
}

ayatori::global<ayatori::mutex> exceptions_turn;  // objects are counted

void exceptions(const Run& run) {
  const std::lock_guard turn(exceptions_turn.get());
  const long before = objects->load();
  for (int r = 0; r < run.scaled(25); ++r) {
    const u64 id = mix(run.seed, static_cast<u64>(r));
    const int depth = 3 + static_cast<int>(id >> 40 & 1);
    const u64 leaves = first_thrown(id, depth);
    try {
      const u64 sum = thrower(id, depth);
      expect(leaves, 0u, "whether nothing leaves a tree of throwers", id);
      if (leaves == 0) expect(sum, thrower_serial(id, depth), "what throwers return", id);
    } catch (...) {
      caught(leaves);
    }
    // Kept, handed to another thread, thrown there again.
    std::exception_ptr kept;
    try {
      throw_it(id);
    } catch (...) {
      kept = std::current_exception();
    }
    start(id, [kept = std::move(kept), id] {
      try {
        std::rethrow_exception(kept);
      } catch (...) {
        caught(id);
      }
    }).join();
  }
  expect(objects->load(), before, "objects that unwinding left", run.seed);
}

// ---------------------------------------------------------------------------------------------------- keys

ayatori::global<ayatori::atomic<long>> values_alive, values_made;
struct Value {
  Value() {
    values_alive->fetch_add(1, std::memory_order_relaxed);
    values_made->fetch_add(1, std::memory_order_relaxed);
  }
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
  ~Value() { values_alive->fetch_sub(1, std::memory_order_relaxed); }
  u64 number = 0;
  std::string text;
};
ayatori::local<Value> static_local;  // one for all processes
ayatori::global<ayatori::mutex> keys_turn;
ayatori::global<ayatori::atomic<long>> c_destroyed;

void destroy_c(void* value) {
  delete static_cast<u64*>(value);
  c_destroyed->fetch_add(1, std::memory_order_relaxed);
}

void keys(const Run& run) {
  const std::lock_guard turn(keys_turn.get());
  const long alive_before = values_alive->load(), made_before = values_made->load(), c_before = c_destroyed->load();
  long threads = 0;
  for (int round = 0; round < run.scaled(12); ++round) {
    ayatori::local<Value> local;
    ayatori_key_t key = 0;
    expect(ayatori_key_create(&key, destroy_c), 0, "ayatori_key_create", run.seed);
    Crew crew;
    for (int t = 0; t < 12; ++t, ++threads)
      crew.start(mix(run.seed, static_cast<u64>(t)), [&, t] {
        const u64 r = mix(run.seed, static_cast<u64>(round * 100 + t));
        expect(local.has_value() || static_local.has_value(), false, "whether a new thread has values", r);
        expect(ayatori_getspecific(key) == nullptr, true, "whether a new thread has no value", r);
        local->number = r;
        static_local->text = std::to_string(r);
        expect(ayatori_setspecific(key, new u64(r)), 0, "ayatori_setspecific", r);
        for (u64 i = 0; i < 3 + r % 5; ++i) {
          sometimes_yield(r >> i);
          // a child has its own
          ayatori::thread child([&local, r] {
            expect(local.has_value(), false, "whether a child inherits", r);
            expect(static_local->number, 0u, "a child's own value", r);
          });
          child.join();
          expect(local->number, r, "a thread's value after a fork", r);
          expect(static_local->text == std::to_string(r), true, "a thread's text after a fork", r);
          const auto* const mine = static_cast<const u64*>(ayatori_getspecific(key));
          if (expect(mine != nullptr, true, "whether a value is still there", r))
            expect(*mine, r, "a thread's specific value", r);
        }
      });
    crew.join();  // values of threads that were joined are gone
    expect(values_alive->load() - alive_before, 0, "values that outlive their threads", run.seed);
    expect(c_destroyed->load() - c_before, threads, "destructors of specific values", run.seed);
    expect(ayatori_key_delete(key), 0, "ayatori_key_delete", run.seed);
  }
  expect(values_made->load() - made_before >= 2 * threads, true, "values made", run.seed);
}

// ---------------------------------------------------------------------------------------------------- ring

// A token goes round the processes by placed threads; each writes its part of what the token carries.
void ring(const Run& run) {
  const int n = ayatori::process_count(), rounds = run.scaled(60);
  struct Token {
    std::vector<u64> trail;
    std::string text;
    u64 sum = 0;
  };
  const auto go = [&](u64 seed) {
    Token token;
    struct Step {
      static void to(Token& token, u64 seed, int hop, int hops) {
        expect(ayatori::process_id(), hop % ayatori::process_count(), "where a placed thread starts", seed);
        token.trail.push_back(mix(seed, static_cast<u64>(hop)));
        token.text += static_cast<char>('a' + hop % 26);
        token.sum += token.trail.back();
        sometimes_yield(seed >> hop % 50);
        if (hop + 1 == hops) return;
        ayatori::thread next(ayatori::on((hop + 1) % ayatori::process_count()), to, std::ref(token), seed, hop + 1,
                             hops);
        next.join();
        token.sum += static_cast<u64>(hop);  // on the way back
      }
    };
    const int hops = 2 * n + static_cast<int>(seed % 9);
    ayatori::thread(ayatori::on(0), Step::to, std::ref(token), seed, 0, hops).join();
    u64 want = 0;
    for (int h = 0; h < hops; ++h) want += mix(seed, static_cast<u64>(h)) + (h + 1 == hops ? 0 : static_cast<u64>(h));
    expect(token.sum, want, "the sum of a token", seed);
    expect(token.trail.size() == token.text.size() && token.trail.size() == static_cast<std::size_t>(hops), true,
           "the trail of a token", seed);
  };
  ayatori::parallel_for(0, rounds, 1, [&](int r) { go(mix(run.seed, static_cast<u64>(r))); });
  bool refused = false;
  try {
    ayatori::thread(ayatori::on(n), [] {}).join();
  } catch (const std::system_error&) {
    refused = true;
  }
  expect(refused, true, "whether a process that is not there is refused", run.seed);
}

constexpr Kind kKinds[] = {{"detached", detached}, {"exceptions", exceptions}, {"keys", keys}, {"ring", ring}};
}  // namespace

std::span<const Kind> life_kinds() { return kKinds; }
}  // namespace soak
