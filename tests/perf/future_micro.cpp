// SPDX-License-Identifier: Apache-2.0
// Nanoseconds of futures, stop tokens and once flags that nobody waits for, beside the standard library's, on process 0 of
// a job: alone, or under `ayatori run -n 2`. Prints a table; no arguments.
#include <algorithm>
#include <ayatori/ayatori.hpp>
#include <chrono>
#include <cstdio>
#include <future>
#include <mutex>
#include <optional>
#include <stop_token>

namespace {

constexpr long kCount = 100'000;

template <class F>
double best_ns(F f) {
  double best = 1e18;
  for (int round = 0; round < 7; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (long i = 0; i < kCount; ++i) f();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count() / static_cast<double>(kCount));
  }
  return best;
}

// Of set_value and get alone: kBatch promises at a time, made before and ended after.
template <class Promise, class Future>
void set_and_get(double* set, double* get) {
  constexpr std::size_t kBatch = 1000;
  *set = *get = 1e18;
  for (int round = 0; round < 50; ++round) {
    std::vector<Promise> promises(kBatch);
    std::vector<Future> futures;
    for (auto& p : promises) futures.push_back(p.get_future());
    const auto start = std::chrono::steady_clock::now();
    for (auto& p : promises) p.set_value(1);
    const auto middle = std::chrono::steady_clock::now();
    long sum = 0;
    for (auto& f : futures) sum += f.get();
    const auto end = std::chrono::steady_clock::now();
    if (sum != static_cast<long>(kBatch)) std::printf("wrong\n");
    const auto each = [](auto time) {
      return std::chrono::duration<double, std::nano>(time).count() / static_cast<double>(kBatch);
    };
    *set = std::min(*set, each(middle - start));
    *get = std::min(*get, each(end - middle));
  }
}

void row(const char* what, double ours, double standard) {
  const ayatori::pinned stay;
  if (standard > 0)
    std::printf("%-44s %8.1f %8.1f\n", what, ours, standard);
  else
    std::printf("%-44s %8.1f\n", what, ours);
}

int program(std::span<char*>) {
  const ayatori::pinned stay;
  std::printf("%-44s %8s %8s\n", "ns, the best of several rounds", "ayatori", "std");
  double set = 0, get = 0, std_set = 0, std_get = 0;
  set_and_get<ayatori::promise<int>, ayatori::future<int>>(&set, &get);
  set_and_get<std::promise<int>, std::future<int>>(&std_set, &std_get);
  row("promise::set_value", set, std_set);
  row("future::get, the result is there", get, std_get);
  row("promise, get_future, set_value, get, end", best_ns([] {
        ayatori::promise<int> p;
        auto f = p.get_future();
        p.set_value(1);
        (void)f.get();
      }),
      best_ns([] {
        std::promise<int> p;
        auto f = p.get_future();
        p.set_value(1);
        (void)f.get();
      }));
  ayatori::promise<int> p;
  p.set_value(1);
  const ayatori::shared_future<int> shared = p.get_future().share();
  std::promise<int> sp;
  sp.set_value(1);
  const std::shared_future<int> std_shared = sp.get_future().share();
  row("shared_future::get, again", best_ns([&] { (void)shared.get(); }), best_ns([&] { (void)std_shared.get(); }));
  row("shared_future, copy and end", best_ns([&] { const ayatori::shared_future<int> copy = shared; }),
      best_ns([&] { const std::shared_future<int> copy = std_shared; }));
  row("packaged_task, get_future, call, get, end", best_ns([] {
        ayatori::packaged_task<int()> t([] { return 1; });
        auto f = t.get_future();
        t();
        (void)f.get();
      }),
      best_ns([] {
        std::packaged_task<int()> t([] { return 1; });
        auto f = t.get_future();
        t();
        (void)f.get();
      }));
  row("async and get, not stolen", best_ns([] { (void)ayatori::async([] { return 1; }).get(); }), 0);
  row("thread and join, not stolen", best_ns([] { ayatori::thread([] {}).join(); }), 0);
  row("jthread and its end, not stolen", best_ns([] { const ayatori::jthread t([] {}); }), 0);
  const ayatori::stop_source source;
  const ayatori::stop_token token = source.get_token();
  const std::stop_source std_source;
  const std::stop_token std_token = std_source.get_token();
  row("stop_token::stop_requested", best_ns([&] { (void)token.stop_requested(); }),
      best_ns([&] { (void)std_token.stop_requested(); }));
  row("stop_token, copy and end", best_ns([&] { const ayatori::stop_token copy = token; }),
      best_ns([&] { const std::stop_token copy = std_token; }));
  row("stop_callback, registered and ended", best_ns([&] { const ayatori::stop_callback c(token, [] {}); }),
      best_ns([&] { const std::stop_callback c(std_token, [] {}); }));
  row("stop_source, made and ended", best_ns([] { const ayatori::stop_source s; }),
      best_ns([] { const std::stop_source s; }));
  ayatori::once_flag flag;
  std::once_flag std_flag;
  row("call_once, again", best_ns([&] { ayatori::call_once(flag, [] {}); }),
      best_ns([&] { std::call_once(std_flag, [] {}); }));
  row("mutex, made and ended", best_ns([] { const ayatori::mutex m; }), 0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return ayatori::run(argc, argv, program); }
