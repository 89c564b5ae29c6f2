// SPDX-License-Identifier: Apache-2.0
// task_group.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "cases.hpp"

namespace {

using ayatori::task_group;
using ayatori::task_group_status;

long fib(int n) {
  if (n < 2) {
    spin(2);
    return n;
  }
  long a = 0, b = 0;
  task_group group;
  group.run([&] { a = fib(n - 1); });
  group.run([&] { b = fib(n - 2); });
  CHECK(group.wait() == task_group_status::complete);
  return a + b;
}

void results() {
  // A task for each element: most of them end at once, the others wait to be joined.
  SHARED(2, [] {
    std::vector<unsigned> where(20000);
    std::vector<long> squares(where.size());
    task_group group;
    for (std::size_t i = 0; i < where.size(); ++i)
      group.run([&, i] {
        if (i % 20 == 0) spin(20);
        squares[i] = static_cast<long>(i * i);
        where[i] = here();
      });
    CHECK(group.wait() == task_group_status::complete);
    unsigned processes = 0;
    for (std::size_t i = 0; i < where.size(); ++i) {
      CHECK(squares[i] == static_cast<long>(i * i));
      processes |= where[i];
    }
    return processes;
  });
  // Tasks that run more tasks of their group.
  SHARED(2, [] {
    struct Node {
      unsigned where = 0;
      int value = 0;
    };
    std::vector<Node> nodes(1023);
    task_group group;
    struct Grow {
      task_group& group;
      std::vector<Node>& nodes;
      void operator()(std::size_t i) const {
        spin(3);
        nodes[i].value += static_cast<int>(i) + 1;
        nodes[i].where = here();
        for (const std::size_t child : {2 * i + 1, 2 * i + 2})
          if (child < nodes.size()) group.run([self = *this, child] { self(child); });
        spin(3);
      }
    };
    group.run_and_wait([&] { Grow{group, nodes}(0); });
    unsigned processes = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      CHECK(nodes[i].value == static_cast<int>(i) + 1);
      processes |= nodes[i].where;
    }
    return processes;
  });
  // A group in each thread.
  CHECK(fib(12) == 144);
  // What can only be moved; placed tasks; the group again.
  task_group group;
  for (int round = 0; round < 3; ++round) {
    std::vector<int> from(static_cast<std::size_t>(ayatori::process_count()), -1);
    int sum = 0;
    for (int p = 0; p < ayatori::process_count(); ++p)
      group.run(ayatori::on(p), [&from, p] { from[static_cast<std::size_t>(p)] = ayatori::process_id(); });
    group.run([&sum, seven = std::make_unique<int>(7)] { sum = *seven; });
    CHECK(group.wait() == task_group_status::complete);
    CHECK(sum == 7);
    for (int p = 0; p < ayatori::process_count(); ++p) CHECK(from[static_cast<std::size_t>(p)] == p);
  }
  CHECK(group.wait() == task_group_status::complete);  // of nothing
  bool ended = false;
  {
    task_group left;
    left.run(ayatori::on(ayatori::process_count() - 1), [&ended] {
      for (int i = 0; i < 100; ++i) ayatori::this_thread::yield();
      ended = true;
    });
  }
  CHECK(ended);
}

int last() { return ayatori::process_count() - 1; }

void wait_for_cancel(const task_group& group) {
  while (!group.is_canceling()) ayatori::this_thread::yield();
}

