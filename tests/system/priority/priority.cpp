// SPDX-License-Identifier: Apache-2.0
// Threads of high priority that are ready run before normal ones, on their worker, when they begin and when they are stolen, and
// keep nobody from running; threads with a hint begin where it says, and elsewhere when nobody there has time.
//
// The last line is `check: ok` or `check: FAILED`. What never ends is for the test's time limit.
#include <algorithm>
#include <ayatori/ayatori.hpp>
#include <cstdio>
#include <deque>
#include <memory>
#include <vector>

namespace {

namespace here = ayatori::this_thread;
using ayatori::priority;

struct Checks {  // on the first thread's stack, which moves with it
  ayatori::atomic<int> wrong{0};
  void operator()(bool right, const char* what, long value) {
    if (right) return;
    std::printf("WRONG: %s (%ld)\n", what, value);
    wrong.fetch_add(1);
  }
};

constexpr int kEach = 8;  // threads of each priority; fewer than the turns after which a normal one comes first

bool one_worker() { return ayatori::worker_count() == 1; }

// What threads note as they run, in order.
class Order {
 public:
  void note(priority level) {
    const auto at = static_cast<std::size_t>(next_.fetch_add(1));
    level_[at] = level == priority::high ? 1 : 0;
    process_[at] = ayatori::process_id();
    noted_.fetch_add(1);
  }
  void wait() const {  // computes: the caller's worker runs nobody else
    while (noted_.load() != 2 * kEach) {
    }
  }
  int last_high() const {
    int last = -1;
    for (int i = 0; i < 2 * kEach; ++i)
      if (level_[i] == 1) last = i;
    return last;
  }
  int at_process(int p) const { return static_cast<int>(std::count(process_, process_ + 2 * kEach, p)); }

 private:
  ayatori::atomic<int> next_{0}, noted_{0};
  int level_[2 * kEach] = {}, process_[2 * kEach] = {};
};

// Threads that wait on this process, each at a semaphore of its own; normal ones are the first half.
struct Sleepers {
  explicit Sleepers(Order& order) {
    for (int i = 0; i < 2 * kEach; ++i) gates.emplace_back(0);
    for (int i = 0; i < 2 * kEach; ++i) {
      const priority level = i < kEach ? priority::normal : priority::high;
      threads.emplace_back(ayatori::on(ayatori::process_id(), level), [this, &order, level, i] {
        waiting.fetch_add(1);
        gates[static_cast<std::size_t>(i)].acquire();
        order.note(level);
      });
    }
    while (waiting.load() != 2 * kEach) here::yield();
  }
  void wake() {
    for (auto& gate : gates) gate.release();
  }
  void join() {
    for (ayatori::thread& t : threads) t.join();
  }
  std::deque<ayatori::binary_semaphore, ayatori::allocator<ayatori::binary_semaphore>> gates;
  std::vector<ayatori::thread> threads;
  ayatori::atomic<int> waiting{0};
};

// All workers of a process compute until it says so.
class Occupied {
 public:
  explicit Occupied(int p) {
    for (int i = 0; i < ayatori::worker_count(); ++i)
      threads_.emplace_back(ayatori::on(p), [this] {
        const ayatori::pinned stay;
        occupied_.fetch_add(1);
        while (go_.load() == 0) {
          if (ayatori::process_count() == 1) here::yield();  // others need the workers, too
        }
      });
    while (occupied_.load() != ayatori::worker_count()) here::yield();
  }
  void leave() {
    go_.store(1);
    for (ayatori::thread& t : threads_) t.join();
  }
  void let_go() { go_.store(1); }

