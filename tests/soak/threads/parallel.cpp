// SPDX-License-Identifier: Apache-2.0
// Kinds of structured parallelism: loops, groups.
#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "soak.hpp"

namespace soak {
namespace {

// ---------------------------------------------------------------------------------------------------- loops

// x -> a x + b: composition associates and does not commute.
struct Affine {
  u64 a = 1, b = 0;
  friend bool operator==(const Affine&, const Affine&) = default;
};
constexpr auto kCompose = [](const Affine& f, const Affine& g) { return Affine{f.a * g.a, f.b * g.a + g.b}; };

struct Record {
  std::uint32_t key;
  std::uint32_t number;
};

void loops(const Run& run) {
  for (int round = 0; round < run.scaled(5); ++round) {
    const u64 seed = mix(run.seed, static_cast<u64>(round));
    Random random(seed);
    const auto n = static_cast<std::size_t>(random.range(1, 40000));
    std::vector<u64> values(n), squares(n);
    ayatori::parallel_for(std::size_t{0}, n, [&](std::size_t i) { values[i] = mix(seed, i); });
    ayatori::parallel_for(std::size_t{0}, n, random.range(50, 3000),
                          [&](std::size_t i) { squares[i] = values[i] * values[i]; });
    std::size_t bad = 0;
    for (std::size_t i = 0; i < n; ++i) bad += values[i] != mix(seed, i) || squares[i] != values[i] * values[i];
    expect(bad, 0u, "elements of loops", n);

    const auto affine = [&](std::size_t i) { return Affine{values[i] | 1, squares[i]}; };
    Affine want;
    for (std::size_t i = 0; i < n; ++i) want = kCompose(want, affine(i));
    expect(ayatori::parallel_reduce(std::size_t{0}, n, Affine(), affine, kCompose) == want, true, "a reduction", n);
    expect(ayatori::parallel_reduce(std::size_t{0}, n, random.range(20, 2000), Affine(), affine, kCompose) == want,
           true, "a reduction with a grain", n);

    std::vector<u64> scanned(n), model(n);
    ayatori::parallel_inclusive_scan(values.begin(), values.end(), scanned.begin());
    std::inclusive_scan(values.begin(), values.end(), model.begin());
    expect(scanned == model, true, "an inclusive scan", n);
    std::exclusive_scan(values.begin(), values.end(), model.begin(), seed);
    scanned = values;
    ayatori::parallel_exclusive_scan(scanned.begin(), scanned.end(), scanned.begin(), seed);  // in place
    expect(scanned == model, true, "an exclusive scan", n);

    model = values;
    std::sort(model.begin(), model.end());
    ayatori::parallel_sort(values.begin(), values.end());
    expect(values == model, true, "a sort", n);
    std::vector<Record> records(n);
    for (std::size_t i = 0; i < n; ++i)
      records[i] = {static_cast<std::uint32_t>(squares[i] % 50), static_cast<std::uint32_t>(i)};
    ayatori::parallel_stable_sort(records.begin(), records.end(),
                                  [](const Record& a, const Record& b) { return a.key < b.key; });
    bad = 0;
    for (std::size_t i = 1; i < n; ++i) {
      const Record &a = records[i - 1], &b = records[i];
      bad += a.key > b.key || (a.key == b.key && a.number >= b.number);
    }
    expect(bad, 0u, "neighbours after a stable sort", n);
    std::vector<std::string> words(n / 20 + 1);
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = std::to_string(mix(seed, i) % 10000) + std::string(i % 30, 'w');
    auto sorted = words;
    std::sort(sorted.begin(), sorted.end());
    ayatori::parallel_sort(words.begin(), words.end());
    expect(words == sorted, true, "a sort of strings", n);

    // One part throws; the others' effects are there.
    std::vector<Byte> touched(300);
    const std::size_t thrower = random.below(300);
    bool thrown = false;
    try {
      ayatori::parallel_for(std::size_t{0}, std::size_t{300}, 1, [&](std::size_t i) {
        touched[i] = 1;
        if (i == thrower) throw std::out_of_range(std::to_string(i));
      });
    } catch (const std::out_of_range& e) {
      thrown = e.what() == std::to_string(thrower);
    }
    expect(thrown, true, "what a loop throws", thrower);
    expect(std::count(touched.begin(), touched.end(), 1), 300, "elements of a loop that throws", thrower);
  }
}

// ---------------------------------------------------------------------------------------------------- groups

void groups(const Run& run) {
  for (int round = 0; round < run.scaled(15); ++round) {
    const u64 seed = mix(run.seed, static_cast<u64>(round));
    Random random(seed);
    // Tasks that run more tasks: a tree, each node counted once.
    {
      ayatori::task_group group;
      ayatori::atomic<long> nodes{0};
      struct Tree {
        static void grow(ayatori::task_group& group, ayatori::atomic<long>& nodes, u64 seed, int depth) {
          nodes.fetch_add(1, std::memory_order_relaxed);
          for (u64 i = 0; i < 3 && depth > 0; ++i)
            group.run([&group, &nodes, seed, i, depth] { grow(group, nodes, mix(seed, i), depth - 1); });
          sometimes_yield(seed >> 9);
        }
      };
      const auto status = group.run_and_wait([&] { Tree::grow(group, nodes, seed, 4); });
      expect(status == ayatori::task_group_status::complete, true, "the status of a group", seed);
      expect(nodes.load(), 1 + 3 + 9 + 27 + 81, "the tasks of a group", seed);
    }
    // Placed tasks, and what they write.
    {
      ayatori::task_group group;
      std::vector<int> where(20, -1);
      for (std::size_t i = 0; i < where.size(); ++i)
        group.run(ayatori::on(anywhere(i)), [&where, i] { where[i] = ayatori::process_id(); });
      group.wait();
      for (std::size_t i = 0; i < where.size(); ++i) expect(where[i], anywhere(i), "where a placed task runs", seed);
    }
    // Cancelled from inside: everything that was begun ends, what ends is seen; inner groups are cancelled too.
    {
      ayatori::task_group outer;
      ayatori::atomic<long> begun{0}, ended{0};
      for (int t = 0; t < 8; ++t)
        outer.run([&, t] {
          begun.fetch_add(1, std::memory_order_relaxed);
          ayatori::task_group inner(&outer);
          for (int i = 0; i < 4; ++i)
            inner.run([&, i] {
              begun.fetch_add(1, std::memory_order_relaxed);
              for (int k = 0; k < 30 && !inner.is_canceling(); ++k) sometimes_yield(static_cast<u64>(k + i));
              ended.fetch_add(1, std::memory_order_relaxed);
            });
          if (t == static_cast<int>(seed % 8)) outer.cancel();
          inner.wait();
          ended.fetch_add(1, std::memory_order_relaxed);
        });
      expect(outer.wait() == ayatori::task_group_status::canceled, true, "the status of a cancelled group", seed);
      expect(begun.load(), ended.load(), "tasks of a cancelled group that have not ended", seed);
      expect(outer.is_canceling(), false, "whether a group is cancelled after its wait", seed);
    }
    // An exception of one task cancels the group and reaches who waits.
    {
      ayatori::task_group group;
      u64 seen = 0;
      for (u64 t = 0; t < 10; ++t)
        group.run([t, seed] {
          sometimes_yield(mix(seed, t));
          if (t == seed % 10) throw std::runtime_error(std::to_string(seed));
        });
      try {
        group.wait();
      } catch (const std::runtime_error& e) {
        seen = std::stoull(e.what());
      }
      // A group cancelled before the thrower began does not run it; nobody cancels this one but the thrower.
      expect(seen, seed, "what a group throws", seed);
    }
  }
}

constexpr Kind kKinds[] = {{"loops", loops}, {"groups", groups}};
}  // namespace

std::span<const Kind> parallel_kinds() { return kKinds; }
}  // namespace soak