void cancellation() {
  for (int round = 0; round < 10; ++round) {
    task_group group;
    std::vector<int> saw(static_cast<std::size_t>(ayatori::process_count()), 0);
    for (int p = 0; p < ayatori::process_count(); ++p)
      group.run(ayatori::on(p), [&group, &saw, p] {
        wait_for_cancel(group);
        saw[static_cast<std::size_t>(p)] = 1;
      });
    CHECK(!group.is_canceling());
    group.cancel();
    CHECK(group.is_canceling());
    bool began = false;
    group.run([&began] { began = true; });
    group.run(ayatori::on(last()), [&began] { began = true; });
    CHECK(group.run_and_wait([&began] { began = true; }) == task_group_status::canceled);
    CHECK(!began && !group.is_canceling());
    group.run([&began] { began = true; });
    CHECK(group.wait() == task_group_status::complete && began);
  }
  // Canceled by a task on another process; an outer group's cancellation is the inner ones', not the other way round.
  task_group outer;
  task_group middle(&outer), inner(&middle), other;
  inner.run([&inner] { wait_for_cancel(inner); });
  middle.run([&middle] { wait_for_cancel(middle); });
  inner.cancel();
  CHECK(inner.is_canceling() && !middle.is_canceling() && !outer.is_canceling());
  CHECK(inner.wait() == task_group_status::canceled);
  inner.run([&inner] { wait_for_cancel(inner); });
  outer.run(ayatori::on(last()), [&outer] { outer.cancel(); });
  CHECK(inner.wait() == task_group_status::canceled);
  CHECK(middle.wait() == task_group_status::canceled);
  CHECK(inner.is_canceling() && middle.is_canceling() && !other.is_canceling());
  bool began = false;
  inner.run([&began] { began = true; });
  CHECK(inner.wait() == task_group_status::canceled && !began);
  CHECK(outer.wait() == task_group_status::canceled);
  CHECK(!inner.is_canceling());
  inner.run([&began] { began = true; });
  CHECK(inner.wait() == task_group_status::complete && began);
}

struct Mistake {
  static inline std::atomic<long> alive{0};  // each process's own
  std::string text;
  explicit Mistake(std::string t) : text(std::move(t)) { ++alive; }
  Mistake(const Mistake& m) : text(m.text) { ++alive; }
  ~Mistake() { --alive; }
};

template <class F>
void expect_mistake(F f) {
  try {
    f();
    CHECK(!"it returned");
  } catch (const Mistake& mistake) {
    CHECK(mistake.text == "a mistake that does not fit into the object itself");
  }
}
[[noreturn]] void make_mistake() { throw Mistake("a mistake that does not fit into the object itself"); }

void exceptions() {
  for (int round = 0; round < 10; ++round) {
    task_group group;
    // All others end because one of them throws, wherever it is.
    std::vector<int> ended(static_cast<std::size_t>(3 * ayatori::process_count()), 0);
    for (std::size_t i = 0; i < ended.size(); ++i)
      group.run(ayatori::on(static_cast<int>(i) % ayatori::process_count()), [&, i] {
        if (static_cast<int>(i) == round % static_cast<int>(ended.size())) {
          ended[i] = 1;
          make_mistake();
        }
        wait_for_cancel(group);
        ended[i] = 1;
        if (i % 2 == 0) throw 5;  // too late
      });
    expect_mistake([&] { group.wait(); });
    // Those that begin after the exception do nothing.
    CHECK(ended[static_cast<std::size_t>(round) % ended.size()] == 1);
    CHECK(!group.is_canceling());
    // From an ordinary task, from the caller's part, and from a task of a task; then nothing is left of it.
    group.run([] { make_mistake(); });
    wait_for_cancel(group);
    expect_mistake([&] { group.wait(); });
    expect_mistake([&] { group.run_and_wait([] { make_mistake(); }); });
    group.run([&group] { group.run([&group] { group.run([] { make_mistake(); }); }); });
    expect_mistake([&] { group.wait(); });
    CHECK(group.wait() == task_group_status::complete);
    // Through an outer group's task.
    task_group outer;
    outer.run(ayatori::on(last()), [&outer] {
      task_group inner(&outer);
      inner.run(ayatori::on(0), [] { make_mistake(); });
      inner.wait();
    });
    expect_mistake([&] { outer.wait(); });
    // Dropped, as nobody waits for it.
    outer.run([] { make_mistake(); });
  }
  long alive = 0;
  for (int p = 0; p < ayatori::process_count(); ++p)
    ayatori::thread(ayatori::on(p), [&alive] {
      const ayatori::pinned stay;
      alive += Mistake::alive;
    }).join();
  CHECK(alive == 0);
}

}  // namespace

void task_groups() {
  results();
  cancellation();
  exceptions();
}
