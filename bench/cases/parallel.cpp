// SPDX-License-Identifier: Apache-2.0
// What the parallel forms cost that nobody steals, beside the serial loop and a grain chosen by hand: per iteration of a
// loop over `length` numbers, by turns; of a task group's task.
#include <string>

#include "cases.hpp"

namespace cases {
namespace {

constexpr int kRounds = 15;
constexpr std::size_t kHandGrain = 4096;  // about 4 us of work a thread

constexpr auto step = [](std::uint32_t& x) { x = x * 1664525 + 1013904223; };

void serial(std::vector<std::uint32_t>& v) {
  for (std::uint32_t& x : v) step(x);
}
void by_hand(std::vector<std::uint32_t>& v) { ayatori::parallel_for(v.begin(), v.end(), kHandGrain, step); }
void automatic(std::vector<std::uint32_t>& v) { ayatori::parallel_for(v.begin(), v.end(), step); }
void one(std::vector<std::uint32_t>& v) { ayatori::parallel_for(v.begin(), v.end(), 1, step); }

void tasks(std::size_t count) {
  ayatori::task_group group;
  for (std::size_t i = 0; i < count; ++i) group.run([] {});
  group.wait();
}

}  // namespace

void parallel(const Options& o) {
  struct Loop {
    const char* name;
    void (*run)(std::vector<std::uint32_t>& v);
  };
  constexpr Loop kLoops[] = {
      {"serial", serial}, {"grain 4096", by_hand}, {"automatic grain", automatic}, {"grain 1", one}};
  for (const std::size_t length : {std::size_t{10}, std::size_t{1000}, std::size_t{1'000'000}}) {
    std::vector<std::uint32_t> v(length, 1);
    const std::size_t times = o.quick ? 1 : 4'000'000 / length;
    std::vector<Samples> samples(std::size(kLoops), room(kRounds));
    for (int round = 0; round < (o.quick ? 1 : kRounds); ++round)
      for (std::size_t i = 0; i < std::size(kLoops); ++i) {
        const std::int64_t start = now_ns();
        for (std::size_t t = 0; t < times; ++t) kLoops[i].run(v);
        samples[i].push_back(static_cast<double>(now_ns() - start) / static_cast<double>(times * length));
      }
    Samples ratio = room(kRounds);
    for (std::size_t r = 0; r < samples[0].size(); ++r) ratio.push_back(samples[2][r] / samples[1][r]);
    const std::string of = "loop over " + std::to_string(length) + ", ";
    for (std::size_t i = 0; i < std::size(kLoops); ++i) report((of + kLoops[i].name).c_str(), "ns", samples[i]);
    report((of + "automatic grain / grain 4096").c_str(), "x", ratio);
  }
  for (const std::size_t count : {std::size_t{2}, std::size_t{1000}}) {
    Samples samples = room(kRounds);
    const std::size_t times = o.quick ? 1 : 200'000 / count;
    for (int round = 0; round < (o.quick ? 1 : kRounds); ++round) {
      const std::int64_t start = now_ns();
      for (std::size_t t = 0; t < times; ++t) tasks(count);
      samples.push_back(static_cast<double>(now_ns() - start) / static_cast<double>(times * count));
    }
    report(("task group of " + std::to_string(count) + ", a task").c_str(), "ns", samples);
  }
}

}  // namespace cases
