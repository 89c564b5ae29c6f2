// SPDX-License-Identifier: Apache-2.0
// What every litmus test shares. A test is one round of a few threads over a few cells; it counts what they read, and
// says which outcomes the memory model forbids. main.cpp runs the rounds for each layout of the cells.
//
// L1. Cells are plain bytes (`cell(i)`): what is tested is what plain reads and writes see. Layouts put them into one
//     word, into one page, into pages of their own; on the heap and on the first thread's stack. Beside each round's cells
//     every role writes a byte of its own between them (`noise`): false sharing, also in the same word.
// L2. Rounds use ever other values (1 .. 255), so that a stale read of an earlier round is seen as such: cells are compared
//     with the round's value, `hit(i)`.
// L3. Before a round every process has read the cells: copies that an acquire must let go of exist.
// L4. A role runs on the process it is given, or, in tests of steals, notes where it ran; `apart` counts rounds in which
//     the communicating roles were in different processes. A test in which that is not so in half of its rounds fails.
// L5. Tests of steals force them: a child lingers until its parent's continuation has run elsewhere, and the other workers
//     of its process are kept busy meanwhile (Alone), so that only another process can take it.
#pragma once

#include <sched.h>

#include <ayatori/ayatori.hpp>
#include <chrono>
#include <string>
#include <vector>

namespace litmus {

inline constexpr int kCells = 4;

struct Layout {
  const char* name;
  std::size_t stride;
  bool stack;
};

class Round {
 public:
  Round(unsigned char* base, std::size_t stride, int number)
      : base_(base), stride_(stride), value_(static_cast<unsigned char>(number % 255 + 1)), number_(number) {}

  int number() const { return number_; }
  // Process of role i; different roles get different ones while there are enough.
  int place(int i) const { return (number_ + i) % ayatori::process_count(); }
  void write(int i) { *cell(i) = value_; }
  bool hit(int i) const { return *cell(i) == value_; }
  // The byte of role i beside the cells.
  void noise(int i) { cell(i)[1] = static_cast<unsigned char>(value_ + i); }
  bool noise_right(int i) const { return cell(i)[1] == static_cast<unsigned char>(value_ + i); }
  volatile unsigned char* cell(int i) const { return base_ + static_cast<std::size_t>(i) * stride_; }

 private:
  unsigned char* base_;
  std::size_t stride_;
  unsigned char value_;
  int number_;
};

// The next process.
inline int away() { return (ayatori::process_id() + 1) % ayatori::process_count(); }

struct Verdict {
  bool forbidden;
  std::string outcome;  // for the histogram
  bool apart;           // roles that communicate were on different processes
};

struct Test {
  const char* name;
  const char* forbidden;  // the outcome, for people
  Verdict (*round)(Round& r);
};
struct Add {
  explicit Add(const Test& test);
};

// Runs the roles at once, each on its process; ends when all have ended. (Its fork and join order the rounds.)
template <class... Roles>
void roles(const Round& r, Roles&&... f) {
  ayatori::thread threads[sizeof...(f)];
  int i = 0;
  ((threads[i] = ayatori::thread(ayatori::on(r.place(i)), f), ++i), ...);
  for (auto& t : threads) t.join();
}

// Waits until all of n roles are here, without ordering anything: a meeting of relaxed atomics, so that roles overlap.
class Meeting {
 public:
  explicit Meeting(int n) : n_(n) {}
  void meet() {
    here_.fetch_add(1, std::memory_order_relaxed);
    for (int i = 0; i < 2000 && here_.load(std::memory_order_relaxed) < n_; ++i) ayatori::this_thread::yield();
  }

 private:
  int n_;
  ayatori::atomic<int> here_{0};
};

// Waits, without a scheduling point of the library, until `flag` has reached `want`; for seconds at most. (The system's
// sched_yield lets thieves have a core.)
inline void linger(const ayatori::atomic<int>& flag, int want) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  while (flag.load(std::memory_order_relaxed) < want && std::chrono::steady_clock::now() < until) {
    for (int i = 0; i < 50; ++i) __builtin_ia32_pause();
    sched_yield();
  }
}

// While it lives, the other workers of the process on which it was made have a thread each that computes.
class Alone {
 public:
  Alone() {
    const int others = ayatori::worker_count() - 1;
    for (int i = 0; i < others; ++i)
      threads_.emplace_back(ayatori::on(ayatori::process_id()), [this] {
        here_.fetch_add(1, std::memory_order_relaxed);
        linger(over_, 1);
      });
    linger(here_, others);
  }
  ~Alone() {
    over_.store(1, std::memory_order_relaxed);
    for (auto& t : threads_) t.join();
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

 private:
  ayatori::atomic<int> here_{0}, over_{0};
  std::vector<ayatori::thread> threads_;
};

inline std::string bits(std::initializer_list<bool> values) {
  std::string s;
  for (const bool v : values) s += v ? '1' : '0';
  return s;
}

}  // namespace litmus

#define LITMUS(id, name, forbidden)                                    \
  static ::litmus::Verdict round_##id(::litmus::Round& r);             \
  static const ::litmus::Add add_##id({name, forbidden, &round_##id}); \
  static ::litmus::Verdict round_##id([[maybe_unused]] ::litmus::Round& r)
