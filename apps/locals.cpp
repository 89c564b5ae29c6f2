// SPDX-License-Identifier: Apache-2.0
// locals N: the thesis' listing 3.1. A function has a local variable and starts a thread on another process, which
// stores through a pointer to it; after the join the value is there. N rounds of each of the variants below. This is
// what a pointer into a stack must be able to do, and nothing else: no work, every join waits for another process.
#include "common/program.hpp"

namespace {

struct Options {
  std::int64_t rounds = 200;
  std::int64_t depth = 8;
  bool serial = false;
};

template <class Mode>
int next_process() {
  return (Mode::process_id() + 1) % Mode::process_count();
}

void f(int* x) { *x = 1; }

// Listing 3.1.
template <class Mode>
int g() {
  int x = 0;
  auto t = Mode::thread_on(next_process<Mode>(), [p = &x] { f(p); });
  t.join();
  return x;
}

// An array of several pages; one thread a process fills an interleaved share of it, so that each page is written by all.
template <class Mode>
std::int64_t array_round() {
  constexpr int kElements = 4096;
  constexpr int kThreadsMax = 64;
  std::int32_t a[kElements] = {};
  typename Mode::thread threads[kThreadsMax];
  const int count = std::min(std::max(Mode::process_count(), 2), kThreadsMax);
  for (int k = 0; k < count; ++k)
    threads[k] = Mode::thread_on(k % Mode::process_count(), [p = a, k, count] {
      for (int i = k; i < kElements; i += count) p[i] = i;
    });
  for (int k = 0; k < count; ++k) threads[k].join();
  std::int64_t sum = 0;
  for (const std::int32_t value : a) sum += value;
  return sum - std::int64_t{kElements} * (kElements - 1) / 2;  // 0 is right
}

// A chain of threads, each on the next process; each adds one to the locals of all its ancestors.
struct Frame {
  std::int64_t value = 0;
  Frame* up = nullptr;
};

template <class Mode>
void descend(Frame& up, std::int64_t depth) {
  for (Frame* frame = &up; frame; frame = frame->up) ++frame->value;
  if (depth == 0) return;
  Frame mine;
  mine.up = &up;
  auto t = Mode::thread_on(next_process<Mode>(), [p = &mine, depth] { descend<Mode>(*p, depth - 1); });
  t.join();
  if (mine.value != depth) up.value = -1'000'000;  // seen by the outermost frame, whatever is added later
}

template <class Mode>
std::int64_t nested_round(std::int64_t depth) {
  Frame frame;
  descend<Mode>(frame, depth);
  return frame.value - (depth + 1);  // 0 is right
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  common::Arguments arguments("locals",
                              "A thread on another process writes its parent's local variables (listing 3.1).");
  arguments.size("N", &options.rounds, 1, 100'000'000, "rounds");
  arguments.number("--depth", &options.depth, 1, 1000, "threads in the nested chain");
  arguments.flag("--serial", &options.serial, "plain calls");
  if (const auto status = arguments.parse(argc, argv)) return *status;

  return common::start(argc, argv, options, options.serial, [](auto mode, const Options& o) {
    using Mode = decltype(mode);
    std::int64_t scalar_right = 0, array_right = 0, nested_right = 0;
    const common::Timer<Mode> timer;
    for (std::int64_t i = 0; i < o.rounds; ++i) {
      scalar_right += g<Mode>() == 1;
      array_right += array_round<Mode>() == 0;
      nested_right += nested_round<Mode>(o.depth) == 0;
    }
    const double seconds = timer.seconds();
    int status = 0;
    Mode::on_process_0([&] {
      std::printf("right of %lld rounds: scalar %lld, array %lld, nested %lld\n", static_cast<long long>(o.rounds),
                  static_cast<long long>(scalar_right), static_cast<long long>(array_right),
                  static_cast<long long>(nested_right));
      status = common::finish(seconds, scalar_right == o.rounds && array_right == o.rounds && nested_right == o.rounds);
    });
    return status;
  });
}
