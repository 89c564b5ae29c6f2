// SPDX-License-Identifier: Apache-2.0
// packaged_task, async, and results that are ready when a thread ends.
#include <functional>
#include <memory>

#include "cases.hpp"

namespace {

using namespace std::chrono_literals;
using ayatori::async;
using ayatori::future;
using ayatori::future_status;
using ayatori::launch;
using ayatori::packaged_task;

void packaged() {
  for (int round = 0; round < 10; ++round) {
    const ayatori::on there(round % ayatori::process_count());
    packaged_task<std::string(int)> text([own = std::make_unique<int>(round)](int n) { return long_text(n + *own); });
    auto result = text.get_future();
    unsigned ran_on = 0;
    ayatori::thread runs(there, [&ran_on, text = std::move(text)]() mutable {
      ran_on = here();
      text(1);
    });
    CHECK(result.get() == long_text(round + 1));
    runs.join();
    CHECK(ran_on == 1u << there.process);
  }
  packaged_task<int()> none;
  CHECK(!none.valid());
  EXPECT_ERROR(no_state, none());
  EXPECT_ERROR(no_state, (void)none.get_future());
  EXPECT_ERROR(no_state, none.reset());
  int calls = 0;
  packaged_task task([&calls] { return ++calls; });  // its signature is deduced
  auto first = task.get_future();
  EXPECT_ERROR(future_already_retrieved, (void)task.get_future());
  task();
  EXPECT_ERROR(promise_already_satisfied, task());
  CHECK(first.get() == 1);
  task.reset();
  auto second = task.get_future();
  task.reset();
  EXPECT_ERROR(broken_promise, second.get());
  auto third = task.get_future();
  std::swap(task, none);
  none();
  CHECK(third.get() == 2);
  packaged_task<void(int&)> writes([](int& to) { to = 9; });
  auto written = writes.get_future();
  int target = 0;
  writes(target);
  written.get();
  CHECK(target == 9);
  packaged_task<int&()> refers([&target]() -> int& { return target; });
  auto reference = refers.get_future();
  refers();
  CHECK(&reference.get() == &target);
  packaged_task<void()> throws([] { throw Tracked(long_text(1)); });
  auto thrown = throws.get_future();
  ayatori::thread(ayatori::on(last()), [&] { throws(); }).join();
  try {
    thrown.get();
    CHECK(!"it returned");
  } catch (const Tracked& t) {
    CHECK(t.text == long_text(1));
  }
}

long fib(int n) {
  if (n < 2) {
    spin(2);
    return n;
  }
  auto a = async(launch::async, fib, n - 1);
  const long b = fib(n - 2);
  return a.get() + b;
}

void asyncs() {
  // Other processes steal continuations.
  const std::uint64_t before = remote_steals();
  bool stolen = false;
  for (int i = 0; i < 2 || (ayatori::process_count() > 1 && !stolen && i < 500); ++i) {
    CHECK(fib(14) == 377);
    stolen = remote_steals() > before;
  }
  CHECK(ayatori::process_count() == 1 || stolen);
  for (int round = 0; round < 10; ++round) {
    std::vector<future<unsigned>> where;
    for (int p = 0; p < ayatori::process_count(); ++p)
      where.push_back(async(
          ayatori::on(p),
          [](std::unique_ptr<int> own, const Tracked& t) {
            const ayatori::pinned stay;
            CHECK(*own == 4 && t.text == long_text(4));
            return here();
          },
          std::make_unique<int>(4), Tracked(long_text(4))));
    for (std::size_t p = 0; p < where.size(); ++p) CHECK(where[p].get() == 1u << p);
    CHECK(Tracked::alive->load() == 0);  // arguments go with the task
  }
  try {
    (void)async(ayatori::on(ayatori::process_count()), [] {});
    CHECK(!"it returned");
  } catch (const std::system_error& e) {
    CHECK(e.code() == std::errc::invalid_argument);
  }
  int target = 0;
  int& reference = async([](int& at) -> int& { return at; }, std::ref(target)).get();
  CHECK(&reference == &target);
  async([&target] { target = 8; }).get();
  CHECK(target == 8);
  struct Counter {
    int n = 0;
    int add(int by) { return n += by; }
  } counter;
  CHECK(async(&Counter::add, &counter, 3).get() == 3 && counter.n == 3);
  try {
    async(ayatori::on(last()), [] { throw Tracked(long_text(2)); }).get();
    CHECK(!"it returned");
  } catch (const Tracked& t) {
    CHECK(t.text == long_text(2));
  }
  // The last future waits for the thread.
  for (int round = 0; round < 10; ++round) {
    bool ended = false;
    {
      auto waits = async(ayatori::on(last()), [&ended] {
        yields(20);
        ended = true;
      });
      if (round % 2 == 0) {
        ayatori::shared_future<void> shared = waits.share();
        ayatori::thread(ayatori::on(last()), [last_one = std::move(shared), &ended]() mutable {
          last_one = ayatori::shared_future<void>();
          CHECK(ended);
        }).join();
      }
    }
    CHECK(ended);
  }
}

// Copying it waits, so that whoever copies it goes on elsewhere.
ayatori::mutex copying;
struct Waits {
  int n;
  explicit Waits(int number) : n(number) {}
  Waits(const Waits& other) : n(other.n) {
    const std::lock_guard lock(copying);
    ayatori::this_thread::yield();
    if (n < 0) throw n;
  }
};

void slow_copies() {
  for (int round = 0; round < 20; ++round)
    everywhere([&, waits = Waits(round)](int n) {
      const Waits mine(round + n);
      auto placed = async(ayatori::on(n % ayatori::process_count()), [mine] { return mine.n; });
      auto forked = async([mine, waits] { return mine.n + waits.n; });
      CHECK(placed.get() == round + n && forked.get() == 2 * round + n);
      try {
        ayatori::thread([](const Waits&) {}, Waits(-1)).join();
        CHECK(!"it returned");
      } catch (int minus) {
        CHECK(minus == -1);
      }
    });
}

void deferred() {
  for (int round = 0; round < 5; ++round) {
    int ran = 0;
    ayatori::thread::id by;
    auto one = async(launch::deferred, [&] {
      ++ran;
      by = ayatori::this_thread::get_id();
      return Tracked(long_text(round));
    });
    CHECK(one.wait_for(0s) == future_status::deferred && one.wait_for(1h) == future_status::deferred && ran == 0);
    ayatori::thread(ayatori::on(last()), [&] {
      CHECK(one.get().text == long_text(round));
      CHECK(by == ayatori::this_thread::get_id());
    }).join();
    CHECK(ran == 1);
    // Of many that wait, one runs it.
    auto shared = async(launch::deferred, [&] {
                    yields(5);
                    return ++ran;
                  }).share();
    everywhere([&](int) { CHECK(shared.get() == 2); });
    CHECK(ran == 2);
    auto never = async(launch::deferred, [&] { ++ran; });
    never = {};
    CHECK(ran == 2);
    auto throws = async(launch::deferred, [] { throw 3; });
    try {
      throws.get();
      CHECK(!"it returned");
    } catch (int three) {
      CHECK(three == 3);
    }
  }
  CHECK((launch::async | launch::deferred) == (~launch() & ~launch()));
}

// Set by the destructor of a thread's local; also one that asks for results at the end itself.
struct Ending {
  int* at = nullptr;
  ayatori::promise<int>* promise = nullptr;
  ~Ending() {
    if (at) *at += 1;
    if (promise) promise->set_value_at_thread_exit(5);
  }
};
ayatori::local<Ending> ending;

void ends() {
  for (int round = 0; round < 20; ++round) {
    int value = 0;
    ayatori::promise<int> number, other;
    ayatori::promise<void> nothing, error;
    ayatori::promise<int&> reference;
    packaged_task<Tracked()> task([round] { return Tracked(long_text(round)); });
    auto f = number.get_future(), fo = other.get_future();
    auto fn = nothing.get_future(), fe = error.get_future();
    auto fr = reference.get_future();
    auto ft = task.get_future();
    ayatori::thread sets(ayatori::on(round % ayatori::process_count()), [&] {
      ending->at = &value;
      ending->promise = &other;
      number.set_value_at_thread_exit(round);
      EXPECT_ERROR(promise_already_satisfied, number.set_value(1));
      CHECK(fr.wait_for(0s) == future_status::timeout);
      nothing.set_value_at_thread_exit();
      reference.set_value_at_thread_exit(value);
      error.set_exception_at_thread_exit(std::make_exception_ptr(Tracked(long_text(round))));
      task.make_ready_at_thread_exit();
      CHECK(ft.wait_for(0s) == future_status::timeout);
    });
    CHECK(f.get() == round);
    CHECK(value == 1);  // its local is gone
    fn.get();
    CHECK(&fr.get() == &value && fo.get() == 5 && ft.get().text == long_text(round));
    try {
      fe.get();
      CHECK(!"it returned");
    } catch (const Tracked& t) {
      CHECK(t.text == long_text(round));
    }
    sets.join();
  }
}

}  // namespace

void tasks() {
  packaged();
  asyncs();
  slow_copies();
  deferred();
  ends();
}