 private:
  ayatori::atomic<int> occupied_{0}, go_{0};
  std::vector<ayatori::thread> threads_;
};

// Woken last, they run first. One of eight takes may be a normal thread's turn.
void run_first(Checks& check) {
  Order order;
  Sleepers sleepers(order);
  sleepers.wake();
  sleepers.join();
  if (ayatori::process_count() == 1 && one_worker())
    check(order.last_high() <= kEach, "a high thread ran late", order.last_high());
}

// Nobody of this process has time: another one takes all, the high ones first.
void are_stolen_first(Checks& check) {
  if (ayatori::process_count() != 2 || !one_worker()) return;
  const ayatori::pinned stay;
  const int home = ayatori::process_id();
  Order order;
  Sleepers sleepers(order);
  Occupied other(1 - home);
  sleepers.wake();
  other.let_go();
  order.wait();
  sleepers.join();
  other.leave();
  check(order.at_process(1 - home) == 2 * kEach, "threads that were stolen", order.at_process(1 - home));
  check(order.last_high() == kEach - 1, "a high thread was stolen late", order.last_high());
}

// Placed on a process whose worker computes: when it has time, the high ones begin first.
void begin_first(Checks& check) {
  const int p = ayatori::process_count() - 1;
  Order order;
  Occupied there(p);
  std::vector<ayatori::thread> threads;
  for (int i = 0; i < 2 * kEach; ++i) {
    const priority level = i < kEach ? priority::normal : priority::high;
    threads.emplace_back(ayatori::on(p, level), [&order, level, p, &check] {
      check(ayatori::process_id() == p, "a placed thread began on another process", ayatori::process_id());
      order.note(level);
    });
  }
  there.leave();
  for (ayatori::thread& t : threads) t.join();
  // Where processes send messages, the one that ends the occupation may come before those that place threads.
  const bool in_order = ayatori::snapshot().messages_sent == 0;
  if (one_worker() && in_order) check(order.last_high() <= kEach, "a high thread began late", order.last_high());
  check(order.at_process(p) == 2 * kEach, "threads that began where they were placed", order.at_process(p));
}

// Threads of high priority that never wait, two for each worker: normal ones go on, if slowly.
void starve_nobody(Checks& check) {
  constexpr int kRounds = 100;
  ayatori::atomic<int> over{0}, spinning{0};
  ayatori::atomic<long> turns{0};
  const int spinners = 2 * ayatori::worker_count() * ayatori::process_count();
  std::vector<ayatori::thread> threads;
  for (int i = 0; i < spinners; ++i)
    threads.emplace_back(ayatori::on(i % ayatori::process_count(), priority::high), [&] {
      check(here::get_priority() == priority::high, "its priority", 0);
      spinning.fetch_add(1);
      while (over.load() == 0) {
        turns.fetch_add(1, std::memory_order_relaxed);
        here::yield();
      }
    });
  while (spinning.load() != spinners) here::yield();
  const long before = turns.load();
  for (int r = 0; r < kRounds; ++r) here::yield();
  const long during = turns.load() - before;
  over.store(1);
  for (ayatori::thread& t : threads) t.join();
  if (ayatori::process_count() != 1 || !one_worker()) return;
  check(during >= kRounds * 14L, "turns of high threads, too few", during);
  check(during <= kRounds * 17L, "turns of high threads, too many", during);
}

// A thread gives itself another priority, and it holds from the next time on that it waits.
void change(Checks& check) {
  check(here::get_priority() == priority::normal, "the first thread's priority", 0);
  here::set_priority(priority::high);
  check(here::get_priority() == priority::high, "a priority that was set", 0);
  ayatori::thread child([&] { check(here::get_priority() == priority::normal, "a child's priority", 0); });
  child.join();
  here::set_priority(priority::normal);
  check(here::get_priority() == priority::normal, "a priority that was taken back", 0);
}

// High and normal threads that wake each other across workers and processes.
void talk(Checks& check) {
  constexpr int kPairs = 12, kRounds = 100;
  struct Pair {
    ayatori::binary_semaphore ping{0}, pong{0};
    long said = 0;
  };
  std::vector<std::unique_ptr<Pair>> pairs;
  std::vector<ayatori::thread> threads;
  for (int i = 0; i < kPairs; ++i) {
    pairs.push_back(std::make_unique<Pair>());
    Pair& pair = *pairs.back();
    const auto level = [i](int bit) { return (i & bit) != 0 ? priority::high : priority::normal; };
    threads.emplace_back(ayatori::on(i % ayatori::process_count(), level(1)), [&pair] {
      for (int r = 0; r < kRounds; ++r) {
        ++pair.said;
        pair.ping.release();
        pair.pong.acquire();
      }
    });
    threads.emplace_back(ayatori::on((i + 1) % ayatori::process_count(), level(2)), [&pair, i] {
      for (int r = 0; r < kRounds; ++r) {
        pair.ping.acquire();
        ++pair.said;
        if (r == kRounds / 2) here::set_priority(i % 2 != 0 ? priority::high : priority::normal);
        pair.pong.release();
      }
    });
  }
  for (ayatori::thread& t : threads) t.join();
  for (int i = 0; i < kPairs; ++i)
    check(pairs[static_cast<std::size_t>(i)]->said == 2 * kRounds, "what a pair said", i);
}

// ------------------------------------------------------------------------------------------------ hints

void follow_hints(Checks& check) {
  constexpr std::size_t kBytes = 8 << 20;
  const ayatori::pinned stay;
  const int home = ayatori::process_id(), processes = ayatori::process_count();
  const auto data = std::make_unique<char[]>(kBytes);
  const char local = 0;
  check(ayatori::near(&local).process == home, "whose process is the caller's stack", ayatori::near(&local).process);
  static int outside;
  check(ayatori::near(&outside).process == -1, "near() of what is not in the space", ayatori::near(&outside).process);
  // A large allocation lies in one block a process.
  std::vector<int> seen(static_cast<std::size_t>(processes), 0);
  for (std::size_t at = 0; at < kBytes; at += 4096) {
    const int p = ayatori::near(&data[at]).process;
    check(p >= 0 && p < processes, "near() of memory of the space", p);
    if (p >= 0 && p < processes) ++seen[static_cast<std::size_t>(p)];
  }
  for (int p = 0; p < processes; ++p) check(seen[static_cast<std::size_t>(p)] > 0, "pages of a process", p);
  const auto place_of = [&](int p) {
    std::size_t at = 0;
    while (ayatori::near(&data[at]).process != p) at += 4096;
    return &data[at];
  };

  // The caller computes, the process of the data has time.
  for (int p = 0; p < processes; ++p) {
    char* const there = place_of(p);
    ayatori::atomic<int> began{-1};
    ayatori::thread t(ayatori::near(there), [&] {
      *there = 'x';
      began.store(ayatori::process_id());
    });
    while (began.load() < 0) {
    }
    if (processes <= 2 && one_worker()) check(began.load() == p, "a hint was not followed", began.load());
    t.join();
    check(*there == 'x', "what a thread with a hint wrote", p);
  }
  if (processes == 1 || !one_worker()) return;
  // The process of the data computes, the caller's has time: it takes what it had sent. Or the caller's has none either, and
  // a third one takes it.
  ayatori::atomic<int> at{-1};
  const int other = (home + 1) % processes;
  Occupied busy(other);
  ayatori::thread t(ayatori::near(place_of(other)), [&] { at.store(ayatori::process_id()); });
  while (processes == 3 && at.load() < 0) {
  }
  t.join();
  check(at.load() == (processes == 3 ? (home + 2) % processes : home), "who took a thread from who had no time",
        at.load());
  busy.leave();
}

}  // namespace

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto) {
    Checks check;
    change(check);
    run_first(check);
    are_stolen_first(check);
    begin_first(check);
    starve_nobody(check);
    talk(check);
    follow_hints(check);
    std::printf("check: %s\n", check.wrong.load() == 0 ? "ok" : "FAILED");
    return check.wrong.load() == 0 ? 0 : 1;
  });
}
