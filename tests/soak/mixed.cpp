// SPDX-License-Identifier: Apache-2.0
// The soak program: `mixed SEED [SCENES]` runs a random mixture of everything that threads of several processes can do to
// each other, all of it free of data races, and checks every value against what the seed says it must be.
//
// Exit status 0 and a last line `check: ok`, or 1 and a line for each wrong value. Run by tests/soak/run.sh.
// M1. Every expected value is a function of the seed alone, never of a schedule.
// M2. Threads write adjacent bytes on purpose (parents' locals, heap pages): merges are at byte grain or they lose.
#include <array>
#include <ayatori/ayatori.hpp>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace {

using u64 = std::uint64_t;
using Byte = unsigned char;

u64 mix(u64 a, u64 b = 0) {
  u64 x = a + 0x9e3779b97f4a7c15ULL * (b + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

ayatori::global<ayatori::atomic<long>> wrong_values;

void expect(u64 got, u64 want, const char* what, u64 where) {
  if (got == want) return;
  if (wrong_values->fetch_add(1, std::memory_order_relaxed) < 20) {
    ayatori::pinned here;
    std::printf("WRONG %s at %llx: got %llx, want %llx (process %d worker %d)\n", what,
                static_cast<unsigned long long>(where), static_cast<unsigned long long>(got),
                static_cast<unsigned long long>(want), ayatori::process_id(), ayatori::worker_id());
  }
}

int anywhere(u64 random) { return static_cast<int>(random % static_cast<u64>(ayatori::process_count())); }

// A thread that starts anywhere, or, one time in four, on a random process.
template <class F>
ayatori::thread start(u64 random, F&& f) {
  if (random % 4 == 0) return ayatori::thread(ayatori::on(anywhere(random >> 8)), std::forward<F>(f));
  return ayatori::thread(std::forward<F>(f));
}

void sometimes_yield(u64 random) {
  if (random % 5 == 0) ayatori::this_thread::yield();
}

// ------------------------------------------------------------------------------------------------ random fork trees

struct Failure {
  u64 id;
};

struct TreeState {
  ayatori::mutex mutex;
  long nodes = 0;  // under mutex
  ayatori::atomic<long> atomic_nodes{0};
  std::vector<Byte> marks;  // one byte a node: everybody writes into everybody's words
};

constexpr int kMaxChildren = 4;
int children_of(u64 id, int depth) { return depth == 0 ? 0 : static_cast<int>(mix(id, 1) % (kMaxChildren + 1)); }
bool throws(u64 id) { return mix(id, 2) % 16 == 0; }

struct Expected {
  u64 value;
  long nodes;
};
Expected expected_tree(u64 id, int depth) {
  Expected e{mix(id, 3), 1};
  const int n = children_of(id, depth);
  for (int i = 0; i < n; ++i) {
    const u64 child = mix(id, 100 + static_cast<u64>(i));
    const Expected c = expected_tree(child, depth - 1);
    e.value += throws(child) ? child : c.value * static_cast<u64>(2 * i + 1);
    e.nodes += c.nodes;
  }
  return e;
}

u64 tree(TreeState& state, u64 id, int depth, long mark) {
  u64 value = mix(id, 3);
  state.marks[static_cast<std::size_t>(mark)] = static_cast<Byte>(id);
  if (mix(id, 4) % 2 == 0) {
    std::lock_guard lock(state.mutex);
    ++state.nodes;
  } else {
    state.atomic_nodes.fetch_add(1, std::memory_order_relaxed);
  }
  const int n = children_of(id, depth);
  // What children write: adjacent bytes and words of this frame, some of them also written by this thread meanwhile.
  Byte letters[2 * kMaxChildren] = {};
  u64 results[kMaxChildren] = {};
  std::unique_ptr<std::vector<u64>> gifts[kMaxChildren];
  std::string text[kMaxChildren];
  ayatori::mutex local_mutex;
  long local_count = 0;
  std::array<ayatori::thread, kMaxChildren> threads;
  long next_mark = mark + 1;
  for (int i = 0; i < n; ++i) {
    const u64 child = mix(id, 100 + static_cast<u64>(i));
    const long child_mark = next_mark;
    next_mark += expected_tree(child, depth - 1).nodes;
    auto* parcel = new std::vector<u64>(1 + child % 700, child);  // freed by the child
    threads[static_cast<std::size_t>(i)] = start(mix(child, 5), [&, child, child_mark, i, parcel] {
      const std::unique_ptr<std::vector<u64>> mine(parcel);
      sometimes_yield(mix(child, 6));
      letters[2 * i] = static_cast<Byte>(child >> 8);
      expect(mine->back(), child, "a parcel's content", child);
      results[i] = tree(state, child, depth - 1, child_mark);
      gifts[i] = std::make_unique<std::vector<u64>>(1 + child % 300, child ^ 1);
      text[i] = std::to_string(child);
      for (u64 k = 0; k < child % 4; ++k) {
        std::lock_guard lock(local_mutex);
        ++local_count;
      }
      if (throws(child)) throw Failure{child};
    });
    letters[2 * i + 1] = static_cast<Byte>(child >> 16);
  }
  long want_count = 0;
  for (int k = 0; k < n; ++k) {
    const int i = mix(id, 7) % 2 == 0 ? k : n - 1 - k;
    const u64 child = mix(id, 100 + static_cast<u64>(i));
    bool thrown = false;
    try {
      threads[static_cast<std::size_t>(i)].join();
    } catch (const Failure& failure) {
      thrown = true;
      expect(failure.id, child, "an exception's content", child);
      value += failure.id;
    }
    expect(thrown, throws(child), "whether a thread threw", child);
    expect(letters[2 * i], static_cast<Byte>(child >> 8), "a child's byte in its parent's frame", child);
    expect(letters[2 * i + 1], static_cast<Byte>(child >> 16), "a parent's byte between children's", child);
    expect(text[i] == std::to_string(child), 1, "a string written by a child", child);
    if (gifts[i] && gifts[i]->size() == 1 + child % 300)
      expect(gifts[i]->back(), child ^ 1, "a gift's content", child);
    else
      expect(0, 1, "a gift", child);
    if (!thrown) value += results[i] * static_cast<u64>(2 * i + 1);
    want_count += static_cast<long>(child % 4);
  }
  expect(static_cast<u64>(local_count), static_cast<u64>(want_count), "a counter under a mutex in a frame", id);
  return value;
}

void tree_scene(u64 seed) {
  int depth = 6;
  Expected want = expected_tree(seed, depth);
  while (want.nodes > 1500) want = expected_tree(seed, --depth);
  auto state = std::make_unique<TreeState>();
  state->marks.resize(static_cast<std::size_t>(want.nodes));
  expect(tree(*state, seed, depth, 0), want.value, "a tree's value", seed);
  expect(static_cast<u64>(state->nodes + state->atomic_nodes.load(std::memory_order_relaxed)),
         static_cast<u64>(want.nodes), "a tree's count", seed);
  struct Check {
    static long marks(const TreeState& s, u64 id, int depth, long mark) {
      expect(s.marks[static_cast<std::size_t>(mark)], static_cast<Byte>(id), "a mark in a shared page", id);
      long next = mark + 1;
      for (int i = 0; i < children_of(id, depth); ++i)
        next = marks(s, mix(id, 100 + static_cast<u64>(i)), depth - 1, next);
      return next;
    }
  };
  Check::marks(*state, seed, depth, 0);
}

// ------------------------------------------------------------------------------------------------ producers, consumers

struct Channel {
  ayatori::mutex mutex;
  ayatori::condition_variable not_empty, not_full;
  std::deque<std::unique_ptr<std::string>> items;
  int producers = 0;
};

void channel_scene(u64 seed) {
  const int producers = 1 + static_cast<int>(seed % 3), consumers = 1 + static_cast<int>(seed / 3 % 3);
  const int each = 20 + static_cast<int>(seed / 16 % 60);
  const std::size_t room = 1 + seed / 1024 % 8;
  Channel channel;
  channel.producers = producers;
  std::vector<u64> sums(static_cast<std::size_t>(consumers));
  std::vector<ayatori::thread> threads;
  for (int p = 0; p < producers; ++p) {
    threads.push_back(start(mix(seed, static_cast<u64>(p)), [&, p] {
      for (int i = 0; i < each; ++i) {
        auto item = std::make_unique<std::string>(std::to_string(mix(seed, static_cast<u64>(p * 1000 + i)) >> 8));
        std::unique_lock lock(channel.mutex);
        channel.not_full.wait(lock, [&] { return channel.items.size() < room; });
        channel.items.push_back(std::move(item));
        channel.not_empty.notify_one();
      }
      std::lock_guard lock(channel.mutex);
      if (--channel.producers == 0) channel.not_empty.notify_all();
    }));
  }
  for (int c = 0; c < consumers; ++c) {
    threads.push_back(start(mix(seed, static_cast<u64>(50 + c)), [&, c] {
      for (;;) {
        std::unique_ptr<std::string> item;
        {
          std::unique_lock lock(channel.mutex);
          channel.not_empty.wait(lock, [&] { return !channel.items.empty() || channel.producers == 0; });
          if (channel.items.empty()) return;
          item = std::move(channel.items.front());
          channel.items.pop_front();
          channel.not_full.notify_one();
        }
        sums[static_cast<std::size_t>(c)] += std::stoull(*item);
      }
    }));
  }
  for (auto& t : threads) t.join();
  u64 got = 0, want = 0;
  for (const u64 s : sums) got += s;
  for (int p = 0; p < producers; ++p)
    for (int i = 0; i < each; ++i) want += mix(seed, static_cast<u64>(p * 1000 + i)) >> 8;
  expect(got, want, "what went through a channel", seed);
  expect(channel.items.size(), 0, "the rest in a channel", seed);
}

// ------------------------------------------------------------------------------------------------ barriers

void barrier_scene(u64 seed) {
  const int parties = 2 + static_cast<int>(seed % 5), rounds = 10 + static_cast<int>(seed / 8 % 30);
  ayatori::barrier barrier(parties);
  std::vector<Byte> cells(
      static_cast<std::size_t>(parties));  // one word or two: everybody's byte is next to everybody's
  std::vector<ayatori::thread> threads;
  for (int t = 0; t < parties; ++t) {
    threads.push_back(start(mix(seed, static_cast<u64>(t)), [&, t] {
      for (int r = 1; r <= rounds; ++r) {
        cells[static_cast<std::size_t>(t)] = static_cast<Byte>(r * 7 + t);
        barrier.arrive_and_wait();
        for (int o = 0; o < parties; ++o)
          expect(cells[static_cast<std::size_t>(o)], static_cast<Byte>(r * 7 + o), "a cell after a barrier", seed);
        barrier.arrive_and_wait();
      }
    }));
  }
  for (auto& t : threads) t.join();
}

// ------------------------------------------------------------------------------------------------ large blocks

void large_scene(u64 seed) {
  const std::size_t bytes = (1u << 20) + seed % (2u << 20);
  const int parts = 2 + static_cast<int>(seed / 4096 % 5);
  auto* data = new Byte[bytes];
  const auto edge = [&](int i) {  // odd borders: two writers in one word
    return i == parts ? bytes : bytes / static_cast<std::size_t>(parts) * static_cast<std::size_t>(i) + (i ? 3 : 0);
  };
  std::vector<ayatori::thread> threads;
  for (int i = 0; i < parts; ++i)
    threads.push_back(start(mix(seed, static_cast<u64>(i)), [=] {
      for (std::size_t k = edge(i); k < edge(i + 1); ++k) data[k] = static_cast<Byte>(k * 31 + seed);
    }));
  for (auto& t : threads) t.join();
  u64 bad = 0;
  for (std::size_t k = 0; k < bytes; ++k) bad += data[k] != static_cast<Byte>(k * 31 + seed);
  expect(bad, 0, "bytes of a large block", seed);
  start(mix(seed, 99), [data] { delete[] data; }).join();
}

// ------------------------------------------------------------------------------------------------ a map under a mutex

void map_scene(u64 seed) {
  const int parties = 2 + static_cast<int>(seed % 4), each = 20 + static_cast<int>(seed / 8 % 60);
  ayatori::mutex mutex;
  std::map<std::string, std::vector<int>> map;
  std::vector<ayatori::thread> threads;
  for (int t = 0; t < parties; ++t)
    threads.push_back(start(mix(seed, static_cast<u64>(t)), [&, t] {
      for (int i = 0; i < each; ++i) {
        const u64 r = mix(seed, static_cast<u64>(t * 1000 + i));
        std::lock_guard lock(mutex);
        map["key " + std::to_string(r % 17)].push_back(t * 1000 + i);
        if (r % 7 == 0) map.erase("gone");
        if (r % 11 == 0) map["gone"] = std::vector<int>(r % 500, 1);
        sometimes_yield(r >> 32);
      }
    }));
  for (auto& t : threads) t.join();
  map.erase("gone");
  std::vector<Byte> seen(static_cast<std::size_t>(parties * 1000));
  long count = 0;
  for (const auto& [key, values] : map)
    for (const int v : values) {
      expect(v >= 0 && v < parties * 1000 && seen[static_cast<std::size_t>(v)]++ == 0, 1, "a value in a map", seed);
      ++count;
    }
  expect(static_cast<u64>(count), static_cast<u64>(parties * each), "the size of a map", seed);
}

// ------------------------------------------------------------------------------------------------ writes beside acquires

// One thread a process increments its own words of pages that all write, while others of the same process lock, join and
// operate on atomics, each of which is an acquire of that process.
void lost_write_scene(u64 seed) {
  const int parties = 2 * ayatori::process_count();
  const int steps = 2000 + static_cast<int>(seed % 4000);
  std::vector<u64> words(static_cast<std::size_t>(parties) * 40);
  ayatori::mutex mutex;
  long under_mutex = 0;
  ayatori::atomic<long> atomic{0};
  std::vector<ayatori::thread> threads;
  for (int t = 0; t < parties; ++t)
    threads.emplace_back(ayatori::on(t % ayatori::process_count()), [&, t] {
      const u64 r = mix(seed, static_cast<u64>(t));
      if (t < ayatori::process_count()) {
        for (int s = 0; s < steps; ++s)
          for (std::size_t k = 0; k < 40; ++k)
            ++words[k * static_cast<std::size_t>(parties) + static_cast<std::size_t>(t)];
        return;
      }
      for (u64 s = 0; s < 20 + r % 20; ++s) {
        if (s % 3 == 0) {
          std::lock_guard lock(mutex);
          ++under_mutex;
        } else if (s % 3 == 1) {
          atomic.fetch_add(1);
        } else {
          ++words[static_cast<std::size_t>(t)];
          ayatori::thread([&] { ++words[static_cast<std::size_t>(t + parties)]; }).join();
        }
      }
    });
  for (auto& t : threads) t.join();
  long want_mutex = 0, want_atomic = 0;
  for (int t = 0; t < parties; ++t) {
    const u64 r = mix(seed, static_cast<u64>(t));
    if (t < ayatori::process_count()) {
      for (std::size_t k = 0; k < 40; ++k)
        expect(words[k * static_cast<std::size_t>(parties) + static_cast<std::size_t>(t)], static_cast<u64>(steps),
               "a word incremented beside acquires", seed);
      continue;
    }
    const u64 n = 20 + r % 20;
    want_mutex += static_cast<long>((n + 2) / 3);
    want_atomic += static_cast<long>((n + 1) / 3);
    expect(words[static_cast<std::size_t>(t)], n / 3, "a word written by who acquires", seed);
    expect(words[static_cast<std::size_t>(t + parties)], n / 3, "a word written by a child of who acquires", seed);
  }
  expect(static_cast<u64>(under_mutex), static_cast<u64>(want_mutex), "a counter under a mutex", seed);
  expect(static_cast<u64>(atomic.load()), static_cast<u64>(want_atomic), "an atomic counter", seed);
}

// ------------------------------------------------------------------------------------------------ detached threads

void detached_scene(u64 seed) {
  const int count = 5 + static_cast<int>(seed % 40);
  struct Shared {
    ayatori::mutex mutex;
    ayatori::condition_variable done;
    int left = 0;
    u64 sum = 0;
  };
  Shared shared;
  shared.left = count;
  u64 want = 0;
  for (int i = 0; i < count; ++i) {
    const u64 r = mix(seed, static_cast<u64>(i));
    want += r;
    start(r, [&shared, r] {
      if (r % 9 == 0) ayatori::this_thread::sleep_for(std::chrono::microseconds(r % 500));
      std::lock_guard lock(shared.mutex);
      shared.sum += r;
      if (--shared.left == 0) shared.done.notify_one();
    }).detach();
  }
  std::unique_lock lock(shared.mutex);
  shared.done.wait(lock, [&] { return shared.left == 0; });
  expect(shared.sum, want, "the sum of detached threads", seed);
}

// ------------------------------------------------------------------------------------------------ the mixture

using Scene = void (*)(u64);
struct Named {
  const char* name;
  Scene scene;
};
constexpr Named kScenes[] = {{"tree", tree_scene},         {"tree", tree_scene},        {"channel", channel_scene},
                             {"barrier", barrier_scene},   {"large", large_scene},      {"map", map_scene},
                             {"beside", lost_write_scene}, {"detached", detached_scene}};

int mixed(std::span<char*> args) {
  if (args.size() < 2 || args.size() > 4) {
    std::fprintf(stderr, "usage: %s SEED [SCENES [NAME]]\n", args[0]);
    return 2;
  }
  const u64 seed = std::strtoull(args[1], nullptr, 0);
  const u64 scenes = args.size() > 2 ? std::strtoull(args[2], nullptr, 0) : 12;
  const char* only = args.size() > 3 ? args[3] : nullptr;
  // Three strands side by side; in each, one scene after the other, so that stacks and memory are used again.
  ayatori::parallel_for<u64>(0, 3, 1, [&](u64 strand) {
    for (u64 i = strand; i < scenes; i += 3) {
      const u64 r = mix(seed, i);
      const Named& named = kScenes[r % std::size(kScenes)];
      if (only && std::strcmp(only, named.name) != 0) continue;
      named.scene(mix(r));
    }
  });
  const long wrong = wrong_values->load();
  std::printf("check: %s\n", wrong == 0 ? "ok" : "FAILED");
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto args) { return mixed(args); });
}
